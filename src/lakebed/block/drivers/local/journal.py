"""A journal of small files: many of them become durable by one wait for the disk.

To bring a new file to the disk takes two waits, for its bytes and for its name, and those took more
than a third of a small upload. So where many small files are written, they go to their places
without a wait. Their paths and bytes go into the *journal* too, together with those of all others
who write at that moment, and one wait brings the journal to the disk. Some seconds later the whole
file system is brought to the disk (``syncfs``), which costs little however many files there are,
and that part of the journal is removed. After a power failure, or where a process was killed,
whoever opens the storage next writes anew what the journal says.

What must hold, at every step:

1. A file is whole and at its place before it is noted in the journal. So whatever is noted when
   ``syncfs`` begins is on the disk when that has ended.
2. A *segment*, one file of the journal, is removed only after such a ``syncfs``. Nothing is added
   to it once that call has begun.
3. Files that are noted never change: their addresses are named by nothing before (`put_unnamed`),
   or follow from their contents (`create_by_content`). So to write one anew is always right.
4. A segment belongs to the process that made it, which holds its lock from before others can see
   it. One whose lock nobody holds was left behind, by a process that was killed or by a machine
   that failed.
5. What the system shows of a file is no proof that the disk has it: if it could not be written, it
   may be shown all the same, and whoever waits for the disk later is told of no error. So the files
   of a segment that was left behind are always written anew, and as new files: bytes that are
   written over those of such a file may reach the disk of ext4, and still not count there.

| what fails | what is there then |
|---|---|
| process or machine, before the journal is on the disk | garbage that nobody was told of |
| the process, after that | the files, in the memory of the system, and the segment |
| the machine, after that | the segment: all that was acknowledged is written anew |
| the write to the journal | the file: whoever wrote it brings it to the disk alone |
| ``syncfs`` | the segment, of which all files are written anew, each brought to the disk alone |
| the machine, after files were deleted | some deleted seconds before may be back, as garbage |

A process that writes few files has no journal: to make one costs more than it spares.
"""

import ctypes
import fcntl
import logging
import os
import platform
import re
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from uuid import uuid4
from zlib import crc32

from lakebed.block.drivers.local.files import locked_file, sync_folder, to_disk
from lakebed.block.errors import InvalidArgument
from lakebed.runtime import about_to_wait

FILE_BYTES_MAX: Final = 64 << 10
"""The largest file that is noted: larger ones cost more to write twice than to wait for."""

FEW_FILES: Final = 16
SEGMENT_SECONDS: Final = 5.0
"""A segment takes files for so long. So many files in that time are too few for a journal."""

_SEGMENT_BYTES_MAX: Final = 256 << 20
# A file that grows makes the file system write more than the bytes; so it grows by this much, with
# zeros, behind which there is nothing.
_GROWTH_BYTES: Final = 1 << 20
_PAUSE_SECONDS: Final = 60.0
"""How long files do without the journal after it could not be written."""

_MAGIC: Final = b"lakebed journal "
_VERSION: Final = b"1\n"
_NONCE_BYTES: Final = 16
_HEADER_BYTES: Final = len(_MAGIC) + len(_VERSION) + _NONCE_BYTES
_RECORD: Final = struct.Struct("<IHI")
"""A checksum over all that follows, and the lengths of the path and of the bytes behind it."""
_LENGTHS: Final = struct.Struct("<HI")
_CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

# Where `syncfs` waits until the disk has everything. Elsewhere it may not: a file system that
# is served by a program (FUSE), for example, is not told of it.
_FILE_SYSTEMS: Final = frozenset({0xEF53, 0x58465342, 0x9123683E})  # ext2 to ext4, XFS, Btrfs
_LINUX: Final = (5, 8)
"""Since this version ``syncfs`` tells what could not be written."""
_STATFS_BYTES: Final = 512

_LOGGER: Final = logging.getLogger(__name__)


class Restore(Protocol):
    """Writes a file of the journal anew."""

    def __call__(self, path: str, data: bytes, *, durably: bool) -> None:
        """Have the file at its place, by a path as the journal was given it.

        The disk has it when this returns, or else when the next sync of the file system has ended.
        """


