"""Files on disk: durable writes, ETags of writes, and mapping of errors."""

import ctypes
import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Final, Self
from uuid import uuid4
from zlib import crc32

from lakebed.base.runtime import ThreadRuntime, about_to_wait
from lakebed.block.errors import (
    BlockError,
    Forbidden,
    InvalidAddress,
    InvalidArgument,
    StorageFull,
    StorageUnavailable,
)
from lakebed.block.store import ETag

ABANDONED_SECONDS: Final = 24 * 3600
"""Age after which an unmodified draft counts as left by a dead process."""

_LOCK_FILES: Final = 256
_SPELLINGS: Final = ("A\u00c9", "a\u00c9", "AE\u0301")
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN: Final = {errno.EACCES, errno.EPERM, errno.EROFS}

_WRITE_OUT_BYTES: Final = 8 << 20
"""Start writing back a draft after this many bytes."""
_SYNC_FILE_RANGE_WRITE: Final = 2
_DRAFT: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

Sync = Callable[[int], None]
"""Makes the bytes written to a descriptor durable, or does nothing."""

_LOGGER: Final = logging.getLogger(__name__)

# Linux only, and not exposed by Python.
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def to_disk(descriptor: int) -> None:
    """Sync the bytes of a file, or the entries of a folder, to disk."""
    about_to_wait()
    os.fsync(descriptor)


def begin_to_disk(descriptor: int, start: int, length: int) -> None:
    """Start writing back a part of a file, where the system supports it.

    Guarantees nothing: `to_disk` waits for all bytes and reports errors.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, start, length, _SYNC_FILE_RANGE_WRITE)


def not_to_disk(_descriptor: int) -> None:
    """Skip the sync: for storages that need not be durable."""


class _Explained:
    """See `explained`. Every read enters two of these: generators took twice as long."""

    __slots__ = ("_place",)

    def __init__(self, place: object) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        # Some errors of block storage are also OSErrors.
        if isinstance(error, OSError) and not isinstance(error, BlockError):
            raise _explain(self._place, error) from error


explained: Final = _Explained
"""Converts errors of the system to errors of block storage for a place."""


def _explain(place: object, error: OSError) -> BlockError:
    message = f"{place}: {error.strerror or error}"
    if error.errno in _FULL:
        return StorageFull(message)
    if error.errno in _FORBIDDEN:
        return Forbidden(message)
    if error.errno == errno.ENAMETOOLONG:
        return InvalidAddress(message)
    return StorageUnavailable(message)


@contextmanager
def applied(place: object) -> Iterator[None]:
    """Convert errors after a change is visible: none may claim that nothing was changed."""
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(
            f"{place}: the change was made but may not be durable: {error.strerror or error}"
        ) from error


def etag_of(status: os.stat_result) -> ETag:
    """Return the ETag of a write of a file.

    Size and modification time alone do not distinguish two writes: the clock of a file system
    stands still for milliseconds. So every draft is stamped with the nanosecond at which it was
    sealed, and the inode is included: an object and its replacement coexist for a moment, so their
    inodes differ. An ETag costs only a ``stat``, even for large files, and files that other
    programs created have one.
    """
    # Listings have millions of ETags, and an f-string takes nearly twice as long.
    numbers = (status.st_mtime_ns, status.st_ino, status.st_size)
    return ETag("%x-%x-%x" % numbers)  # noqa: UP031


def write_all(descriptor: int, data: bytes) -> None:
    """Append bytes to a file."""
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def stamp(descriptor: int) -> os.stat_result:
    """Set the modification time to now, after the last byte; return the status."""
    now_ns = time.time_ns()
    os.utime(descriptor, ns=(now_ns, now_ns))
    return os.fstat(descriptor)


class Draft:
    """A file being written in the reserved folder; a rename makes it an object.

    Leaving the ``with`` block deletes the draft unless it was moved. Large drafts are written back
    while the rest arrives, so the final sync has little to do.
    """

    def __init__(self, folder: Path, sync: Sync) -> None:
        # By a runtime, which draws many bytes at a time.
        self.path = f"{folder}/{ThreadRuntime().random_bytes(16).hex()}"
        self._descriptor = os.open(self.path, _DRAFT, 0o666)
        self._sync = sync
        self._is_moved = False
        self._size = 0
        self._begun = 0

    def write(self, data: bytes) -> None:
        write_all(self._descriptor, data)
        self._count(len(data))

    def copy(self, source: int, length: int) -> None:
        """Append bytes from the start of an open file, without copying through this process.

        Raises:
            OSError: The copy failed, or the file ended early.
        """
        offset = 0
        while offset < length:
            wanted = min(length - offset, _WRITE_OUT_BYTES)
            copied = os.sendfile(self._descriptor, source, offset, wanted)
            if not copied:
                raise OSError(f"a file ended {length - offset} bytes early")
            offset += copied
            self._count(copied)

    def _count(self, appended: int) -> None:
        self._size += appended
        length = self._size - self._begun
        if length >= _WRITE_OUT_BYTES and self._sync is not not_to_disk:
            begin_to_disk(self._descriptor, self._begun, length)
            self._begun = self._size

    def seal(self) -> os.stat_result:
        """Sync all bytes; return the status of the finished file."""
        status = self.stamp()
        self.sync()
        return status

    def stamp(self) -> os.stat_result:
        """Set the modification time to now, after the last byte; return the status."""
        return stamp(self._descriptor)

    def sync(self) -> None:
        self._sync(self._descriptor)

    def move(self, target: str | bytes | Path, folder: int | None = None) -> None:
        """Rename the draft to its target; a name is relative to `folder`, if given."""
        os.rename(self.path, target, dst_dir_fd=folder)
        self._is_moved = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
        if not self._is_moved:
            with suppress(OSError):  # `drop_abandoned` deletes the draft later
                os.unlink(self.path)  # noqa: PTH108 - a path object costs more than the call


@contextmanager
def drafted(folder: Path, place: object, sync: Sync, data: bytes = b"") -> Iterator[Draft]:
    """Write a draft that begins with `data`; errors name `place`."""
    with explained(place):
        draft = Draft(folder, sync)
    with draft:
        if data:
            with explained(place):
                draft.write(data)
        yield draft


class Locks:
    """Named locks between threads and processes; two names may share a lock.

    The lock files are never deleted: a file deleted while a process waits for it locks nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, name: bytes) -> Iterator[None]:
        """Hold the lock during the block. Take one lock at a time: two could deadlock."""
        with locked_file(f"{self._folder}/{crc32(name) % _LOCK_FILES:02x}", os.O_CREAT):
            yield


