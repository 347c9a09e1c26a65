"""Common base of users, groups and policies: create, find, list and delete.

A unique id is generated at each creation. Relations, access keys and tokens contain the unique id,
and count only while the record of the same name has it. So a user created again under an old name
inherits nothing.

**Deleting** takes three steps, since no write changes two keys:

1. *Mark* the record as being deleted. From now on it is invisible. (If its relations were removed
   first, a user might temporarily lose a denying policy and still have an allowing one.)
2. *Prune*: remove the other keys with its unique id.
3. Remove the record itself, by `delete_if` on the mark.

If the process dies between these steps, the mark stays. The next creation or deletion of the same
name finishes the deletion first. A slow process may write another key with the old unique id after
step 2; such a key does not count, and readers remove it.
"""

import logging
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import ClassVar, Final, Generic, TypeVar

from google.protobuf.message import DecodeError

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.keys import AUTH, start_after
from lakebed.auth.errors import AlreadyExists, AuthNotFound, AuthTooManyTries, InvalidName
from lakebed.auth.model import AuthPage
from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.kv import ABSENT, CorruptRecord, Item, OutcomeUnknown, PredicateFailed, Store
from lakebed.kv.records import Record, RecordKind, Records

_BYTES_MAX: Final = 255
_FORBIDDEN: Final = frozenset('/*?${}"\\[]')


def is_name(name: str) -> bool:
    """Return whether a user, group or policy can have this name.

    A name is part of a key of the store, of a resource name and of a URL, so characters with a
    meaning in these are forbidden. Mail addresses and names of people are valid.
    """
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _BYTES_MAX
        and name.strip() == name
        and name not in {".", ".."}
        and _FORBIDDEN.isdisjoint(name)
        # Control characters, surrogates, unassigned code points.
        and not any(unicodedata.category(character).startswith("C") for character in name)
    )


def check_name(noun: str, name: str) -> str:
    """Return a name if valid for a user, group or policy."""
    if not is_name(name):
        raise InvalidName(
            f"invalid {noun} name {name!r}: use 1 to {_BYTES_MAX} bytes without control characters,"
            ' / * ? $ { } [ ] " \\, and leading or trailing space'
        )
    return name


MessageT = TypeVar("MessageT", pb.User, pb.Group, pb.Policy)
EntityT = TypeVar("EntityT")

Prune = Callable[[str, UniqueID], None]
"""Removes every other key with the unique id of an entity."""

Changed = Callable[[], None]
"""Called after every write that may revoke a permission."""

TRIES: Final = 100

_LOGGER: Final = logging.getLogger(__name__)


