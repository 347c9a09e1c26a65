"""Ranges and metaranges as files, in the storage and in the caches.

The memory cache has decoded files, the cache on the local disk has raw files. A file's name is the
hash of its content, so cached files never change and need no invalidation: one memory cache serves
all repositories of a process, and one folder serves all processes of a machine. Cached files are
visible only to their own repository: names begin with its unique id, so knowing the id of a file is
not enough.
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
from lakebed.engine.model import FilesRoot
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
from lakebed.formats.files import table_bytes

ValueT = TypeVar("ValueT")

# Other processes fill the folder too: its real size is checked each time this process has written
# this fraction of the bound.
_SWEEP_SHARE: Final = 16

_FOLDER: Final = "lakebed-ranges"
"""A dedicated folder, so that only cached files are ever deleted."""


class MemoryCache(Generic[ValueT]):
    """Values by name, loaded on first use; bounded by their sizes in bytes."""

    def __init__(self, runtime: Runtime, *, max_bytes: int) -> None:
        self._runtime = runtime
        self._values: LRU[str, ValueT] = LRU(runtime, cost_max=max_bytes)
        self._lock = runtime.lock()
        self._loading: dict[str, Event] = {}

    @property
    def size_bytes(self) -> int:
        return self._values.cost

    def get(self, name: str, load: Callable[[], tuple[ValueT, int]]) -> ValueT:
        """Return the value of a name; if not cached, `load` it with its size in bytes.

        If several callers want a name concurrently, one loads and the rest wait. If the load fails,
        only the loading caller gets the error, and another tries.
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
        self._values.put(name, value, cost=size_bytes)


class DiskCache:
    """Files by name in a folder shared by processes; evicts the least recently used.

    The folder must contain no other files. A file appears by a rename, so it is whole, and may
    vanish at any time, when another process makes room. Files are not flushed to the disk: readers
    check the content, and call `discard` if it is damaged. A full or broken disk makes the cache
    useless, not wrong.
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
        path = self._folder / name
        try:
            data = path.read_bytes()
        except OSError:
            DISK_MISSES.inc()
            return None
        with suppress(OSError):  # a file of another user, for example: it is evicted a little early
            os.utime(path)  # mark as recently used
        DISK_HITS.inc()
        return data

    def put(self, name: str, data: bytes) -> None:
        if len(data) > self._max_bytes:
            return
        temporary = self._folder / f"{name}.{self._runtime.random_bytes(8).hex()}.tmp"
        try:
            temporary.write_bytes(data)
            temporary.replace(self._folder / name)
        except OSError as error:
            _remove(temporary)
            if self._is_writable:  # warn once, not for every file
                _LOGGER.warning("cannot write to the cache in %s: %s", self._folder, error.strerror)
            self._is_writable = False
            return
        self._is_writable = True
        with self._lock:
            self._written_bytes += len(data)
            if self._written_bytes * _SWEEP_SHARE > self._max_bytes:
                self._sweep()

    def discard(self, name: str) -> None:
        _remove(self._folder / name)

    def _sweep(self) -> None:
        """Delete the least recently used files until the rest fits.

        Part of the bound stays free for writes until the next sweep, by this and other processes.
        """
        self._written_bytes = 0
        files = []
        with suppress(OSError):  # the folder itself may be missing
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
    """A process's caches of committed entries: in memory and, if configured, on disk."""

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
"""Memory of a range besides its rows: Arrow's objects for table and columns."""


@dataclass(slots=True)
class Counters:
    """Numbers of files read and written so far, excluding reads from memory."""

    ranges_read: int = 0
    ranges_written: int = 0
    ranges_reused: int = 0
    """Ranges built but already in the storage."""
    metaranges_read: int = 0
    metaranges_written: int = 0


@dataclass(frozen=True, slots=True)
class NewRange:
    """A newly built range, with its reference for a metarange."""

    ref: RangeRef
    entries: pa.Table
    """A single chunk."""
    breaks: Breaks
    """The breaks by which it was cut."""