def can_sync_file_system(descriptor: int) -> bool:
    """Whether `sync_file_system` is known to bring all files beside this one to the disk."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if platform.system() != "Linux" or release is None:
        return False
    if tuple(map(int, release.groups())) < _LINUX:
        return False
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if ctypes.CDLL(None).fstatfs(descriptor, found) != 0:
        return False
    return ctypes.c_ulong.from_buffer(found).value in _FILE_SYSTEMS


def sync_file_system(descriptor: int) -> None:
    """Wait until the disk has all that was written to the file system of a file.

    Raises:
        OSError: Something could not be written.
    """
    if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class _Batch:
    """Files that are noted together."""

    __slots__ = ("_latch", "files", "is_on_disk")

    def __init__(self) -> None:
        self.files: list[tuple[str, bytes]] = []
        """Their paths and bytes."""
        self.is_on_disk = False
        # The cheapest way to wait for another thread: a lock that the other one releases.
        self._latch = threading.Lock()
        self._latch.acquire()

    def wait(self) -> None:
        """Wait for the end of the batch; then let the next one go who waits for it."""
        with self._latch:
            pass

    def end(self) -> None:
        """Let those go who wait."""
        self._latch.release()


class _Segment:
    """One file of the journal, which takes records."""

    def __init__(self, folder: Path, drafts: Path) -> None:
        """Make it; it is this process's own, and on the disk, when this returns.

        It comes to its place when its lock is held: others would take it for one left behind.

        Raises:
            OSError: It cannot be made.
        """
        name = uuid4().hex
        self.path = drafts / name
        self.size = 0
        self.is_broken = False
        """Whether it takes no more, because something could not be written."""
        self._grown_to = 0
        self._descriptor = os.open(self.path, _CREATE, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            nonce = os.urandom(_NONCE_BYTES)
            self._seed = crc32(nonce)
            self._append(_MAGIC + _VERSION + nonce)
            self.path = self.path.rename(folder / name)
            sync_folder(folder, to_disk)
        except BaseException:
            with suppress(OSError):
                self.path.unlink()
            os.close(self._descriptor)
            raise

    def add(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Note files; the disk has them when this returns.

        Raises:
            OSError: It may not have them. Nothing is to be added any more.
        """
        self.is_broken = True  # unless all goes well
        parts: list[bytes] = []
        for text, data in files:
            path = text.encode()
            lengths = _LENGTHS.pack(len(path), len(data))
            checksum = _checksum(self._seed, lengths, path, data)
            parts += (checksum.to_bytes(4, "little"), lengths, path, data)
        self._append(b"".join(parts))
        self.is_broken = False

    def _append(self, data: bytes) -> None:
        end = self.size + len(data)
        while end > self._grown_to:
            _write_at(self._descriptor, bytes(_GROWTH_BYTES), self._grown_to)
            self._grown_to += _GROWTH_BYTES
        _write_at(self._descriptor, data, self.size)
        os.fdatasync(self._descriptor)
        self.size = end

    def close(self) -> None:
        """Give up the lock. If it is still there, others take it for one left behind."""
        os.close(self._descriptor)


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def _checksum(seed: int, lengths: bytes, path: bytes, data: bytes) -> int:
    """Return what tells a record of this segment from anything else that the disk may hold."""
    return crc32(data, crc32(path, crc32(lengths, seed)))


