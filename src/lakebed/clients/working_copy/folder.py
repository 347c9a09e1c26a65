"""File system access of a working copy: confined to its directory, with atomic file writes.

Every path is opened component by component from the directory itself, without following symbolic
links, so a link never leads a read or write elsewhere. New files are written under `.lakebed/`,
synced to disk and renamed.
"""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from lakebed.clients.working_copy.errors import Changed, InUse, NotAFile
from lakebed.clients.working_copy.hashes import LocalFile
from lakebed.clients.working_copy.state import STATE_FILE

OWN_FOLDER: Final = ".lakebed"
"""Subdirectory for incomplete files and notes of active operations."""
IGNORED_NAMES: Final = frozenset({STATE_FILE, ".DS_Store"})
"""Names ignored at any depth, as lakectl does."""

_DRAFT_SUFFIX: Final = ".part"
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkingFolder:
    """The directory of a working copy, locked by this process. Threads may share it."""

    def __init__(self, root: Path) -> None:
        """Open and lock a directory.

        Raises:
            InUse: Another process has locked it.
            OSError: The directory cannot be opened.
        """
        self.root = root
        self._fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise InUse(f"{root} is in use by another process: wait until it has ended") from None
        except OSError:
            pass  # a file system without locks

    def close(self) -> None:
        try:
            self._discard_drafts()
        finally:
            os.close(self._fd)

    def is_empty(self) -> bool:
        """Whether the directory has no entries besides `.lakebed`."""
        return not {entry.name for entry in self.root.iterdir()} - {OWN_FOLDER}

    def ignores_case(self) -> bool:
        """Whether the file system is case-insensitive."""
        self._make_own()
        try:
            os.stat(OWN_FOLDER.upper(), dir_fd=self._fd)
        except FileNotFoundError:
            return False
        return True

    def walk(self) -> Iterator[LocalFile]:
        """Iterate over all files, sorted by the bytes of their paths like a server's listing.

        Raises:
            NotAFile: A path is neither a file nor a directory, or its name is not UTF-8.
        """
        return self._walk("")

    def _walk(self, prefix: str) -> Iterator[LocalFile]:
        with self._opened(prefix) as fd, os.scandir(fd) as found:
            entries = [
                (f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name)
                for entry in found
                if entry.name not in IGNORED_NAMES and (prefix or entry.name != OWN_FOLDER)
            ]
        for name in sorted(entries, key=lambda name: name.encode(errors="surrogateescape")):
            path = prefix + name
            _require_text(path)
            if name.endswith("/"):
                yield from self._walk(path)
            elif (file := self.find(path)) is not None:
                yield file

    def find(self, path: str) -> LocalFile | None:
        """Return the status of a file, or None if it does not exist.

        Raises:
            NotAFile: The path is not a file, or its parent not a directory.
        """
        try:
            with self._parent(path) as (fd, name):
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return _local_file(path, found)

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading.

        Raises:
            NotAFile: The path is a symbolic link or otherwise not a file.
            OSError: The file cannot be read.
        """
        with self._parent(path) as (fd, name):
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        file = os.fdopen(opened, "rb")
        try:
            self.status(file, path)
        except NotAFile:
            file.close()
            raise
        return file

    def status(self, file: BinaryIO, path: str) -> LocalFile:
        return _local_file(path, os.fstat(file.fileno()))

    def put(
        self, path: str, write: Callable[[BinaryIO], None], *, seen: LocalFile | None, mtime: int
    ) -> LocalFile:
        """Write a file atomically, replacing the observed one.

        Args:
            path: Its path in the directory.
            write: Writes the content.
            seen: The file that the caller expects at `path`, or None.
            mtime: Modification time to set, in seconds.

        Raises:
            Changed: The file at `path` is not `seen`.
            NotAFile: The path is not a file, or its parent not a directory.
            OSError: The file cannot be written.
        """
        with self._draft(write) as draft:
            os.utime(draft, (mtime, mtime), dir_fd=self._fd)
            with self._parent(path, make=True) as (fd, name):
                if self.find(path) != seen:
                    raise Changed(path)
                os.rename(draft, name, src_dir_fd=self._fd, dst_dir_fd=fd)
                os.fsync(fd)
                return _local_file(path, os.stat(name, dir_fd=fd, follow_symlinks=False))

    def remove(self, seen: LocalFile) -> None:
        """Remove a file and the parent directories that become empty.

        Raises:
            Changed: The file is not `seen` any more.
        """
        with self._parent(seen.path) as (fd, name):
            if self.find(seen.path) != seen:
                raise Changed(seen.path)
            os.unlink(name, dir_fd=fd)
            os.fsync(fd)
        parent = seen.path.rpartition("/")[0]
        with suppress(OSError):  # not empty
            while parent:
                with self._parent(parent) as (fd, name):
                    os.rmdir(name, dir_fd=fd)
                parent = parent.rpartition("/")[0]

    def write_own(self, name: str, content: bytes) -> None:
        """Write a file of Lakebed atomically."""

        def write(file: BinaryIO) -> None:
            file.write(content)

        with self._draft(write) as draft:
            os.chmod(draft, 0o644, dir_fd=self._fd)
            os.rename(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            os.fsync(self._fd)

    def read_own(self, name: str) -> bytes | None:
        """Return the content of a file of Lakebed, or None if it does not exist."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def remove_own(self, name: str) -> None:
        """Remove a file of Lakebed if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def _discard_drafts(self) -> None:
        """Remove incomplete files of killed processes."""
        with suppress(OSError, NotAFile):  # missing, or contains notes
            with self._opened(f"{OWN_FOLDER}/") as fd:
                for name in os.listdir(fd):  # noqa: PTH208 (by descriptor, which is no link)
                    if name.endswith(_DRAFT_SUFFIX):
                        os.unlink(name, dir_fd=fd)
            os.rmdir(OWN_FOLDER, dir_fd=self._fd)

    @contextmanager
    def _draft(self, write: Callable[[BinaryIO], None]) -> Iterator[str]:
        self._make_own()
        draft = f"{OWN_FOLDER}/{secrets.token_hex(8)}{_DRAFT_SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(draft, flags, 0o666, dir_fd=self._fd), "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=self._fd)

    def _make_own(self) -> None:
        with suppress(FileExistsError):
            os.mkdir(OWN_FOLDER, dir_fd=self._fd)
        with self._opened(f"{OWN_FOLDER}/"):
            pass  # fails for a symbolic link, which would lead out of the directory

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the parent directory of a file; yield its descriptor and the file's name."""
        folder, _, name = path.rpartition("/")
        with self._opened(f"{folder}/" if folder else "", make=make) as fd:
            yield fd, name

    @contextmanager
    def _opened(self, prefix: str, *, make: bool = False) -> Iterator[int]:
        fd = os.dup(self._fd)
        try:
            for part in prefix.split("/")[:-1]:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                        os.fsync(fd)
                following = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = following
            yield fd
        except OSError as error:
            if error.errno not in {errno.ENOTDIR, errno.ELOOP, errno.EISDIR}:
                raise
            raise NotAFile(f"{self.root / prefix} is not a folder: move it away") from None
        finally:
            os.close(fd)


def _local_file(path: str, found: os.stat_result) -> LocalFile:
    if stat.S_ISDIR(found.st_mode):
        raise NotAFile(f"{path} is a folder, but an object on the server: move it away")
    if not stat.S_ISREG(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a regular file"
        raise NotAFile(f"{path} is {kind}: working copies support regular files only, move it away")
    return LocalFile(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _require_text(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise NotAFile(f"the name {path!r} is not UTF-8: rename the file") from None
