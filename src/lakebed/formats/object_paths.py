"""Paths of objects issued by a server.

    repos/<repository uid>/branches/<branch>/<partition>/<object uid>

relative to the storage namespace. A *partition* is a folder used for some time by one process for
its objects. Its name begins with its creation time, descending, so that listings show the newest
first. An *object uid* begins with its issue time, so the path alone shows the age of an object.
Both end with random digits. Times are microseconds since 1970 by the clock of the server.

The catalog issues these paths, and garbage collection deletes by them: a path in any other form is
not Lakebed's own, and is never deleted.
"""

import re
from dataclasses import dataclass
from typing import Final, NewType

PartitionID = NewType("PartitionID", str)
"""Name of a partition."""

ObjectUID = NewType("ObjectUID", str)
"""Last part of an object's path, globally unique."""

REPOSITORIES: Final = "repos/"
"""Folder of all object paths."""

TIME_US_MAX: Final = (1 << 52) - 1
"""The latest time in a path, in the year 2112: later times would not fit into integer columns."""

PARTITION_RANDOM_BYTES: Final = 6
OBJECT_RANDOM_BYTES: Final = 10

TIME_DIGITS: Final = 16
MADE_FROM: Final = -66
ISSUED_FROM: Final = -36
"""Offsets of the digits of the two times, counted from the end of a path."""

_COUNTED_FROM: Final = (1 << 64) - 1
_PARTITION_PATTERN: Final = r"(fff[0-9a-f]{13})-[0-9a-f]{12}"
_OBJECT_PATTERN: Final = (
    rf"repos/([0-9a-f]+)/branches/([^/]+)/{_PARTITION_PATTERN}/(000[0-9a-f]{{13}})[0-9a-f]{{20}}"
)
WHOLE_PATH_PATTERN: Final = rf"\A{_OBJECT_PATTERN}\z"
"""A regular expression for Arrow (RE2) and Spark (Java); in Python, use `ObjectPath.parse`.

Ends with ``\\z`` because ``$`` would let Java accept a trailing line break."""

_PARTITION: Final = re.compile(_PARTITION_PATTERN)
_PATH: Final = re.compile(_OBJECT_PATTERN)
_PATH_AT_END: Final = re.compile(_OBJECT_PATTERN + r"\Z")


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """The parts of an object's path; `str` returns the path."""

    repository_uid: str
    branch: str
    partition: PartitionID
    uid: ObjectUID

    def __str__(self) -> str:
        return f"{branches_folder(self.repository_uid)}{self.branch}/{self.partition}/{self.uid}"

    @property
    def made_us(self) -> int:
        """Creation time of the partition."""
        return _COUNTED_FROM - int(self.partition[:TIME_DIGITS], 16)

    @property
    def issued_us(self) -> int:
        return int(self.uid[:TIME_DIGITS], 16)

    @classmethod
    def parse(cls, path: str) -> "ObjectPath | None":
        """Return the parts of a path, or None if no server issued the path."""
        if _PATH.fullmatch(path) is None:
            return None
        _, repository_uid, _, branch, partition, uid = path.split("/")
        return cls(repository_uid, branch, PartitionID(partition), ObjectUID(uid))


def path_at_end(text: str) -> str | None:
    """Return the object path at the end of a string, or None without an object path."""
    found = _PATH_AT_END.search(text)
    return None if found is None else found[0]


def issued_us(uid: ObjectUID) -> int:
    """Return the issue time in a uid."""
    return int(uid[:TIME_DIGITS], 16)


def new_partition(made_us: int, random_bytes: bytes) -> PartitionID:
    """Return the name of a new partition, with `PARTITION_RANDOM_BYTES` random bytes."""
    _check_time(made_us)
    assert len(random_bytes) == PARTITION_RANDOM_BYTES
    return PartitionID(f"{_COUNTED_FROM - made_us:016x}-{random_bytes.hex()}")


def new_object_uid(issued_us: int, random_bytes: bytes) -> ObjectUID:
    """Return the uid of a new object, with `OBJECT_RANDOM_BYTES` random bytes."""
    _check_time(issued_us)
    assert len(random_bytes) == OBJECT_RANDOM_BYTES
    return ObjectUID(f"{issued_us:016x}{random_bytes.hex()}")


def _check_time(time_us: int) -> None:
    # Objects with such a time in their path would never be collected.
    if not 0 <= time_us <= TIME_US_MAX:
        raise ValueError(f"the clock is wrong: {time_us} microseconds since 1970; set it")


def partition_made_us(name: str) -> int | None:
    """Return the creation time of a partition, or None if the name is not a partition's."""
    match = _PARTITION.fullmatch(name)
    return None if match is None else _COUNTED_FROM - int(match[1], 16)


def branches_folder(repository_uid: str) -> str:
    """Return the folder of a repository's objects, with a trailing slash."""
    return f"{REPOSITORIES}{repository_uid}/branches/"
