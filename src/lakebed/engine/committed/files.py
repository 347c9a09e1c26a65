"""Ranges and metaranges as files, in the storage and in the caches.

The caches hold files decoded in memory, and as they are on the local disk. A file's name is the
hash of its content, so what is cached never changes. There is nothing to invalidate: one cache in
memory serves all repositories of a process, and one folder serves all processes of a machine. What
is cached of one repository is never shown to another: names begin with the unique id of the
repository, and who knows the id of a file gets it only where it belongs.
"""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

import pyarrow as pa

from lakebed.base.lru import LRU
from lakebed.base.runtime import Event, Runtime
from lakebed.block import Address, BlockStore, ObjectNotFound
from lakebed.engine.committed.columns import Range
from lakebed.engine.errors import MissingFile
from lakebed.engine.metrics import DISK_HITS, DISK_MISSES, MEMORY_HITS, MEMORY_MISSES
from lakebed.engine.model import Home
from lakebed.engine.settings import CacheSettings
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
from lakebed.formats.boundaries import Breaks
from lakebed.formats.parquet import table_bytes

ValueT = TypeVar("ValueT")

# Other processes fill the folder too: its real size is looked at each time that this process has
# written one part in so many of the bound.
_SWEEP_SHARE: Final = 16

_FOLDER: Final = "lakebed-ranges"
"""A folder of its own, so that nothing but cached files is ever deleted."""


class MemoryCache(Generic[ValueT]):
    """Values by name, loaded when they are first asked for; bounded by their sizes in bytes."""

    def __init__(self, runtime: Runtime, *, max_bytes: int) -> None:
        self._runtime = runtime
        self._values: LRU[str, ValueT] = LRU(runtime, cost_max=max_bytes)
        self._lock = runtime.lock()
        self._loading: dict[str, Event] = {}

    @property
    def size_bytes(self) -> int:
        """The size of what is held now."""
        return self._values.cost

    def get(self, name: str, load: Callable[[], tuple[ValueT, int]]) -> ValueT:
        """Return the value of a name; `load` it, with its size in bytes, if it is not held.

        If several callers want the same name at the same time, one loads it and the others wait.
        If that fails, only the one that loaded gets the error, and another one tries.
        """
        value = self._values.get(name)
        if value is not None:
            MEMORY_HITS.inc()
            return value
        MEMORY_MISSES.inc()
        while True:
            with self._lock:
                value = self._values.get(name)
                if value is not None:
                    return value
                loading = self._loading.get(name)
                if loading is None:
                    loaded = self._loading[name] = self._runtime.event()
                    break
            loading.wait()
        try:
            value, size_bytes = load()
            self._values.put(name, value, cost=size_bytes)
        finally:
            with self._lock:
                del self._loading[name]
            loaded.set()
        return value

    def put(self, name: str, value: ValueT, *, size_bytes: int) -> None:
        """Hold a value that was not loaded but made here."""
        self._values.put(name, value, cost=size_bytes)


class DiskCache:
    """Files by name in a folder that processes share, the least recently used ones deleted first.

    The folder must hold nothing else. A file appears by a rename, so it is whole; it may vanish at
    any time, when another process makes room. It is not flushed to the disk: whoever reads it
    checks its content, and calls `discard` if it is damaged. A disk that is full or broken makes
    the cache useless, not wrong.
    """

    def __init__(self, runtime: Runtime, folder: Path, *, max_bytes: int) -> None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self._runtime = runtime
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = runtime.lock()
        self._written_bytes = 0
        self._is_writable = True
        self._sweep()

    def get(self, name: str) -> bytes | None:
        """Return the bytes kept under a name, if any."""
        path = self._folder / name
        try:
            data = path.read_bytes()
        except OSError:
            DISK_MISSES.inc()
            return None
        with suppress(OSError):  # a file of another user, say: it is swept a little too early
            os.utime(path)  # used just now
        DISK_HITS.inc()
        return data

    def put(self, name: str, data: bytes) -> None:
        """Keep bytes under a name."""
        if len(data) > self._max_bytes:
            return
        temporary = self._folder / f"{name}.{self._runtime.random_bytes(8).hex()}.tmp"
        try:
            temporary.write_bytes(data)
            temporary.replace(self._folder / name)
        except OSError as error:
            _remove(temporary)
            if self._is_writable:  # say it once, not for every file
                _LOGGER.warning("cannot write to the cache in %s: %s", self._folder, error.strerror)
            self._is_writable = False
            return
        self._is_writable = True
        with self._lock:
            self._written_bytes += len(data)
            if self._written_bytes * _SWEEP_SHARE > self._max_bytes:
                self._sweep()

    def discard(self, name: str) -> None:
        """Drop what is kept under a name."""
        _remove(self._folder / name)

    def _sweep(self) -> None:
        """Delete the files that were not used for longest, until the rest fits.

        A part of the bound stays free for what is written until the next sweep, by this process and
        by another.
        """
        self._written_bytes = 0
        files = []
        with suppress(OSError):  # the folder itself may be gone
            for path in self._folder.iterdir():
                with suppress(OSError):
                    status = path.stat()
                    files.append((status.st_mtime_ns, status.st_size, path))
        excess = sum(size for _, size, _ in files) - self._max_bytes * (1 - 2 / _SWEEP_SHARE)
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            _remove(path)
            excess -= size


def _remove(path: Path) -> None:
    """Remove a file if possible; another process may have been faster."""
    with suppress(OSError):
        path.unlink()


class Cache:
    """What a process keeps of committed entries: in memory and, if it is set so, on disk."""

    def __init__(self, runtime: Runtime, settings: CacheSettings | None = None) -> None:
        settings = settings or CacheSettings()
        metarange_bytes = settings.memory_bytes // 8
        range_bytes = settings.memory_bytes - metarange_bytes
        self.metaranges = MemoryCache[MetaRange](runtime, max_bytes=metarange_bytes)
        self.ranges = MemoryCache[Range](runtime, max_bytes=range_bytes)
        self.disk: DiskCache | None = None
        if settings.disk_folder is not None:
            folder = settings.disk_folder / _FOLDER
            self.disk = DiskCache(runtime, folder, max_bytes=settings.disk_bytes)


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
