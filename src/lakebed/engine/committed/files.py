"""Ranges and metaranges as files, in the storage and in the caches."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeVar

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.block import Address, BlockStore, ObjectNotFound
from lakebed.engine.committed.cache import Cache
from lakebed.engine.committed.columns import Range
from lakebed.engine.errors import MissingFile
from lakebed.engine.model import Home
from lakebed.formats import (
    DamagedFile,
    ForeignFile,
    MetaRange,
    MetaRangeID,
    RangeID,
    RangeRef,
    decode_metarange,
    decode_range,
    encode_metarange,
    encode_range,
    metarange_id,
    metarange_path,
    metarange_table,
    range_path,
)
from lakebed.formats.boundaries import Breaks, ref_of
from lakebed.formats.parquet import table_bytes

_LOGGER: Final = logging.getLogger(__name__)

DecodedT = TypeVar("DecodedT")

_SMALL_BYTES: Final = 64 << 10
_RANGE_BYTES: Final = 20 << 10
"""What a range takes in memory besides its rows: the objects of Arrow for table and columns."""


@dataclass(slots=True)
class Counters:
    """How many files were read and written so far, not counting reads from memory."""

    ranges_read: int = 0
    ranges_written: int = 0
    ranges_reused: int = 0
    """Ranges that were built, and that the storage had already."""
    metaranges_read: int = 0
    metaranges_written: int = 0


@dataclass(frozen=True, slots=True)
class NewRange:
    """A range that was built, with its line in a metarange."""

    ref: RangeRef
    entries: pa.Table
    """In one chunk."""
    breaks: Breaks
    """What they were cut by."""

    @classmethod
    def of(cls, entries: pa.Table, breaks: Breaks) -> Self:
        """Name entries, which are a range by these breaks, by their content."""
        entries = entries.combine_chunks()
        return cls(ref_of(entries), entries, breaks)


class Files:
    """The ranges and metaranges of one repository."""

    def __init__(self, block: BlockStore, home: Home, runtime: Runtime, cache: Cache) -> None:
        self.counters = Counters()
        self._block = block
        self._runtime = runtime
        self._namespace = home.namespace
        self._owner = home.unique_id
        self._cache = cache
        self._lock = runtime.lock()
        # Ranges that are stored, as far as is known: a metarange that names them was read or
        # written. Ids are short, and a process meets a few million of them at most.
        self._known: set[RangeID] = set()
        # Ranges that were looked for and not found: no metarange that names them proves otherwise.
        self._missing: set[RangeID] = set()

    def range(self, range_id: RangeID) -> Range:
        """Return a range.

        Raises:
            MissingFile: It is not in the storage.
            DamagedFile: The file does not hold it.
            ForeignFile: The file is not one of ours, or (`FormatTooNew`) is one of a newer Lakebed.
        """
        name = self._cached_as(range_path(range_id))
        return self._cache.ranges.get(name, lambda: self._load_range(range_id))

    def metarange(self, metarange_id: MetaRangeID) -> MetaRange:
        """Return a metarange; raises as `range` does."""
        name = self._cached_as(metarange_path(metarange_id))
        return self._cache.metaranges.get(name, lambda: self._load_metarange(metarange_id))

    def load_range(self, range_id: RangeID) -> pa.Table:
        """Return the entries of a range as the storage has them, past all caches."""
        address = self._namespace.address(range_path(range_id))
        return decode_range(self._read(address), range_id, file=str(address))

    def load_metarange(self, metarange_id: MetaRangeID) -> MetaRange:
        """Return a metarange as the storage has it, past all caches."""
        address = self._namespace.address(metarange_path(metarange_id))
        return decode_metarange(
            self._read(address), metarange_id, file=str(address), read=self.load_metarange
        )

    def save_range(self, new: NewRange, *, keep: bool = True) -> None:
        """Store a range, unless it is there already; with `keep`, also in the cache."""
        if new.ref.range_id in self._known:
            self._count("ranges_reused")
        else:
            self._store([new])
        if keep:
            self._keep(new)

    def save_metarange(
        self, refs: Sequence[RangeRef], unsaved: Sequence[NewRange] = ()
    ) -> MetaRangeID:
        """Store a metarange of these ranges; those that are not stored yet side by side with it.

        If this is cut off, a metarange may be left that names ranges which are not there. Nobody
        was told of it, and whoever makes the same one again stores its ranges too.
        """
        table = metarange_table(refs)
        saved = metarange_id(table)

        file = metarange_path(saved), encode_metarange(table)
        if len(unsaved) == 1 and unsaved[0].ref.range_id not in self._known:
            # A small commit. To wake a thread for the second file would take longer.
            self._store(unsaved, file)
            self._keep(unsaved[0])
        else:
            saves: list[Callable[[], None]] = [partial(self._store, (), file)]
            saves += (partial(self.save_range, new) for new in unsaved)
            self._runtime.map_parallel(lambda save: save(), saves, limit=len(saves))
        self._remember(refs)
        metarange = MetaRange(saved, tuple(refs))
        name = self._cached_as(metarange_path(saved))
        self._cache.metaranges.put(name, metarange, size_bytes=_size_bytes(metarange))
        return saved

    def check_stored(self, metarange_id: MetaRangeID) -> None:
        """Make sure that a metarange and all its ranges are in the storage, whatever is cached.

        Raises:
            MissingFile: One of them is not.
            DamagedFile, ForeignFile: The file of the metarange does not hold it.
        """
        refs = self.load_metarange(metarange_id).refs
        self._runtime.map_parallel(self._check_range, [ref.range_id for ref in refs])

    def _check_range(self, range_id: RangeID) -> None:
        address = self._namespace.address(range_path(range_id))
        try:
            self._block.head(address)
        except ObjectNotFound as error:
            self._forget(range_id)
            raise MissingFile(str(address)) from error

    def _load_range(self, range_id: RangeID) -> tuple[Range, int]:
        try:
            table, _ = self._load(
                range_path(range_id), lambda data, file: decode_range(data, range_id, file=file)
            )
        except MissingFile:
            self._forget(range_id)
            raise
        self._count("ranges_read")
        return Range(table), _RANGE_BYTES + table.nbytes

    def _load_metarange(self, metarange_id: MetaRangeID) -> tuple[MetaRange, int]:
        metarange, is_in_storage = self._load(
            metarange_path(metarange_id),
            lambda data, file: decode_metarange(data, metarange_id, file=file, read=self.metarange),
        )
        self._count("metaranges_read")
        if is_in_storage:
            self._remember(metarange.refs)
        return metarange, _size_bytes(metarange)

    def _load(self, path: str, decode: Callable[[bytes, str], DecodedT]) -> tuple[DecodedT, bool]:
        """Return a file, and whether it was read from the storage.

        What is in the cache on disk was in the storage once. Whether it still is, nobody looked.
        """
        disk = self._cache.disk
        name = self._cached_as(path)
        if disk is not None and (data := disk.get(name)) is not None:
            try:
                return decode(data, name), False
            except (DamagedFile, ForeignFile) as error:
                _LOGGER.warning("a file in the cache is damaged, it is fetched again: %s", error)
                disk.discard(name)
        address = self._namespace.address(path)
        data = self._read(address)
        decoded = decode(data, str(address))
        if disk is not None:
            disk.put(name, data)
        return decoded, True

    def _cached_as(self, path: str) -> str:
        """Return what a file of this repository is called in the caches."""
        return f"{self._owner}_{path.replace('/', '_')}"

    def _read(self, address: Address) -> bytes:
        try:
            return self._block.read(address)
        except ObjectNotFound as error:
            self._forget()
            raise MissingFile(str(address)) from error

    def _store(self, ranges: Sequence[NewRange], *metaranges: tuple[str, bytes]) -> None:
        """Store files of ranges and metaranges by one call, and count which are new."""
        files = [*metaranges]
        files += ((range_path(new.ref.range_id), encode_range(new.entries)) for new in ranges)
        are_new = self._block.create_by_content(
            [(self._namespace.address(path), data) for path, data in files]
        )
        new_ranges = sum(are_new[len(metaranges) :])
        with self._lock:
            self.counters.metaranges_written += sum(are_new[: len(metaranges)])
            self.counters.ranges_written += new_ranges
            self.counters.ranges_reused += len(ranges) - new_ranges
            self._missing.difference_update(new.ref.range_id for new in ranges)

    def _keep(self, new: NewRange) -> None:
        """Keep the rows of a range in memory, since they are likely to be asked for next.

        Unless they are a small part of larger buffers, which would be kept alive with them.
        """
        size_bytes = new.entries.get_total_buffer_size()
        if size_bytes <= 2 * table_bytes(new.entries) + _SMALL_BYTES:
            name = self._cached_as(range_path(new.ref.range_id))
            kept = Range(new.entries, cut_by=new.breaks)
            self._cache.ranges.put(name, kept, size_bytes=_RANGE_BYTES + size_bytes)

    def _remember(self, refs: Sequence[RangeRef]) -> None:
        with self._lock:
            self._known.update(ref.range_id for ref in refs)
            self._known -= self._missing

    def _forget(self, *missing: RangeID) -> None:
        """Take no range for stored any more: where one file is missing, others may be too."""
        with self._lock:
            self._known.clear()
            self._missing.update(missing)

    def _count(self, counter: str) -> None:
        with self._lock:
            setattr(self.counters, counter, getattr(self.counters, counter) + 1)


def _size_bytes(metarange: MetaRange) -> int:
    """About the size of a metarange in memory: references as Python objects, and their keys."""
    return 500 + sum(500 + len(ref.min_key) + len(ref.max_key) for ref in metarange.refs)
