"""Immutable files, kept near: decoded in memory, as they are on the local disk.

What is cached never changes, because its name is the hash of its content. So there is nothing to
invalidate, and one cache serves all repositories of a process; the folder serves all processes of
a machine.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from lakebed.engine.committed.keys import Range
from lakebed.formats import MetaRange
from lakebed.runtime import Event, Runtime

ValueT = TypeVar("ValueT")

# Other processes fill the folder too: look at its real size each time this share of it was written.
_SWEEP_SHARE: Final = 16


class MemoryCache(Generic[ValueT]):
    """Values by name, the least recently used ones dropped when their sizes exceed a bound."""

    def __init__(self, runtime: Runtime, *, max_bytes: int) -> None:
        self._runtime = runtime
        self._max_bytes = max_bytes
        self._lock = runtime.lock()
        self._values: OrderedDict[str, tuple[ValueT, int]] = OrderedDict()
        self._bytes = 0
        self._loading: dict[str, Event] = {}

    @property
    def size_bytes(self) -> int:
        """The size of what is held now."""
        return self._bytes

    def get(self, name: str, load: Callable[[], tuple[ValueT, int]]) -> ValueT:
        """Return the value of a name; `load` it, with its size in bytes, if it is not held.

        Of several callers that want the same name at the same time, one loads and the others wait
        for it. If it fails, the error is its own, and another tries.
        """
        while True:
            with self._lock:
                held = self._values.get(name)
                if held is not None:
                    self._values.move_to_end(name)
                    return held[0]
                loading = self._loading.get(name)
                if loading is None:
                    loaded = self._loading[name] = self._runtime.event()
                    break
            loading.wait()
        try:
            value, size_bytes = load()
            self._keep(name, value, size_bytes)
        finally:
            with self._lock:
                del self._loading[name]
            loaded.set()
        return value

    def _keep(self, name: str, value: ValueT, size_bytes: int) -> None:
        if size_bytes > self._max_bytes:
            return
        with self._lock:
            self._values[name] = value, size_bytes
            self._bytes += size_bytes
            while self._bytes > self._max_bytes:
                _, (_, dropped_bytes) = self._values.popitem(last=False)
                self._bytes -= dropped_bytes


class DiskCache:
    """Files by name in a folder that processes share, the least recently used ones deleted first.

    A file appears by a rename, so whole; it may vanish at any time, when another process makes
    room. It is not flushed to the disk: who reads it checks its content and calls `discard` if it
    is not what it should be. A disk that is full or broken makes the cache useless, not wrong.
    """

    def __init__(self, runtime: Runtime, folder: Path, *, max_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._runtime = runtime
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = runtime.lock()
        self._written_bytes = 0
        self._sweep()

    def get(self, name: str) -> bytes | None:
        """Return the bytes kept under a name, if any."""
        path = self._folder / name
        try:
            data = path.read_bytes()
            os.utime(path)  # used just now
        except OSError:
            return None
        return data

    def put(self, name: str, data: bytes) -> None:
        """Keep bytes under a name."""
        if len(data) > self._max_bytes:
            return
        temporary = self._folder / f"{name}.{self._runtime.random_bytes(8).hex()}.tmp"
        try:
            temporary.write_bytes(data)
            temporary.replace(self._folder / name)
        except OSError:
            _remove(temporary)
            return
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
        for path in self._folder.iterdir():
            try:
                status = path.stat()
            except OSError:
                continue
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
    """What a process keeps of committed metadata: decoded in memory and, if told, on disk."""

    def __init__(
        self, runtime: Runtime, *, memory_bytes: int = 256 << 20, disk: DiskCache | None = None
    ) -> None:
        metarange_bytes = memory_bytes // 8
        self.metaranges = MemoryCache[MetaRange](runtime, max_bytes=metarange_bytes)
        self.ranges = MemoryCache[Range](runtime, max_bytes=memory_bytes - metarange_bytes)
        self.disk = disk
