"""Files on disk: writing them durably, telling one write from another, explaining what failed."""

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
"""A draft that nobody wrote to for so long belongs to a process that is gone."""

_LOCK_FILES: Final = 256
_SPELLINGS: Final = ("A\u00c9", "a\u00c9", "AE\u0301")
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN: Final = {errno.EACCES, errno.EPERM, errno.EROFS}

_WRITE_OUT_BYTES: Final = 8 << 20
"""After so many bytes of a draft the disk is told to begin with them."""
_SYNC_FILE_RANGE_WRITE: Final = 2
_DRAFT: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

Sync = Callable[[int], None]
"""Brings what was written by a descriptor to the disk, or does nothing."""

_LOGGER: Final = logging.getLogger(__name__)

# Linux alone has it, and Python does not offer it.
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def to_disk(descriptor: int) -> None:
    """Wait until the disk has the bytes of a file, or the names in a folder."""
    about_to_wait()
    os.fsync(descriptor)


def begin_to_disk(descriptor: int, start: int, length: int) -> None:
    """Let the system begin to write a part of a file to the disk, where it can be told to.

    Nothing is promised by it: `to_disk` waits until all is there, and tells what failed.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, start, length, _SYNC_FILE_RANGE_WRITE)


def not_to_disk(_descriptor: int) -> None:
    """Leave it to the system when the disk gets them: storages that need not last."""


class _Explained:
    """See `explained`. Each read enters two of these: as generators, they took twice as long."""

    __slots__ = ("_place",)

    def __init__(self, place: object) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        # Some errors of block storage are OSErrors too.
        if isinstance(error, OSError) and not isinstance(error, BlockError):
            raise _explain(self._place, error) from error


explained: Final = _Explained
"""Turns errors of the system into those of block storage, for the place that they are about."""


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
    """Explain what fails after a change is visible: no error may say that nothing was changed."""
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(
            f"{place}: the change was made but may not last: {error.strerror or error}"
        ) from error


def etag_of(status: os.stat_result) -> ETag:
    """Return the mark of one write of a file.

    Size and time of a file do not tell two writes apart: the clock of a file system stands still
    for milliseconds. So every draft is stamped with the nanosecond at which it was sealed, and the
    inode goes in too: an object and the one that replaces it exist side by side for a moment, so
    theirs always differ. Reading a mark costs nothing beyond ``stat``, for large files too, and
    files that others put into the tree have one as well.
    """
    # Listings have millions of marks, and an f-string takes nearly twice as long.
    numbers = (status.st_mtime_ns, status.st_ino, status.st_size)
    return ETag("%x-%x-%x" % numbers)  # noqa: UP031


def write_all(descriptor: int, data: bytes) -> None:
    """Append bytes to a file."""
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def stamp(descriptor: int) -> os.stat_result:
    """Give a file the time of now, after its last byte; return what it is like."""
    now_ns = time.time_ns()
    os.utime(descriptor, ns=(now_ns, now_ns))
    return os.fstat(descriptor)


class Draft:
    """A file that is being written, in the reserved folder; it becomes an object by a rename.

    Leaving the ``with`` block drops it unless it was moved away by then. The disk begins with the
    first bytes of a large one while the rest is on its way, so that the sync finds little left.
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
        """Append bytes."""
        write_all(self._descriptor, data)
        self._count(len(data))

    def copy(self, source: int, length: int) -> None:
        """Append bytes from the start of an open file, without taking them through this process.

        Raises:
            OSError: It failed, or the file ended early.
        """
        offset = 0
        while offset < length:
            wanted = min(length - offset, _WRITE_OUT_BYTES)
            copied = os.sendfile(self._descriptor, source, offset, wanted)
            if not copied:
                raise OSError(f"a file ended {length - offset} bytes too early")
            offset += copied
            self._count(copied)

    def _count(self, appended: int) -> None:
        self._size += appended
        length = self._size - self._begun
        if length >= _WRITE_OUT_BYTES and self._sync is not not_to_disk:
            begin_to_disk(self._descriptor, self._begun, length)
            self._begun = self._size

    def seal(self) -> os.stat_result:
        """Bring all bytes to the disk; return what the finished file is like."""
        status = self.stamp()
        self.sync()
        return status

    def stamp(self) -> os.stat_result:
        """Give the file the time of now, after its last byte; return what it is like."""
        return stamp(self._descriptor)

    def sync(self) -> None:
        """Bring all bytes to the disk."""
        self._sync(self._descriptor)

    def move(self, target: str | bytes | Path, folder: int | None = None) -> None:
        """Give the file its place; a name is one in the folder, if that is given."""
        os.rename(self.path, target, dst_dir_fd=folder)
        self._is_moved = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
        if not self._is_moved:
            with suppress(OSError):  # it is left to `drop_abandoned`
                os.unlink(self.path)  # noqa: PTH108 - a path object costs more than the call


