"""Which file system a file lies on.

SQLite's write-ahead log needs memory that all processes share, and locks that the system keeps. A
network file system gives one machine neither of another, and some give them not even to two
processes of one machine: the database is damaged without a word. The disk of a host as a virtual
machine (virtiofs) or a container (overlay) sees it is not meant: one kernel keeps the locks there.
"""

import re
from pathlib import Path
from typing import Final

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
