"""The files below a folder, in path order.

Path order differs from the order of names in a folder: ``a.txt`` comes before ``a/b``, because
``.`` sorts before ``/``. So the name of a folder is sorted with a trailing slash. Only the names of
the folders on the path to the current file are in memory.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SCANS_MAX: Final = 8
_TICK_NS: Final = 20_000_000  # granularity of the clock for folder changes


def walk(base: bytes, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Iterate over the files below `base` whose relative path begins with `prefix`.

    The prefix is empty or ends in a slash. Paths up to `after` are skipped, and folders that
    contain only such paths are not opened. Links and special files are ignored. A file that appears
    or disappears meanwhile is listed once or not at all.

    Raises:
        OSError: A folder cannot be read.
    """
    levels = [(prefix, _names(base, prefix, after))]
    # Inlined for speed: a listing has millions of files.
    while levels:
        prefix, names = levels[-1]
        with _opened(base + b"/" + prefix) as folder:
            for name in names if folder is not None else ():
                if name.endswith(b"/"):
                    levels.append((prefix + name, _names(base, prefix + name, after)))
                    break
                try:
                    # Relative to the folder: resolving the path from the root takes as long as the
                    # rest.
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield prefix + name, status
            else:
                levels.pop()


@contextmanager
def _opened(folder: bytes) -> Iterator[int | None]:
    """Open a folder during the block; yield None if it was deleted."""
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
    """Return the names in a folder that sort after `after`; those of folders end in a slash."""
    try:
        names = scan(base + b"/" + prefix)
    except (FileNotFoundError, NotADirectoryError):
        return iter(())
    if after:
        # A folder that contains `after` is included.
        names = {name for name in names if _is_due(prefix + name, after)}
    return iter(sorted(names))


def scan(folder: bytes) -> set[bytes]:
    """Return the names present throughout in a folder; those of folders end in a slash.

    On some file systems (tmpfs) replacing a file moves it within the folder, so a scan may miss it
    or return it twice. Scans are repeated until the folder did not change during a scan, and their
    names are merged. A folder that keeps changing is scanned a few times: a name is missed only if
    it moved out of the way of every scan.

    Raises:
        OSError: The folder cannot be read, or was deleted before the last scan ended.
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
    """Yield path and kind of each file below `base` that is not an object, in any order.

    Arguments and errors as for `walk`.
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
