"""Typed records over a store: one protobuf message per key, one message type per key prefix.

For example, to move a branch to another commit:

    BRANCHES = Kind(b"branches/", Branch)
    branches = Records(store, BRANCHES, partition)
    record = branches.get(b"main")            # Record(name, message, predicate)
    record.message.commit_id = "…"
    branches.set_if(b"main", record.message, record.predicate)
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message
from prometheus_client import Counter

from lakebed.base.errors import quoted
from lakebed.kv.errors import CorruptRecord, KeyNotFound, PredicateFailed, StoreUnavailable
from lakebed.kv.store import ABSENT, ANY, Item, Predicate, Put, Store, Version

MessageT = TypeVar("MessageT", bound=Message)

_RACES: Final = 100
"""Maximum number of attempts of `Records.change`; after each failure another writer succeeded."""

_LOGGER: Final = logging.getLogger(__name__)
_UNREADABLE: Final = Counter(
    "lakebed_kv_unreadable_records", "Damaged records skipped by background jobs"
)


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[MessageT]):
    """The records under a key prefix."""

    prefix: bytes
    message: type[MessageT]
    needs: tuple[str, ...] = ()
    """Required fields: a record with an empty one is damaged."""
    check: Callable[[bytes, MessageT], object] | None = None
    """Called with the name and message of a record; raises ValueError if they are inconsistent."""

    def validate(self, name: bytes, message: MessageT) -> None:
        """Raise ValueError if a decoded record is damaged."""
        for field in self.needs:
            if not getattr(message, field):
                raise ValueError(f"{field} is empty")
        if self.check is not None:
            self.check(name, message)


@dataclass(frozen=True, slots=True)
class Record(Generic[MessageT]):
    """A message with its name and the predicate for changing it."""

    name: bytes
    """The key without the prefix of its kind."""

    message: MessageT
    predicate: Version


class Records(Generic[MessageT]):
    """The records of a kind in a partition.

    Methods raise what `Store` raises; reads also raise `CorruptRecord` for a damaged record.
    """

    def __init__(self, store: Store, kind: RecordKind[MessageT], partition: bytes) -> None:
        self._store = store
        self._kind = kind
        self._partition = partition
        self._reported: set[Version] = set()
        """Damaged records that were logged."""

    def get(self, name: bytes) -> Record[MessageT]:
        """Return a record, or raise `KeyNotFound`."""
        return self.decode(self._store.get(*self.place(name)))

    def find(self, name: bytes) -> Record[MessageT] | None:
        """Return a record, or None if no record has this name."""
        try:
            return self.get(name)
        except KeyNotFound:
            return None

    def set(self, name: bytes, message: MessageT) -> Version:
        return self._store.set(*self.place(name), message.SerializeToString())

    def set_if(
        self,
        name: bytes,
        message: MessageT,
        predicate: Predicate,
        *,
        version: Version | None = None,
    ) -> Version:
        """Write a record, or raise `PredicateFailed`; `version`: as for `Store.set`."""
        value = message.SerializeToString()
        return self._store.set(*self.place(name), value, predicate, version=version)

    def put(
        self,
        name: bytes,
        message: MessageT,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Put:
        """Return the write of a record, for `Store.write`."""
        return Put(*self.place(name), message.SerializeToString(), predicate, version)

    def change(
        self, name: bytes, edit: Callable[[MessageT], None], *, predicate: Predicate | None = None
    ) -> Record[MessageT]:
        """Edit and write a record, or an empty message if the record is missing; return the record.

        The stored message is edited, so fields written by a later version of Lakebed are preserved.
        After a conflict with another writer `edit` is called again with the new message.

        Args:
            name: Name of the record.
            edit: Changes the message in place.
            predicate: The expected version, or `ABSENT`; None: any.

        Raises:
            PredicateFailed: The predicate does not hold.
            StoreUnavailable: Every attempt conflicted with another writer.
        """
        for _ in range(_RACES):
            found = self.find(name)
            message = self._kind.message() if found is None else found.message
            edit(message)
            there: Predicate = ABSENT if found is None else found.predicate
            if predicate is not None and predicate != there:
                raise PredicateFailed(*self.place(name))
            try:
                return Record(name, message, self.set_if(name, message, there))
            except PredicateFailed:
                continue
        raise StoreUnavailable(
            f"gave up after {_RACES} conflicts with other writers of key"
            f" {quoted(self.place(name)[1])}"
        )

    def delete(self, name: bytes) -> None:
        self._store.delete(*self.place(name))

    def delete_if(self, name: bytes, predicate: Version) -> None:
        """Delete a record if its version matches, or raise `PredicateFailed`."""
        self._store.delete(*self.place(name), predicate)

    def scan(
        self, *, prefix: bytes = b"", start: bytes = b"", limit: int | None = None
    ) -> Iterator[Record[MessageT]]:
        """Iterate over the records whose names begin with `prefix`, from `start` (included)."""
        for item in self._items(prefix, start, limit):
            yield self.decode(item)

    def scan_readable(
        self,
        on_broken: Callable[[bytes], object] = lambda _name: None,
        *,
        start: bytes = b"",
        limit: int | None = None,
    ) -> Iterator[Record[MessageT]]:
        """Iterate as `scan`, but skip damaged records; for background jobs.

        Damaged records are not changed: they are logged and counted, and their names passed to
        `on_broken`. Repeated scans by the same `Records` log each of them once.
        """
        for item in self._items(start=start, limit=limit):
            try:
                record = self.decode(item)
            except CorruptRecord as error:
                if item.predicate not in self._reported:
                    self._reported.add(item.predicate)
                    _LOGGER.warning("skipped a damaged record: %s", error)
                    _UNREADABLE.inc()
                on_broken(item.key[len(self._kind.prefix) :])
            else:
                yield record

    def names(self, prefix: bytes) -> Iterator[bytes]:
        """Iterate over the names that begin with a prefix, also those of damaged records."""
        return (item.key[len(self._kind.prefix) :] for item in self._items(prefix))

    def _items(
        self, prefix: bytes = b"", start: bytes = b"", limit: int | None = None
    ) -> Iterator[Item]:
        of_kind = self._kind.prefix
        return self._store.scan(
            self._partition, of_kind + start, prefix=of_kind + prefix, limit=limit
        )

    def place(self, name: bytes) -> tuple[bytes, bytes]:
        """Return partition and key of a record, for `Store.get_many`; see `decode`."""
        return self._partition, self._kind.prefix + name

    def decode(self, item: Item) -> Record[MessageT]:
        """Return an item of `Store.get_many` or `Store.scan` as a record."""
        kind = self._kind
        message, name = kind.message(), item.key[len(kind.prefix) :]
        try:
            message.ParseFromString(item.value)
            kind.validate(name, message)
        except (DecodeError, ValueError) as error:
            raise CorruptRecord(
                f"key {quoted(item.key)} in partition {quoted(self._partition)} is not a valid"
                f" {kind.message.DESCRIPTOR.name}: {error}"
            ) from error
        return Record(name, message, item.predicate)