class Files:
    """The ranges and metaranges of one repository."""

    def __init__(
        self, block: BlockStore, files_root: FilesRoot, runtime: Runtime, cache: Cache
    ) -> None:
        self.counters = Counters()
        self._block = block
        self._runtime = runtime
        self._namespace = files_root.namespace
        self._owner = files_root.unique_id
        self._cache = cache
        self._lock = runtime.lock()
        # Ranges believed to be stored: a metarange that references them was read or written. Ids
        # are short, and a process meets a few million at most.
        self._known: set[RangeID] = set()
        # Ranges found missing, even if a metarange references them.
        self._missing: set[RangeID] = set()

    def range(self, range_id: RangeID) -> Range:
        """Return a range.

        Raises:
            MissingFile: It is not in the storage.
            DamagedFile: The content of the file is wrong.
            ForeignFile: The file was not written by Lakebed, or (`FormatTooNew`) by a newer
                version.
        """
        name = self._cached_as(range_path(range_id))
        return self._cache.ranges.get(name, lambda: self._load_range(range_id))

    def metarange(self, metarange_id: MetaRangeID) -> MetaRange:
        """Return a metarange; raises as `range`."""
        name = self._cached_as(metarange_path(metarange_id))
        return self._cache.metaranges.get(name, lambda: self._load_metarange(metarange_id))

    def load_range(self, range_id: RangeID) -> pa.Table:
        """Return the entries of a range from the storage, bypassing all caches."""
        address = self._namespace.address(range_path(range_id))
        return decode_range(self._read(address), range_id, file=str(address))

    def load_metarange(self, metarange_id: MetaRangeID) -> MetaRange:
        """Return a metarange from the storage, bypassing all caches."""
        address = self._namespace.address(metarange_path(metarange_id))
        return decode_metarange(
            self._read(address), metarange_id, file=str(address), read=self.load_metarange
        )

    def save_range(self, new: NewRange, *, keep: bool = True) -> None:
        """Store a range unless it is stored; with `keep`, also cache it."""
        if new.ref.range_id in self._known:
            self._count("ranges_reused")
        else:
            self._store([new])
        if keep:
            self._keep(new)

    def save_metarange(
        self, refs: Sequence[RangeRef], unsaved: Sequence[NewRange] = ()
    ) -> MetaRangeID:
        """Store a metarange of these ranges, in parallel with its `unsaved` ones.

        An interruption may leave an unreferenced metarange with missing ranges. Writing the same
        metarange again stores its ranges too.
        """
        table = metarange_table(refs)
        saved = metarange_id(table)

        file = metarange_path(saved), encode_metarange(table)
        if len(unsaved) == 1 and unsaved[0].ref.range_id not in self._known:
            # A small commit: waking a thread for the second file would take longer.
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
        """Check uncached that a metarange and its ranges are in the storage; raises as `range`."""
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
        """Return a decoded file, and whether it was read from the storage.

        A file in the disk cache was in the storage once, but may be missing now.
        """
        disk = self._cache.disk
        name = self._cached_as(path)
        if disk is not None and (data := disk.get(name)) is not None:
            try:
                return decode(data, name), False
            except (DamagedFile, ForeignFile) as error:
                _LOGGER.warning("a cached file is damaged and fetched again: %s", error)
                disk.discard(name)
        address = self._namespace.address(path)
        data = self._read(address)
        decoded = decode(data, str(address))
        if disk is not None:
            disk.put(name, data)
        return decoded, True

    def _cached_as(self, path: str) -> str:
        return f"{self._owner}_{path.replace('/', '_')}"

    def _read(self, address: Address) -> bytes:
        try:
            return self._block.read(address)
        except ObjectNotFound as error:
            self._forget()
            raise MissingFile(str(address)) from error

    def _store(self, ranges: Sequence[NewRange], *metaranges: tuple[str, bytes]) -> None:
        """Store files of ranges and metaranges in one call, and count new files."""
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
        """Cache the rows of a new range, which is likely to be read next.

        Not if they are a small part of larger buffers, which would be kept alive too.
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
        """Take no range for stored any more: where one file is missing, more may be."""
        with self._lock:
            self._known.clear()
            self._missing.update(missing)

    def _count(self, counter: str) -> None:
        with self._lock:
            setattr(self.counters, counter, getattr(self.counters, counter) + 1)


def _size_bytes(metarange: MetaRange) -> int:
    """Estimate the memory of a metarange: references as Python objects, and their keys."""
    return 500 + sum(500 + len(ref.min_key) + len(ref.max_key) for ref in metarange.refs)
