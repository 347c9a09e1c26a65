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
    levels = [_names(base, prefix, after)]
    # A listing has millions of files, so that what is done for each is done here.
    while levels:
        for path in levels[-1]:
            if path.endswith(b"/"):
                levels.append(_names(base, path, after))
                break
            try:
                status = os.lstat(base + b"/" + path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status
        else:
            levels.pop()


def _names(base: bytes, prefix: bytes, after: bytes) -> Iterator[bytes]:
    """Return the paths in one folder that are due, in order; those of folders end in a slash."""
    try:
        paths = [prefix + name for name in scan(base + b"/" + prefix)]
    except (FileNotFoundError, NotADirectoryError):
        return iter(())
    if after:
        # A folder is due also where `after` lies in it.
        paths = [path for path in paths if path > after or _is_above(path, after)]
    return iter(sorted(paths))


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


def _is_above(path: bytes, after: bytes) -> bool:
    return path.endswith(b"/") and after.startswith(path)
