"""Copies a whole store into another one.

The copy may be interrupted at any step; the next run continues from the state of the stores:

1. The target must be empty. The source gets a halt flag, which stops all writes
  (`lakebed.kv.halt`); so does the target, so that an incomplete store is not used.
2. Copying begins when no process can still be writing (`SETTLE_SECONDS`).
3. Partition by partition, the records missing in the target are written. No progress is recorded: a
  run compares both stores, and writes only the missing records. Nothing is ever removed: a record
  that exists only in the target was written by another program.
4. Both stores are read again, independently, and their content hashes must be equal: this detects
  writes despite the flags.
5. The source's flag is marked as finished, then the target's, and servers may use the target. The
  source stays halted, so that servers do not continue with it by mistake.
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
from lakebed.kv.halt import HALT_KEY, Halt, Permit, Role, decode_halt, find_halt
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY
from lakebed.kv.store import ABSENT, Item, Predicate, Store, puts

CHUNK_KEYS: Final = 500
CHUNK_BYTES: Final = 4 << 20
_ID_BYTES: Final = 16
_NAMED: Final = 5
_OVERTAKEN: Final = (
    "another process took over this copy, or cancelled it: run only one copy at a time"
)


class CopyRefused(KVError):
    """The copy was not begun, or not finished; the message gives the reason and the next step."""

    kind = "copy_refused"


@dataclass(slots=True)
class CopyCounts:
    """Result of a run of a copy."""

    partitions: int = 0
    records: int = 0
    written: int = 0
    """Records that were missing in the target."""
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class CopySide:
    """One of the two stores."""

    store: Store
    permit: Permit
    """The permit of the open store."""
    name: str
    """URL without secrets."""


@dataclass(slots=True)
class StoreCopy:
    """A run of a copy.

    Args:
        source: The store to read.
        target: The store to write.
        runtime: Provides clock and randomness.
        settle_seconds: How long to wait for running writes; see `lakebed.kv.halt.SETTLE_SECONDS`.
        say: Called with progress messages.
    """

    source: CopySide
    target: CopySide
    runtime: Runtime
    settle_seconds: float
    print_line: Callable[[str], None] = lambda _: None
    counts: CopyCounts = field(default_factory=CopyCounts)

    def run(self) -> CopyCounts:
        """Copy, or complete an interrupted copy.

        Raises:
            CopyRefused: The target is not empty, the source is used by another copy, or the stores
                differ in the end.
            StoreHalted: Another process works on this copy.
        """
        source_flag, target_flag = self._halt_stores()
        self._wait()
        found = set()
        for partition in self.source.store.partitions():
            self._sync(partition)
            found.add(partition)
        for partition in self.target.store.partitions():
            if partition not in found:
                self._sync(partition)
        self.print_line("comparing both stores")
        self.counts.content_hash = self._compare()
        self._finish(source_flag, target_flag)
        return self.counts

    def _halt_stores(self) -> tuple[Item, Item]:
        """Write the halt flags of this copy, and let this process write to the target."""
        source_flag, target_flag = find_halt(self.source.store), find_halt(self.target.store)
        if target_flag is None:
            self._check_empty()
        halt = self._halt_of_source(source_flag, target_flag)
        if source_flag is None or source_flag.value != halt.encode():
            source_flag = _write_halt(self.source.store, halt, source_flag)
            self.print_line(f"{self.source.name} is now read-only")
        target_halt = Halt(
            role=Role.TARGET,
            copy_id=halt.copy_id,
            run_id=self._draw(),
            other=self.source.name,
            since=self.runtime.now(),
        )
        target_flag = _write_halt(self.target.store, target_halt, target_flag)
        self.target.permit.flag = target_flag.value
        return source_flag, target_flag

    def _halt_of_source(self, source_flag: Item | None, target_flag: Item | None) -> Halt:
        """Return the source's existing or new flag; raise if it belongs to another copy."""
        source = None if source_flag is None else decode_halt(source_flag.value)
        target = None if target_flag is None else decode_halt(target_flag.value)
        if target is not None and (target.role is Role.SOURCE or target.finished):
            raise CopyRefused(f"cannot copy to {self.target.name}: {target.explain()}")
        if source is None or not source.halts:
            if target is not None:
                raise CopyRefused(
                    f"{self.target.name} is an incomplete copy of {target.other}, which is no"
                    " longer halted for it: empty the target and start again"
                )
            _check_is_lakebeds(self.source)
            return Halt(
                role=Role.SOURCE,
                copy_id=self._draw(),
                other=self.target.name,
                since=self.runtime.now(),
            )
        if target is None:
            # A run was interrupted between the two flags; or the copy is complete.
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
                        f"{self.target.name} is not empty (it contains key {quoted(item.key)} in"
                        f" partition {quoted(partition)}): copy into an empty database, or into"
                        " another ?namespace="
                    )

    def _finish(self, source_flag: Item, target_flag: Item) -> None:
        for side, flag in ((self.source, source_flag), (self.target, target_flag)):
            halt = msgspec.structs.replace(decode_halt(flag.value), finished=True)
            _write_halt(side.store, halt, flag)

    def _wait(self) -> None:
        """Wait until no process that has not seen the flags can still be writing."""
        self.print_line(f"waiting {self.settle_seconds:.0f} s for running writes to end")
        settled_at = self.runtime.monotonic() + self.settle_seconds
        while (left := settled_at - self.runtime.monotonic()) > 0:
            self.runtime.sleep(left)

    def _draw(self) -> str:
        return self.runtime.random_bytes(_ID_BYTES).hex()

    def _sync(self, partition: bytes) -> None:
        """Make a partition of the target equal to that of the source."""
        missing = self._missing(partition)
        while chunk := list(_fitting(missing)):
            try:
                self.target.store.write(puts(partition, chunk))
            except LimitExceeded as error:
                raise CopyRefused(
                    f"a record of partition {quoted(partition)} exceeds the limits of"
                    f" {self.target.name}: {error}; use a database with larger limits"
                ) from error
            self.counts.written += len(chunk)
        self.counts.partitions += 1
        self.print_line(f"{self.counts.partitions:,} partitions, {self.counts.records:,} records")

    def _missing(self, partition: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records that are missing or different in the target.

        Records are written before the read position of the target's scan, so that writing and
        scanning do not interfere.
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
            f"{self.target.name} has a record that {self.source.name} does not have: key"
            f" {quoted(item.key)} in partition {quoted(partition)}. A server wrote to one of them"
            " meanwhile: stop all servers, empty the target and start again"
        )

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
            f"the stores differ in partition {shown}{more}: one of them was changed during the"
            " copy. Stop all programs that use them, and run the copy again"
        )