def read_segment(file: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    """Iterate over the paths and bytes of the files that were noted in a segment.

    It ends where the last one does that was written whole: what is behind was not acknowledged.

    Raises:
        InvalidArgument: It is of a later version of Lakebed.
    """
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return
    if not header.startswith(_MAGIC + _VERSION):
        raise InvalidArgument(
            f"{name} was written by a later version of Lakebed, and may be needed to bring back"
            " objects after a power failure; open the storage with that version once"
        )
    seed = crc32(header[-_NONCE_BYTES:])
    while len(begin := file.read(_RECORD.size)) == _RECORD.size:
        checksum, path_bytes, data_bytes = _RECORD.unpack(begin)
        if not path_bytes or data_bytes > FILE_BYTES_MAX:
            return
        path, data = file.read(path_bytes), file.read(data_bytes)
        if checksum != _checksum(seed, begin[-_LENGTHS.size :], path, data):
            return
        yield path.decode(), data


class Journal:
    """The journal of a storage, as one process writes it and finds it left by others.

    Args:
        folder: Where its segments are, on the file system of all files. It is on the disk.
        drafts: Where they are made, on the same one.
        lock: A file by which one process at a time recovers what others left.
        restore: Writes a file anew.
        is_written: Whether this process notes files; if not, it only recovers what others left.
    """

    def __init__(
        self, folder: Path, drafts: Path, lock: Path, restore: Restore, *, is_written: bool
    ) -> None:
        self._folder = folder
        self._drafts = drafts
        self._recovery_lock = lock
        self._restore = restore
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._can_sync = can_sync_file_system(self._descriptor)
        self._is_written = is_written and self._can_sync
        self._lock = threading.Lock()
        self._gathering = _Batch()
        """What is noted next."""
        self._writing = threading.Lock()
        """Held by whoever writes to the segment, or takes it away."""
        self._segment: _Segment | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._counted = 0
        self._counted_since = self._paused_until = -SEGMENT_SECONDS

    def takes(self, size_bytes: int) -> bool:
        """Whether a new file of this size is to be noted; if not, it has to be synced alone."""
        if not self._is_written or size_bytes > FILE_BYTES_MAX:
            return False
        # Ctrl-C can break the main thread off anywhere, and others may wait for it.
        if threading.get_ident() == threading.main_thread().ident:
            return False
        now = time.monotonic()
        if now > self._counted_since + SEGMENT_SECONDS:
            self._counted_since, self._counted = now, 0
        self._counted += 1
        if self._counted <= FEW_FILES or now < self._paused_until:
            return False
        segment = self._segment
        return segment is None or segment.size < _SEGMENT_BYTES_MAX

    def add(self, files: Sequence[tuple[str, bytes]]) -> bool:
        """Note files that are at their places, by their paths and bytes.

        Returns whether they outlive a power failure. If not, the caller has to sync the files, and
        the names of all folders above them.
        """
        with self._lock:
            batch = self._gathering
            leads = not batch.files
            batch.files += files
        about_to_wait()
        if not leads:
            batch.wait()
            return batch.is_on_disk
        # Others join, while the batch before this one is written.
        with self._writing:
            with self._lock:
                self._gathering = _Batch()
            try:
                batch.is_on_disk = self._write(batch)
            finally:
                batch.end()
        return batch.is_on_disk

    def _write(self, batch: _Batch) -> bool:
        """Write a batch to the segment, or to a new one; return whether the disk has it."""
        if self._closing.is_set() or (self._segment is not None and self._segment.is_broken):
            return False
        try:
            if self._segment is None:
                self._start_thread()
                self._segment = _Segment(self._folder, self._drafts)
            self._segment.add(batch.files)
        except (OSError, RuntimeError) as error:  # RuntimeError: the system gives no more threads
            _LOGGER.warning("the journal in %s cannot be written: %s", self._folder, error)
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            return False
        return True

    def _start_thread(self) -> None:
        if self._thread is None:
            # A daemon: a program that forgets to close its storage must be able to end.
            thread = threading.Thread(
                target=self._end_segments, name="lakebed-journal", daemon=True
            )
            thread.start()
            self._thread = thread

    def _end_segments(self) -> None:
        """End each segment when it is old enough, until there is no new one."""
        while not self._closing.wait(SEGMENT_SECONDS):
            with self._writing:
                segment, self._segment = self._segment, None
                if segment is None:
                    self._thread = None
                    return
            self._end(segment)

    def _end(self, segment: _Segment) -> None:
        """Bring all files of a segment to the disk, and remove it."""
        try:
            with segment.path.open("rb") as file:
                self._bring_to_disk(file)
            _remove(segment.path)
        except Exception:
            # It stays for whoever opens the storage next.
            _LOGGER.exception("%s is kept: its files may not be on the disk", segment.path)
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
        finally:
            segment.close()

    def recover(self) -> None:
        """Settle the segments that were left behind: write anew what the disk has lost.

        All of it is there when this returns, also if another process is at it.

        Raises:
            PermissionError: This user may not settle one; all others are settled.
            OSError: A file cannot be read or written; its segment stays.
            InvalidArgument: A segment is of a later version of Lakebed.
        """
        if not any(self._folder.iterdir()):
            return
        refused: PermissionError | None = None
        with locked_file(self._recovery_lock, os.O_CREAT):
            for path in list(self._folder.iterdir()):
                try:
                    self._settle(path)
                except PermissionError as error:
                    refused = error
        if refused is not None:
            raise refused

    def _settle(self, segment: Path) -> None:
        """Have all files of a segment on the disk, and remove it, if it was left behind."""
        left = _take_over(segment)
        if left is None:
            return
        with left:
            count = self._restore_all(left, durably=not self._can_sync)
            if count:
                if self._can_sync:
                    self._bring_to_disk(left)
                _LOGGER.warning("a process left %s behind: its %d files are there", segment, count)
            _remove(segment)

    def _bring_to_disk(self, segment: BinaryIO) -> None:
        """Have all files of a segment on the disk, which were written to their places."""
        try:
            sync_file_system(self._descriptor)
        except OSError as error:
            # What could not be written, nobody knows; and the system may have dropped it.
            _LOGGER.warning("%s: files are written anew: %s", self._folder.parent, error)
            self._restore_all(segment, durably=True)

    def _restore_all(self, segment: BinaryIO, *, durably: bool) -> int:
        """Write all files of a segment anew; return how many there are."""
        segment.seek(0)
        count = 0
        for path, data in read_segment(segment, segment.name):
            self._restore(path, data, durably=durably)
            count += 1
        return count

    def close(self) -> None:
        """End what is left; later files are not noted. Twice is fine."""
        if self._closing.is_set():
            return
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join()
        with self._writing:
            segment, self._segment = self._segment, None
        if segment is not None:
            self._end(segment)
        os.close(self._descriptor)


def _take_over(segment: Path) -> BinaryIO | None:
    """Open and lock a segment; None if its process lives, or it is gone."""
    try:
        # To be locked on a network's file system, it must be open for writing.
        file = segment.open("r+b")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        is_left = False
    else:
        is_left = os.fstat(file.fileno()).st_nlink > 0
    if is_left:
        return file
    file.close()
    return None


def _remove(segment: Path) -> None:
    """Remove a segment for good: one that came back would bring deleted files back."""
    segment.unlink()
    sync_folder(segment.parent, to_disk)