class Entities(ABC, Generic[MessageT, EntityT]):
    """The records of one kind: all users, all groups or all policies.

    Raises:
        AuthNotFound: The entity does not exist, or is being deleted.
        InvalidName: The name of a new entity is not valid.
        AlreadyExists: The name of a new entity is taken.
        OutcomeUnknown: The write may have been done.
    """

    noun: ClassVar[str]
    missing: ClassVar[type[AuthNotFound]]
    """The error for a missing entity."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        kind: RecordKind[MessageT],
        *,
        prune: Prune,
        changed: Changed,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._kind: RecordKind[MessageT] = kind
        self._records: Records[MessageT] = Records(store, kind, AUTH)
        self._prune = prune
        self._changed = changed

    @abstractmethod
    def entity(self, name: str, message: MessageT) -> EntityT:
        """Return the value of a record."""

    def get(self, name: str) -> EntityT:
        return self.entity(name, self.live(name).message)

    def list(self, *, prefix: str = "", after: str = "", amount: int = 100) -> AuthPage[EntityT]:
        """Return entities with `prefix`, ordered by name, beginning after `after`."""
        records = self._records.scan(
            prefix=prefix.encode(), start=start_after(after.encode()), limit=None
        )
        return page_of(
            (
                self.entity(record.name.decode(), record.message)
                for record in records
                if not record.message.deleting
            ),
            amount,
        )

    def delete(self, name: str) -> None:
        """Delete an entity and all references to it.

        Raises:
            AuthNotFound: The entity does not exist.
            OutcomeUnknown: The entity may have been deleted. Other keys may be left, which do not
                count.
        """
        for _ in range(TRIES):
            record = self._find(name)
            if record is None:
                raise self.missing(name)
            if record.message.deleting:
                self._take_over(name, record)
                raise self.missing(name)
            with suppress(PredicateFailed):
                self._delete(record)
                _LOGGER.info("%s %s was deleted", self.noun, name)
                return
        raise AuthTooManyTries(f"deleting {self.noun} {name}", TRIES)

    def delete_creation(self, name: str, unique_id: UniqueID) -> None:
        """Delete an entity if it still has this unique id."""
        record = self._find(name)
        if record is not None and record.message.unique_id == unique_id:
            with suppress(PredicateFailed):  # changed or deleted meanwhile
                self._delete(record)

    def live(self, name: str) -> Record[MessageT]:
        """Return the record of an entity."""
        record = self._find(name)
        if record is None or record.message.deleting:
            raise self.missing(name)
        return record

    def live_messages(self, names: Iterable[str]) -> dict[str, MessageT]:
        """Return the records of many entities by name, without missing ones."""
        wanted = list(dict.fromkeys(names))
        keys = [(AUTH, self._kind.prefix + name.encode()) for name in wanted]
        found: dict[str, MessageT] = {}
        for name, entry in zip(wanted, self._store.get_many(keys), strict=True):
            if entry is not None:
                message = self._parse(entry)
                if not message.deleting:
                    found[name] = message
        return found

    def _create(self, name: str, message: MessageT) -> EntityT:
        """Write the first record of an entity."""
        self._write_first(name, message)
        _LOGGER.info("%s %s was created", self.noun, name)
        return self.entity(name, message)

    def _write_first(self, name: str, message: MessageT) -> None:
        check_name(self.noun, name)
        for _ in range(TRIES):
            try:
                self._records.set_if(name.encode(), message, ABSENT)
            except PredicateFailed:
                record = self._find(name)
                if record is None:
                    continue
                if not record.message.deleting:
                    raise AlreadyExists(f"{self.noun} {name} already exists") from None
                self._take_over(name, record)
            except OutcomeUnknown:
                found = self._find(name)
                if found is None or found.message.unique_id != message.unique_id:
                    raise
                return
            else:
                return
        raise AuthTooManyTries(f"creating {self.noun} {name}", TRIES)

    def _parse(self, entry: Item) -> MessageT:
        message = self._kind.message()
        try:
            message.ParseFromString(entry.value)
        except DecodeError as error:
            raise CorruptRecord(
                f"key {quoted(entry.key)} is not a {self.noun} record: {error}"
            ) from error
        return message

    def _find(self, name: str) -> Record[MessageT] | None:
        """Return the record, even if being deleted, or None if missing or not a name."""
        return self._records.find(name.encode()) if is_name(name) else None

    def _delete(self, record: Record[MessageT]) -> None:
        """Delete an entity: all three steps.

        Raises:
            PredicateFailed: The record has changed since the read; nothing was done.
        """
        record.message.deleting = True
        try:
            version = self._records.set_if(record.name, record.message, record.predicate)
        finally:
            self._changed()
        self._finish(record.name.decode(), Record(record.name, record.message, version))

    def _take_over(self, name: str, marked: Record[MessageT]) -> None:
        """Finish a deletion begun by another process."""
        _LOGGER.warning("%s %s is partly deleted: finishing the deletion", self.noun, name)
        self._finish(name, marked)

    def _finish(self, name: str, marked: Record[MessageT]) -> None:
        """Do steps 2 and 3 of a deletion."""
        self._prune(name, UniqueID(marked.message.unique_id))
        with suppress(PredicateFailed):  # removed by another process
            self._records.delete_if(marked.name, marked.predicate)


ItemT = TypeVar("ItemT")


def page_of(items: Iterable[ItemT], amount: int) -> AuthPage[ItemT]:
    """Return the first items of a listing as a page."""
    page = tuple(islice(items, amount + 1))
    return AuthPage(page[:amount], len(page) > amount)
