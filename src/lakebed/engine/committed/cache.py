"""Immutable files, kept near: decoded in memory, and as they are on the local disk.

A file's name is the hash of its content, so what is cached never changes. There is nothing to
invalidate: one cache in memory serves all repositories of a process, and one folder serves all
processes of a machine. What is cached of one repository is never shown to another: names begin with
the unique id of the repository, and who knows the id of a file gets it only where it belongs.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from lakebed.base.lru import LRU
from lakebed.base.runtime import Event, Runtime
from lakebed.engine.committed.columns import Range
from lakebed.engine.metrics import DISK_HITS, DISK_MISSES, MEMORY_HITS, MEMORY_MISSES
from lakebed.engine.settings import CacheSettings
from lakebed.formats import MetaRange

_LOGGER: Final = logging.getLogger(__name__)

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
