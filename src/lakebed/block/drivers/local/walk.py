"""The files below a folder, in order of their paths.

The order of paths is not the order in which folders list their names: ``a.txt`` comes before
``a/b``, because ``.`` sorts before ``/``. So the name of a folder is sorted with the slash that
follows it in every path. Only the names of the folders on the way to the current file are in
memory.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SCANS_MAX: Final = 8
_TICK_NS: Final = 20_000_000  # the clock that marks changes of a folder may stand still so long


def walk(base: bytes, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Iterate over the files below `base` whose path from there begins with `prefix`.

    The prefix is empty or ends in a slash. Paths up to `after` are left out, and folders that hold
    only such are not opened. Links and special files do not count as files. What appears or
    vanishes meanwhile comes once or not at all.

    Raises:
        OSError: A folder cannot be read.
    """
    levels = [(prefix, _names(base, prefix, after))]
    # A listing has millions of files, so that what is done for each is done here.
    while levels:
        prefix, names = levels[-1]
        with _opened(base + b"/" + prefix) as folder:
            for name in names if folder is not None else ():
                if name.endswith(b"/"):
                    levels.append((prefix + name, _names(base, prefix + name, after)))
                    break
                try:
                    # From the folder: the way there from the root takes as long as the rest.
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield prefix + name, status
            else:
                levels.pop()


@contextmanager
def _opened(folder: bytes) -> Iterator[int | None]:
    """Open a folder for a while; None if it is gone, and so all that was in it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names(base: bytes, prefix: bytes, after: bytes) -> Iterator[bytes]:
    """Return the names in one folder that are due, in order; those of folders end in a slash."""
    try:
        names = scan(base + b"/" + prefix)
    except (FileNotFoundError, NotADirectoryError):
        return iter(())
    if after:
        # A folder is due also where `after` lies in it.
        names = {name for name in names if _is_due(prefix + name, after)}
    return iter(sorted(names))


def scan(folder: bytes) -> set[bytes]:
    """Return the names in a folder, all that are there throughout; those of folders end in a slash.

    On some file systems (tmpfs) a file that is replaced changes its place in the folder, and one
    scan may miss it or meet it twice. So scans are repeated until nothing changed during one, and
    what any of them met counts. A folder that never rests is scanned a few times: a name is missed
    only if it moved out of the way of each scan.

    Raises:
        OSError: The folder cannot be read, or was gone when the last scan ended.
    """
    names: set[bytes] = set()
    for _ in range(_SCANS_MAX):
        started_ns = time.time_ns()
        changed_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116 - bytes
        with os.scandir(folder) as entries:
            names |= {
                entry.name + b"/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in entries
            }
        if os.stat(folder).st_mtime_ns == changed_ns < started_ns - _TICK_NS:  # noqa: PTH116
            break
    return names


def strays(base: bytes, prefix: bytes) -> Iterator[tuple[bytes, str]]:
    """Iterate over the files below `base` that are no objects, in any order; say of which kind.

    Arguments and errors are as of `walk`.
    """
    folders = [prefix]
    while folders:
        prefix = folders.pop()
        try:
            entries = os.scandir(base + b"/" + prefix)
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                path = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path + b"/")
                elif entry.is_symlink():
                    yield path, "symbolic links"
                elif not entry.is_file(follow_symlinks=False):
                    yield path, "special files"
                elif not _is_text(path):
                    yield path, "files whose names are not UTF-8"


def _is_text(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_due(path: bytes, after: bytes) -> bool:
    return path > after or (path.endswith(b"/") and after.startswith(path))
