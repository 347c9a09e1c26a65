"""Paths of objects: whose an object is, and when it can have come.

    repos/<repository uid>/branches/<branch>/<partition>/<object uid>

relative to the storage namespace: the one form in which garbage collection compares addresses. A
partition's name begins with the time of its making, counted down, an object's uid with the time at
which it was issued, both in microseconds since 1970 by the clock of the server that made them.
Whatever does not look so is none of ours, and is never touched.
"""

import re
from dataclasses import dataclass
from typing import Final

from lakebed.block import Address, InvalidAddress, Namespace
from lakebed.formats import AddressType

REPOSITORIES: Final = "repos/"

TIME_MAX: Final = (1 << 64) - 1
"""What times of partitions are counted down from."""

_PARTITION: Final = re.compile(r"(fff[0-9a-f]{13})-[0-9a-f]{12}")
OBJECT_PATTERN: Final = (
    r"repos/([0-9a-f]+)/branches/([^/]+)"
    r"/(fff[0-9a-f]{13})-[0-9a-f]{12}/(000[0-9a-f]{13})[0-9a-f]{20}"
)
"""What the paths of objects look like, for every dialect of regular expressions.

Times are before the year 2112, so that they fit into columns of numbers.
"""

MADE_FROM: Final = -66
ISSUED_FROM: Final = -36
"""Where, counted from the end of a path, the 16 digits of each time begin."""

_PATH: Final = re.compile(OBJECT_PATTERN)


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """What the path of an object tells."""

    repository_uid: str
    branch: str
    made_us: int
    """When its partition was made."""
    issued_us: int
    """When it was issued itself."""

    @classmethod
    def parse(cls, path: str) -> "ObjectPath | None":
        """Return what a path tells; None if it is no object's that was issued by a server."""
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        repository_uid, branch, made, issued = match.groups()
        return cls(repository_uid, branch, TIME_MAX - int(made, 16), int(issued, 16))


def partition_made_us(name: str) -> int | None:
    """Return when a partition was made; None if it is none."""
    match = _PARTITION.fullmatch(name)
    return None if match is None else TIME_MAX - int(match[1], 16)


def branches_folder(repository_uid: str) -> str:
    """The folder below which the objects of a repository lie; ends in a slash."""
    return f"{REPOSITORIES}{repository_uid}/branches/"


def canonical(address: str, address_type: AddressType, namespace: Namespace) -> str | None:
    """Return the path of an entry's address in a namespace; None if it lies elsewhere.

    Entries name the same object by its path or by its whole address; compared as they are, a live
    object would look like garbage.

    Raises:
        InvalidAddress: The address cannot be read, so nobody knows which object it names.
    """
    if address_type is AddressType.RELATIVE:
        return address
    try:
        whole = Address.parse(address)
    except InvalidAddress as error:
        raise InvalidAddress(f"an entry names {address!r}: {error}") from error
    return namespace.relative(whole) if whole in namespace else None
