"""Values of the library: frozen, and the same with or without a server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

ChangeKind = Literal["added", "changed", "removed", "conflict", "prefix_changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryInfo:
    """Settings of a repository."""

    id: str
    storage_namespace: str
    """URL below which objects are stored."""
    default_branch: str
    creation_date: datetime
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit."""

    id: str
    message: str
    committer: str
    creation_date: datetime
    parents: tuple[str, ...]
    metadata: Mapping[str, str] = field(hash=False)
    refused_by: str | None = None
    """The hook that refused the commit, so that no branch leads to it; None if no hook did, or if
    the commit was not asked for by its id."""

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """Metadata of an object."""

    path: str
    size_bytes: int
    checksum: str
    """For uploads, the hexadecimal MD5 of the bytes."""
    mtime: datetime
    content_type: str
    physical_address: str
    """URL of the bytes in the storage."""
    metadata: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """Objects with a common path prefix, as one item of a listing."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A changed object, or in a listing with a delimiter, a prefix with changes."""

    type: ChangeKind
    path: str
    path_type: Literal["object", "common_prefix"] = "object"
    size_bytes: int = 0
    """Current size, or the last one of a removed object; 0 if the removal is uncommitted."""
