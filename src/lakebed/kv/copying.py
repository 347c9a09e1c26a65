"""Copies a whole store into another one: users, refs, what is staged, settings.

The steps, each of which may be the last of its process; the next run goes on from what it finds:

1. The target must be empty. The source gets a mark, so that nobody writes to it any more
   (`lakebed.kv.halt`); the target gets one too, so that nobody uses half a store.
2. When the marks are old enough that nobody can still be writing, copying begins.
3. Partition by partition, what is in the source and not in the target is written. There is no note
   of how far a copy came that could be wrong: a run that goes on compares, and writes only what is
   missing. Nothing is ever removed: what is in the target alone was written by somebody else.
4. Both stores are read again, each on its own, and their content hashes must be equal: whoever
   wrote in spite of the marks is found out.
5. The source's mark says that the copy is finished; then the target's does, and servers may use
   it. The source is halted for good, so that nobody goes on with the old store by mistake.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.kv.errors import KVError, LimitExceeded, PredicateFailed
from lakebed.kv.halt import HALT_KEY, Halt, Permit, Role, find_mark, read_mark
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY
from lakebed.kv.store import ABSENT, Item, Store, Version, puts

CHUNK_KEYS: Final = 500
CHUNK_BYTES: Final = 4 << 20
_ID_BYTES: Final = 16
_NAMED: Final = 5
_OVERTAKEN: Final = (
    "another process has begun to work on this copy, or gave it up: let only one of them run"
)


class CopyRefused(KVError):
    """The copy was not begun, or not finished; the message says why, and what to do."""

    kind = "copy_refused"


@dataclass(slots=True)
class CopyCounts:
    """What a run of a copy did."""

    partitions: int = 0
    records: int = 0
    written: int = 0
    """Records that the target did not have yet."""
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class CopySide:
    """One of the two stores."""

    store: Store
    permit: Permit
    """With which it was opened."""
    name: str
    """Its URL, without secrets."""


@dataclass(slots=True)
class StoreCopy:
    """A run of a copy.

    Args:
        source: What is copied.
        target: Where to.
        runtime: Clock and chance.
        settle_seconds: How long to wait for those who write; see `lakebed.kv.halt.SETTLE_SECONDS`.
        say: Told what is done, for people who wait.
    """

    source: CopySide
    target: CopySide
    runtime: Runtime
    settle_seconds: float
    say: Callable[[str], None] = lambda _: None
    counts: CopyCounts = field(default_factory=CopyCounts)

    def run(self) -> CopyCounts:
        """Copy, or complete a copy that was cut off.

        Raises:
            CopyRefused: The target is not empty, the source is used by another copy, or the two
                differ in the end.
            StoreHalted: Another process works on this copy.
        """
        source_mark, target_mark = self._mark()
        self._wait()
        found = set()
        for partition in self.source.store.partitions():
            self._sync(partition)
            found.add(partition)
        for partition in self.target.store.partitions():
            if partition not in found:
                self._sync(partition)
        self.say("comparing both stores")
        self.counts.content_hash = self._compare()
        self._finish(source_mark, target_mark)
        return self.counts

    # Marks

    def _mark(self) -> tuple[Item, Item]:
        """Mark both stores as this copy's, and let this process write to the target."""
        there, before = find_mark(self.source.store), find_mark(self.target.store)
        if before is None:
            self._check_empty()
        halt = self._halt_of_source(there, before)
        if there is None or there.value != halt.encode():
            there = _put_mark(self.source.store, halt, there)
            self.say(f"{self.source.name} takes no more changes")
        target_halt = Halt(
            role=Role.TARGET,
            copy_id=halt.copy_id,
            run_id=self._draw(),
            other=self.source.name,
            since=self.runtime.now(),
        )
        target_mark = _put_mark(self.target.store, target_halt, before)
        self.target.permit.mark = target_mark.value
        return there, target_mark

    def _halt_of_source(self, there: Item | None, before: Item | None) -> Halt:
        """Return the mark that the source has or gets; refuse if it is not this copy's."""
        source = None if there is None else read_mark(there.value)
        target = None if before is None else read_mark(before.value)
        if target is not None and (target.role is Role.SOURCE or target.finished):
            raise CopyRefused(f"cannot copy to {self.target.name}: {target.explain()}")
        if source is None or not source.halts:
            if target is not None:
                raise CopyRefused(
                    f"{self.target.name} is an unfinished copy of {target.other}, which is not"
                    f" marked as its source (any more): empty the target to begin again"
                )
            _check_is_lakebeds(self.source)
            return Halt(
                role=Role.SOURCE,
                copy_id=self._draw(),
                other=self.target.name,
                since=self.runtime.now(),
            )
        if target is None:
            # A run was cut off between the two marks; or the copy is complete.
            goes_on = source.other == self.target.name and not source.finished
        else:
            goes_on = target.copy_id == source.copy_id
        if source.role is not Role.SOURCE or not goes_on:
            raise CopyRefused(f"cannot copy {self.source.name}: {source.explain()}")
        return source

    def _check_empty(self) -> None:
        for partition in self.target.store.partitions():
            for item in self.target.store.scan(partition, limit=2):
                if (partition, item.key) != (METADATA_PARTITION, SCHEMA_KEY):
                    raise CopyRefused(
                        f"{self.target.name} is not empty: it has, for example, key"
                        f" {quoted(item.key)} in partition {quoted(partition)}; copy into an empty"
                        " database, or into another ?namespace= of it"
                    )

    def _finish(self, source_mark: Item, target_mark: Item) -> None:
        for side, mark in ((self.source, source_mark), (self.target, target_mark)):
            halt = msgspec.structs.replace(read_mark(mark.value), finished=True)
            _put_mark(side.store, halt, mark)

    def _wait(self) -> None:
        """Return when nobody can still be writing who has not seen the marks."""
        self.say(f"waiting {self.settle_seconds:.0f} s, until all servers have seen the mark")
        settled_at = self.runtime.monotonic() + self.settle_seconds
        while (left := settled_at - self.runtime.monotonic()) > 0:
            self.runtime.sleep(left)

    def _draw(self) -> str:
        return self.runtime.random_bytes(_ID_BYTES).hex()

    # Records

    def _sync(self, partition: bytes) -> None:
        """Make a partition of the target equal to that of the source."""
        missing = self._missing(partition)
        while chunk := list(_fitting(missing)):
            try:
                self.target.store.write(puts(partition, chunk))
            except LimitExceeded as error:
                raise CopyRefused(
                    f"a record of partition {quoted(partition)} does not fit into"
                    f" {self.target.name}: {error}; use a database with larger limits"
                ) from error
            self.counts.written += len(chunk)
        self.counts.partitions += 1
        self.say(f"{self.counts.partitions:,} partitions, {self.counts.records:,} records")

    def _missing(self, partition: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield what the target has not, or has otherwise.

        What is written lies before the place at which the target is being read, so that neither
        disturbs the other.
        """
        there = _records(self.target.store, partition)
        ahead = next(there, None)
        for item in _records(self.source.store, partition):
            self.counts.records += 1
            if ahead is not None and ahead.key < item.key:
                raise self._foreign(partition, ahead)
            if ahead is not None and ahead.key == item.key:
                same, ahead = ahead.value == item.value, next(there, None)
                if same:
                    continue
            yield item.key, item.value
        if ahead is not None:
            raise self._foreign(partition, ahead)

    def _foreign(self, partition: bytes, item: Item) -> CopyRefused:
        return CopyRefused(
            f"{self.target.name} has a record that {self.source.name} has not: key"
            f" {quoted(item.key)} in partition {quoted(partition)}. A server used one of them"
            " meanwhile: stop all servers, empty the target, and begin again"
        )

    # The comparison

    def _compare(self) -> str:
        source, target = partition_hashes(self.source.store), partition_hashes(self.target.store)
        if source == target:
            return content_hash(source)
        names = sorted(
            name for name in source.keys() | target.keys() if source.get(name) != target.get(name)
        )
        shown = ", ".join(quoted(name) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise CopyRefused(
            f"the two stores differ in partition {shown}{more}: one of them was written to"
            " meanwhile. Stop all servers and other programs that use them, and run this again"
        )


def partition_hashes(store: Store) -> dict[bytes, str]:
    """Return a hash of the content of each partition that holds something, the mark left out."""
    hashes = {}
    for partition in store.partitions():
        digest = hashlib.sha256()
        count = 0
        for item in _records(store, partition):
            count += 1
            for part in (item.key, item.value):
                digest.update(len(part).to_bytes(8, "big"))
                digest.update(part)
        if count:
            hashes[partition] = digest.hexdigest()
    return hashes


def content_hash(hashes: dict[bytes, str]) -> str:
    """Return one hash of a whole store: equal if and only if all partitions are."""
    whole = hashlib.sha256()
    for partition, digest in sorted(hashes.items()):
        whole.update(len(partition).to_bytes(8, "big"))
        whole.update(partition)
        whole.update(digest.encode())
    return whole.hexdigest()


def release(side: CopySide) -> Halt:
    """Remove the mark from the source of a copy; return what it said.

    Raises:
        CopyRefused: It has none, or is an unfinished copy, which must not be used.
    """
    mark = find_mark(side.store)
    halt = None if mark is None else read_mark(mark.value)
    if mark is None or halt is None or not halt.halts:
        raise CopyRefused(f"{side.name} is not halted: it can be used as it is")
    if halt.role is Role.TARGET:
        raise CopyRefused(f"{side.name} cannot be released: {halt.explain()}")
    side.store.delete(METADATA_PARTITION, HALT_KEY, mark.predicate)
    return halt


def _records(store: Store, partition: bytes) -> Iterator[Item]:
    return (
        item
        for item in store.scan(partition)
        if partition != METADATA_PARTITION or item.key != HALT_KEY
    )


def _fitting(items: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield as many of the items as are written at a time."""
    size = 0
    for key, value in islice(items, CHUNK_KEYS):
        yield key, value
        size += len(value)
        if size >= CHUNK_BYTES:
            return


def _check_is_lakebeds(side: CopySide) -> None:
    if side.store.get_many([(METADATA_PARTITION, SCHEMA_KEY)])[0] is None:
        raise CopyRefused(f"{side.name} is no store of Lakebed: it is empty, or has no version")


def _put_mark(store: Store, halt: Halt, before: Item | None) -> Item:
    predicate: Version | None = None if before is None else before.predicate
    value = halt.encode()
    try:
        version = store.set(METADATA_PARTITION, HALT_KEY, value, predicate or ABSENT)
    except PredicateFailed as error:
        raise CopyRefused(_OVERTAKEN) from error
    return Item(HALT_KEY, value, version)