@contextmanager
def drafted(folder: Path, place: object, sync: Sync, data: bytes = b"") -> Iterator[Draft]:
    """Write a draft that begins with some bytes, for a place that errors are to name."""
    with explained(place):
        draft = Draft(folder, sync)
    with draft:
        if data:
            with explained(place):
                draft.write(data)
        yield draft


class Locks:
    """Locks between threads and processes, by name; two names may share one.

    The files stay: a lock file that is removed while somebody waits for it locks nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, name: bytes) -> Iterator[None]:
        """Keep everybody else out while the block runs. One lock at a time: they would cross."""
        with locked_file(f"{self._folder}/{crc32(name) % _LOCK_FILES:02x}", os.O_CREAT):
            yield


@contextmanager
def locked_file(path: Path | str, flags: int = 0) -> Iterator[None]:
    """Hold the lock of a file while the block runs, against threads and processes alike.

    Raises:
        FileNotFoundError: There is no such file, and the flags do not say to make it.
    """
    # A descriptor of its own for every holder: that is what the lock belongs to.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_folder(path: Path, sync: Sync) -> None:
    """Make a folder and those above it, so that they survive a power failure."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent, sync)


def sync_folder(path: Path, sync: Sync) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def check_clock_of_files(folder: Path) -> None:
    """Refuse a file system that keeps no nanoseconds: `etag_of` could not tell writes apart.

    Raises:
        InvalidArgument: It keeps none.
    """
    # Of this second: a process that starts at the same time removes drafts that look old.
    precise_ns = time.time_ns() // 10**9 * 10**9 + 123_456_789
    with Draft(folder, not_to_disk) as draft:
        os.utime(draft.path, ns=(precise_ns, precise_ns))
        if Path(draft.path).stat().st_mtime_ns != precise_ns:
            raise InvalidArgument(
                f"the file system of {folder} does not keep times to the nanosecond, by which local"
                " storage tells one write from another; use another file system"
            )


def check_names_of_files(folder: Path) -> None:
    """Refuse a file system that takes two names for one: two addresses would be one object.

    Raises:
        InvalidArgument: It ignores case, or how letters with accents are composed.
    """
    name = os.fsencode(folder / uuid4().hex)
    written, *others = (name + spelling.encode() for spelling in _SPELLINGS)
    os.close(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        if any(map(os.path.lexists, others)):
            raise InvalidArgument(
                f"the file system of {folder} takes two names for one where they differ in case or"
                " in how accents are written; use another file system"
            )
    finally:
        os.unlink(written)  # noqa: PTH108 - bytes, whatever the locale says


def check_no_journal(folder: Path) -> None:
    """Refuse a storage with files in the journal that earlier versions kept.

    Raises:
        InvalidArgument: They may be the only copy of objects.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise InvalidArgument(
            f"the journal in {folder}, which an earlier version left behind when it was cut off,"
            " may hold acknowledged objects; open the storage once with the version that wrote it,"
            " and close it"
        )


def drop_abandoned(folder: Path) -> None:
    """Remove drafts that a process left behind when it was killed."""
    oldest = time.time() - ABANDONED_SECONDS
    for path in folder.iterdir():
        # Another process tidies up as well; and what cannot be removed is in nobody's way.
        with suppress(OSError):
            if path.stat().st_mtime >= oldest:
                continue
            if path.is_dir():
                rmtree(path, ignore_errors=True)
            else:
                path.unlink()
            _LOGGER.info("removed %s, which a process left behind", path)
