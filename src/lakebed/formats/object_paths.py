"""The paths of objects that a server issues: the one place that knows how they look.

    repos/<repository uid>/branches/<branch>/<partition>/<object uid>

relative to the storage namespace. A *partition* is a folder that one process puts its objects in
for a while. Its name begins with the time at which it was made, counted down, so that listings show
the newest first. An *object uid* begins with the time at which it was issued, so the path alone
shows how old an object is. Both end with random digits. Times are microseconds since 1970 by the
clock of the server.

The catalog issues these paths, and garbage collection deletes by them: a path that does not look
exactly like this is not ours, and is never touched.
"""

import re
from dataclasses import dataclass
from typing import Final, NewType

PartitionID = NewType("PartitionID", str)
"""The name of a partition."""

ObjectUID = NewType("ObjectUID", str)
"""The last part of an object's path; no two objects have the same."""

REPOSITORIES: Final = "repos/"
"""The folder that the paths of all objects begin with."""

TIME_US_MAX: Final = (1 << 52) - 1
"""The latest time in a path, in the year 2112: later ones would not fit into number columns."""

PARTITION_RANDOM_BYTES: Final = 6
OBJECT_RANDOM_BYTES: Final = 10

TIME_DIGITS: Final = 16
MADE_FROM: Final = -66
ISSUED_FROM: Final = -36
"""Where the digits of the two times begin, counted from the end of a path."""

_COUNTED_FROM: Final = (1 << 64) - 1
_PARTITION_PATTERN: Final = r"(fff[0-9a-f]{13})-[0-9a-f]{12}"
_OBJECT_PATTERN: Final = (
    rf"repos/([0-9a-f]+)/branches/([^/]+)/{_PARTITION_PATTERN}/(000[0-9a-f]{{13}})[0-9a-f]{{20}}"
)
WHOLE_PATH_PATTERN: Final = rf"\A{_OBJECT_PATTERN}\z"
"""A regular expression for Arrow (RE2) and Spark (Java); in Python, use `ObjectPath.parse`.

It says ``\\z`` because ``$`` would let Java accept a line break at the end.
"""

_PARTITION: Final = re.compile(_PARTITION_PATTERN)
_PATH: Final = re.compile(_OBJECT_PATTERN)
_PATH_AT_END: Final = re.compile(_OBJECT_PATTERN + r"\Z")


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """The parts of an object's path; `str` puts them together again."""

    repository_uid: str
    branch: str
    partition: PartitionID
    uid: ObjectUID

    def __str__(self) -> str:
        return f"{branches_folder(self.repository_uid)}{self.branch}/{self.partition}/{self.uid}"

    @property
    def made_us(self) -> int:
        """When the partition was made."""
        return _COUNTED_FROM - int(self.partition[:TIME_DIGITS], 16)

    @property
    def issued_us(self) -> int:
        """When the path was issued."""
        return int(self.uid[:TIME_DIGITS], 16)

    @classmethod
    def parse(cls, path: str) -> "ObjectPath | None":
        """Return the parts of a path; None if no server issued it."""
        if _PATH.fullmatch(path) is None:
            return None
        _, repository_uid, _, branch, partition, uid = path.split("/")
        return cls(repository_uid, branch, PartitionID(partition), ObjectUID(uid))


def path_at_end(text: str) -> str | None:
    """Return the path of an object that a text ends with; None if it ends otherwise."""
    found = _PATH_AT_END.search(text)
    return None if found is None else found[0]


def issued_us(uid: ObjectUID) -> int:
    """Return when the path that ends with a uid was issued."""
    return int(uid[:TIME_DIGITS], 16)


def new_partition(made_us: int, random_bytes: bytes) -> PartitionID:
    """Return the name of a partition that is made now.

    Args:
        made_us: The time.
        random_bytes: `PARTITION_RANDOM_BYTES` of them.
    """
    _check_time(made_us)
    assert len(random_bytes) == PARTITION_RANDOM_BYTES
    return PartitionID(f"{_COUNTED_FROM - made_us:016x}-{random_bytes.hex()}")


def new_object_uid(issued_us: int, random_bytes: bytes) -> ObjectUID:
    """Return the uid of an object whose path is issued now.

    Args:
        issued_us: The time.
        random_bytes: `OBJECT_RANDOM_BYTES` of them.
    """
    _check_time(issued_us)
    assert len(random_bytes) == OBJECT_RANDOM_BYTES
    return ObjectUID(f"{issued_us:016x}{random_bytes.hex()}")


def _check_time(time_us: int) -> None:
    # Objects with such a time in their path would never be collected.
    if not 0 <= time_us <= TIME_US_MAX:
        raise ValueError(f"the clock is wrong: {time_us} microseconds since 1970")


def partition_made_us(name: str) -> int | None:
    """Return when a partition was made; None if the name is not a partition's."""
    match = _PARTITION.fullmatch(name)
    return None if match is None else _COUNTED_FROM - int(match[1], 16)


def branches_folder(repository_uid: str) -> str:
    """Return the folder of a repository's objects, with a slash at its end."""
    return f"{REPOSITORIES}{repository_uid}/branches/"