@contextmanager
def locked_file(path: Path | str, flags: int = 0) -> Iterator[None]:
    """Hold the lock of a file, against threads and processes, during the block.

    Raises:
        FileNotFoundError: The file does not exist, and the flags do not create it.
    """
    # One descriptor per holder: the lock belongs to the descriptor.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_folder(path: Path, sync: Sync) -> None:
    """Create a folder and its missing parents durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent, sync)


def sync_folder(path: Path, sync: Sync) -> None:
    """Sync the entries of a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def check_clock_of_files(folder: Path) -> None:
    """Raise `InvalidArgument` if files have no nanosecond timestamps, as `etag_of` needs."""
    # In the current second: a process starting at the same time deletes drafts that look old.
    precise_ns = time.time_ns() // 10**9 * 10**9 + 123_456_789
    with Draft(folder, not_to_disk) as draft:
        os.utime(draft.path, ns=(precise_ns, precise_ns))
        if Path(draft.path).stat().st_mtime_ns != precise_ns:
            raise InvalidArgument(
                f"the file system of {folder} does not store nanosecond timestamps, which local"
                " storage needs; use another file system"
            )


def check_names_of_files(folder: Path) -> None:
    """Raise `InvalidArgument` if the file system ignores case or accent composition."""
    name = os.fsencode(folder / uuid4().hex)
    written, *others = (name + spelling.encode() for spelling in _SPELLINGS)
    os.close(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        if any(map(os.path.lexists, others)):
            raise InvalidArgument(
                f"the file system of {folder} ignores case or the composition of accents in"
                " file names; use another file system"
            )
    finally:
        os.unlink(written)  # noqa: PTH108 - bytes, whatever the locale says


def check_no_journal(folder: Path) -> None:
    """Raise `InvalidArgument` if a journal with files exists: they may be the only copy."""
    if folder.is_dir() and any(folder.iterdir()):
        raise InvalidArgument(
            f"the journal in {folder}, left by an interrupted earlier version, may contain"
            " acknowledged objects; open and close the storage once with that version"
        )


def drop_abandoned(folder: Path) -> None:
    """Delete drafts left by killed processes."""
    oldest = time.time() - ABANDONED_SECONDS
    for path in folder.iterdir():
        # Another process may delete the same drafts; failures are harmless.
        with suppress(OSError):
            if path.stat().st_mtime >= oldest:
                continue
            if path.is_dir():
                rmtree(path, ignore_errors=True)
            else:
                path.unlink()
            _LOGGER.info("removed %s, left by a killed process", path)
