"""The life of a named record: users, groups and policies are created, found, listed, deleted alike.

A unique id is drawn for each creation. Relations, credentials and tokens carry it, and count only
while the record of that name holds it.

**Deleting** takes three steps, since no write changes two keys:

1. *mark* the record as being deleted. From here on it is gone for everyone, all at once: were its
   relations removed first, a user might for a moment have lost what is denied to it and still have
   what is allowed.
2. *prune* the auxiliary keys that carry its unique id.
3. remove the record itself, by `delete_if` on the mark.

After a death between these steps the mark stands, and whoever wants the name next, to create or to
delete, first does what is left. An auxiliary key that someone slow writes after step 2 carries a
dead id: it counts for nothing, and is removed by whoever meets it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import ClassVar, Final, Generic, TypeVar

from google.protobuf.message import DecodeError

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.keys import AUTH, behind
from lakebed.auth.entities.names import check_name, is_name
from lakebed.auth.errors import AlreadyExists, AuthNotFound, AuthTooManyTries
from lakebed.auth.model import Page
from lakebed.ids import UniqueID
from lakebed.kv import ABSENT, CorruptRecord, Item, OutcomeUnknown, PredicateFailed, Store
from lakebed.kv.records import Kind, Record, Records
from lakebed.runtime import Runtime
from lakebed.times import now_us

MessageT = TypeVar("MessageT", pb.User, pb.Group, pb.Policy)
EntityT = TypeVar("EntityT")

Prune = Callable[[str, UniqueID], None]
"""Removes every auxiliary key of one creation of an entity."""

Changed = Callable[[], None]
"""Called after every write that may take something from someone."""

TRIES: Final = 100


class Entities(ABC, Generic[MessageT, EntityT]):
    """The records of one kind."""

    noun: ClassVar[str]

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        kind: Kind[MessageT],
        *,
        prune: Prune,
        changed: Changed,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._kind: Kind[MessageT] = kind
        self._records: Records[MessageT] = Records(store, kind, AUTH)
        self._prune = prune
        self._changed = changed

    @abstractmethod
    def entity(self, name: str, message: MessageT) -> EntityT:
        """The value that a record stands for."""

    @abstractmethod
    def missing(self, name: str) -> AuthNotFound:
        """The error that there is none of this name."""

    def get(self, name: str) -> EntityT:
        """Return an entity.

        Raises:
            AuthNotFound: There is none of this name.
        """
        return self.entity(name, self.live(name).message)

    def list(self, *, prefix: str = "", after: str = "", amount: int = 100) -> Page[EntityT]:
        """Return the entities whose names begin with `prefix`, in order, past `after`."""
        records = self._records.scan(
            prefix=prefix.encode(), start=behind(after.encode()), limit=None
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
        """Delete an entity and all that refers to it.

        Raises:
            AuthNotFound: There is none of this name.
            OutcomeUnknown: It may have been deleted, or be gone with some of its traces left, which
                count for nothing.
        """
        for _ in range(TRIES):
            record = self._find(name)
            if record is None:
                raise self.missing(name)
            if record.message.deleting:
                self._finish(name, record)
                raise self.missing(name)
            with suppress(PredicateFailed):
                self._mark(record)
                return
        raise AuthTooManyTries(f"deleting {self.noun} {name}", TRIES)

    def delete_creation(self, name: str, unique_id: UniqueID) -> None:
        """Delete one creation of an entity; if there is another one by now, or none, do nothing.

        Raises:
            OutcomeUnknown: It may have been deleted.
        """
        record = self._find(name)
        if record is not None and record.message.unique_id == unique_id:
            with suppress(PredicateFailed):  # another one by now, or none
                self._mark(record)

    def live(self, name: str) -> Record[MessageT]:
        """Return the record of an entity.

        Raises:
            AuthNotFound: There is none of this name, or it is being deleted.
        """
        record = self._find(name)
        if record is None or record.message.deleting:
            raise self.missing(name)
        return record

    def live_messages(self, names: Iterable[str]) -> dict[str, MessageT]:
        """Return what is there of many entities, by their names."""
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
        """Write the first record of an entity, whose unique id was drawn for it.

        Raises:
            InvalidName: It cannot have this name.
            AlreadyExists: The name is taken.
            OutcomeUnknown: It may have been created.
        """
        check_name(self.noun, name)
        for _ in range(TRIES):
            try:
                self._records.set_if(name.encode(), message, ABSENT)
            except PredicateFailed:
                record = self._find(name)
                if record is None:
                    continue
                if not record.message.deleting:
                    raise AlreadyExists(f"{self.noun} {name} exists already") from None
                self._finish(name, record)
            except OutcomeUnknown:
                found = self._find(name)
                if found is None or found.message.unique_id != message.unique_id:
                    raise
                return self.entity(name, message)
            else:
                return self.entity(name, message)
        raise AuthTooManyTries(f"creating {self.noun} {name}", TRIES)

    def _parse(self, entry: Item) -> MessageT:
        message = self._kind.message()
        try:
            message.ParseFromString(entry.value)
        except DecodeError as error:
            raise CorruptRecord(
                f"key {entry.key!r} does not hold a {self.noun}: {error}"
            ) from error
        return message

    def _now_us(self) -> int:
        return now_us(self._runtime)

    def _find(self, name: str) -> Record[MessageT] | None:
        """The record, being deleted or not; what cannot be a name is never there."""
        return self._records.find(name.encode()) if is_name(name) else None

    def _mark(self, record: Record[MessageT]) -> None:
        """Begin a deletion, and do it to the end.

        Raises:
            PredicateFailed: The record was changed since it was read; nothing was done.
        """
        record.message.deleting = True
        try:
            version = self._records.set_if(record.name, record.message, record.predicate)
        finally:
            self._changed()
        self._finish(record.name.decode(), Record(record.name, record.message, version))

    def _finish(self, name: str, marked: Record[MessageT]) -> None:
        self._prune(name, UniqueID(marked.message.unique_id))
        with suppress(PredicateFailed):  # someone else did it
            self._records.delete_if(marked.name, marked.predicate)


ItemT = TypeVar("ItemT")


def page_of(items: Iterable[ItemT], amount: int) -> Page[ItemT]:
    """Take a page from the front of a listing."""
    page = tuple(islice(items, amount + 1))
    return Page(page[:amount], len(page) > amount)