def partition_hashes(store: Store) -> dict[bytes, str]:
    """Return a content hash per non-empty partition, excluding the halt flag."""
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
    """Remove the halt flag from the source of a copy; return its content.

    Raises:
        CopyRefused: The store has no halt flag, or is an unfinished copy, which must not be used.
    """
    flag = find_halt(side.store)
    halt = None if flag is None else decode_halt(flag.value)
    if flag is None or halt is None or not halt.halts:
        raise CopyRefused(f"{side.name} is not halted: nothing to release")
    if halt.role is Role.TARGET:
        raise CopyRefused(f"{side.name} cannot be released: {halt.explain()}")
    side.store.delete(METADATA_PARTITION, HALT_KEY, flag.predicate)
    return halt


def _records(store: Store, partition: bytes) -> Iterator[Item]:
    return (
        item
        for item in store.scan(partition)
        if partition != METADATA_PARTITION or item.key != HALT_KEY
    )


def _fitting(items: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    size = 0
    for key, value in islice(items, CHUNK_KEYS):
        yield key, value
        size += len(value)
        if size >= CHUNK_BYTES:
            return


def _check_is_lakebeds(side: CopySide) -> None:
    if side.store.get_many([(METADATA_PARTITION, SCHEMA_KEY)])[0] is None:
        raise CopyRefused(
            f"{side.name} is not a Lakebed store: it is empty, or has no schema version"
        )


def _write_halt(store: Store, halt: Halt, current: Item | None) -> Item:
    predicate: Predicate = ABSENT if current is None else current.predicate
    value = halt.encode()
    try:
        version = store.set(METADATA_PARTITION, HALT_KEY, value, predicate)
    except PredicateFailed as error:
        raise CopyRefused(_OVERTAKEN) from error
    return Item(HALT_KEY, value, version)
