"""The disk that an embedded database lies on: whether it can be trusted, and folders that last.

SQLite's write-ahead log needs memory that all processes share, and locks that the system keeps;
RocksDB needs such locks, too. A network file system gives one machine neither of another, and some
give them not even to two processes of one machine: the database is damaged without a word. The disk
of a host as a virtual machine (virtiofs) or a container (overlay) sees it is not meant: one kernel
keeps the locks there.
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
"""A folder of another machine, or, where gVisor runs the container, any local disk."""

# The mount point is the fifth field; the file system is the first one behind the dash.
_LINE: Final = re.compile(r"\S+ \S+ \S+ \S+ (?P<point>\S+) .* - (?P<type>\S+) ")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def file_system_of(path: Path) -> str:
    """Return the type of the file system that a file lies or would lie on.

    Nothing where the system does not tell which file systems it has.
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
        # Of two at the same point, the later one covers the earlier.
        if place.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = match["type"], len(point.parts)
    return found


def check_file_system(path: Path, database: str) -> None:
    """Refuse a place where a database would not stay whole; warn of one where it might not.

    Raises:
        InvalidArgument: It lies on a network file system.
    """
    file_system = file_system_of(path)
    if file_system in NETWORK:
        raise InvalidArgument(
            f"{path} lies on a network file system ({file_system}), where {database} cannot keep a"
            " database whole: put it on a local disk, or use PostgreSQL"
        )
    if file_system in DOUBTFUL:
        _LOGGER.warning(
            "%s lies on a file system (%s) that may be another machine's: %s keeps a database"
            " whole only on a disk of its own machine",
            path,
            file_system,
            database,
        )


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, each durable before anything is put into it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
