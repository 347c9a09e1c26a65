"""Typed records over a store: one protobuf message a key, one kind of message a key prefix.

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
"""How often `Records.change` may find that another writer came first; each time that one got on."""

_LOGGER: Final = logging.getLogger(__name__)
_UNREADABLE: Final = Counter(
    "lakebed_kv_unreadable_records", "Damaged records that were met in cleaning up, and left alone"
)


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[MessageT]):
    """What lies under a prefix of keys."""

    prefix: bytes
    message: type[MessageT]
    needs: tuple[str, ...] = ()
    """Fields that no record of this kind leaves empty: one that does is damaged."""
    check: Callable[[bytes, MessageT], object] | None = None
    """Called with the name and message of a record; raises ValueError if they make no sense."""

    def check_whole(self, name: bytes, message: MessageT) -> None:
        """Raise ValueError if a record that can be decoded is damaged all the same."""
        for field in self.needs:
            if not getattr(message, field):
                raise ValueError(f"its {field} is empty")
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
    """The records of one kind in one partition. Every method raises what `Store` raises."""

    def __init__(self, store: Store, kind: RecordKind[MessageT], partition: bytes) -> None:
        self._store = store
        self._kind = kind
        self._partition = partition
        self._reported: set[Version] = set()
        """Damaged records that were logged."""

    def get(self, name: bytes) -> Record[MessageT]:
        """Return a record.

        Raises:
            KeyNotFound: There is none of that name.
            CorruptRecord: What is there is not such a message.
        """
        return self.decode(self._store.get(*self.place(name)))

    def find(self, name: bytes) -> Record[MessageT] | None:
        """Return a record, or None if there is none of that name.

        Raises:
            CorruptRecord: What is there is not such a message.
        """
        try:
            return self.get(name)
        except KeyNotFound:
            return None

    def set(self, name: bytes, message: MessageT) -> Version:
        """Write a record, whatever was there."""
        return self._store.set(*self.place(name), message.SerializeToString())

    def set_if(
        self,
        name: bytes,
        message: MessageT,
        predicate: Predicate,
        *,
        version: Version | None = None,
    ) -> Version:
        """Write a record if the predicate holds.

        Args:
            name: Which record.
            message: What to write.
            predicate: What must be there.
            version: What the write is to be known by; by default one is drawn.

        Raises:
            PredicateFailed: It does not hold.
        """
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
        """Edit a record, or an empty message if there is none, and write it; return it.

        The stored message is what is edited, so that fields which a later version wrote stay. The
        edit may be made several times: each time to what others wrote meanwhile.

        Args:
            name: Which record.
            edit: Changes the message.
            predicate: The version that must be there, or `ABSENT`; None: whatever is there.

        Raises:
            PredicateFailed: The predicate does not hold.
            StoreUnavailable: Other writers always came first.
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
            f"others always came first at key {quoted(self.place(name)[1])}, {_RACES} times"
        )

    def delete(self, name: bytes) -> None:
        """Delete a record, if it is there."""
        self._store.delete(*self.place(name))

    def delete_if(self, name: bytes, predicate: Version) -> None:
        """Delete a record if it is as it was read.

        Raises:
            PredicateFailed: It is not.
        """
        self._store.delete(*self.place(name), predicate)

    def scan(
        self, *, prefix: bytes = b"", start: bytes = b"", limit: int | None = None
    ) -> Iterator[Record[MessageT]]:
        """Iterate over the records whose names begin with `prefix`, from `start` (included) on.

        Raises:
            CorruptRecord: What is there is not such a message.
        """
        for item in self._items(prefix, start, limit):
            yield self.decode(item)

    def scan_readable(
        self,
        on_broken: Callable[[bytes], object] = lambda _name: None,
        *,
        start: bytes = b"",
        limit: int | None = None,
    ) -> Iterator[Record[MessageT]]:
        """Iterate as `scan` over the records that are not damaged, for background jobs.

        A damaged record is left as it is: it is logged and counted, and its name goes to
        `on_broken`. Who scans every second by the same `Records` logs it once.
        """
        for item in self._items(start=start, limit=limit):
            try:
                record = self.decode(item)
            except CorruptRecord as error:
                if item.predicate not in self._reported:
                    self._reported.add(item.predicate)
                    _LOGGER.warning("a record is left alone: %s", error)
                    _UNREADABLE.inc()
                on_broken(item.key[len(self._kind.prefix) :])
            else:
                yield record

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
        """Return what was read by other means as a record.

        Raises:
            CorruptRecord: It is not such a message.
        """
        kind = self._kind
        message, name = kind.message(), item.key[len(kind.prefix) :]
        try:
            message.ParseFromString(item.value)
            kind.check_whole(name, message)
        except (DecodeError, ValueError) as error:
            raise CorruptRecord(
                f"key {quoted(item.key)} in partition {quoted(self._partition)} does not hold a"
                f" {kind.message.DESCRIPTOR.name}: {error}"
            ) from error
        return Record(name, message, item.predicate)
