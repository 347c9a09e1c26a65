"""The disk of an embedded database: checks of its file system, and durable directories.

SQLite's write-ahead log needs memory shared by all processes, and file locks; RocksDB needs locks,
too. A network file system provides neither between machines, and some not even between processes of
one machine: the database is corrupted silently. The host's disk seen by a virtual machine
(virtiofs) or a container (overlay) is safe: there, one kernel manages the locks.
"""

import logging
import os
import re
from pathlib import Path
from typing import Final

from lakebed.kv.errors import InvalidArgument

_LOGGER: Final = logging.getLogger(__name__)

MOUNTS: Final = Path("/proc/self/mountinfo")

NETWORK: Final = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.goofys",
        "fuse.juicefs",
        "fuse.mount-s3",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)

DOUBTFUL: Final = frozenset({"9p"})
"""A directory of another machine, or, if gVisor runs the container, any local disk."""

# The mount point is the fifth field; the file system type is the first one after the dash.
_LINE: Final = re.compile(r"\S+ \S+ \S+ \S+ (?P<point>\S+) .* - (?P<type>\S+) ")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def file_system_of(path: Path) -> str:
    """Return the type of the file system of a path, which need not exist.

    Empty if the system has no list of mounts.
    """
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place = path.resolve()
    found, depth = "", -1
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        point = Path(_ESCAPED.sub(lambda digits: chr(int(digits[1], 8)), match["point"]))
        # Of two mounts at the same point, the later one covers the earlier.
        if place.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = match["type"], len(point.parts)
    return found


def check_file_system(path: Path, database: str) -> None:
    """Reject a path on a network file system; log a warning if the file system may be one."""
    file_system = file_system_of(path)
    if file_system in NETWORK:
        raise InvalidArgument(
            f"{path} is on a network file system ({file_system}), where {database} databases get"
            " corrupted: use a local disk, or PostgreSQL"
        )
    if file_system in DOUBTFUL:
        _LOGGER.warning(
            "%s is on a file system (%s) that may belong to another machine: %s databases are"
            " safe only on a local disk",
            path,
            file_system,
            database,
        )


def make_folder(folder: Path) -> None:
    """Create a directory and its missing parents, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a directory are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
