"""What a lake tells: frozen values, the same with a server and without one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

ChangeKind = Literal["added", "changed", "removed", "conflict", "prefix_changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryInfo:
    """What is known of a repository."""

    id: str
    storage_namespace: str
    """Where its data is."""
    default_branch: str
    creation_date: datetime
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A state of a repository, and what led to it."""

    id: str
    message: str
    committer: str
    creation_date: datetime
    parents: tuple[str, ...]
    metadata: Mapping[str, str] = field(hash=False)

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What is known of an object."""

    path: str
    size_bytes: int
    checksum: str
    """Of an object that was uploaded, the MD5 of its bytes in hexadecimal."""
    mtime: datetime
    content_type: str
    physical_address: str
    """Where the storage has its bytes."""
    metadata: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """All objects whose paths begin alike, as one item of a listing."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One object that differs; or, in a listing with a delimiter, several below a prefix."""

    type: ChangeKind
    path: str
    path_type: Literal["object", "common_prefix"] = "object"
    size_bytes: int = 0
    """As it is now; 0 if it was removed."""
