"""Values of the engine: ids as distinct types, records as frozen classes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NewType

from lakebed.base.runtime import Runtime, UniqueID
from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import InvalidName
from lakebed.formats import EMPTY_METARANGE, MetaRangeID
from lakebed.kv import Version

WORDS_BYTES_MAX: Final = 64 << 10
"""Maximum size of a commit's message, a commit's metadata, and a repository's metadata."""

RepositoryID = NewType("RepositoryID", str)
"""Name of a repository."""

BranchID = NewType("BranchID", str)
"""Name of a branch within its repository."""

TagID = NewType("TagID", str)
"""Name of a tag within its repository."""

CommitID = NewType("CommitID", str)
"""Id of a commit: a hash of its record, in hexadecimal."""

StagingToken = NewType("StagingToken", str)
"""Name of a partition of uncommitted changes; never reused."""


@dataclass(frozen=True, slots=True)
class FilesRoot:
    """Location of a repository's committed files, distinct for each creation.

    A namespace alone is ambiguous: a repository can be deleted and another created in its
    namespace. Cached facts about files of the first do not apply to the second.
    """

    namespace: Namespace
    unique_id: UniqueID


MOVED_NAMESPACE: Final = "::lakebed::moved-namespace"
"""Metadata key of a repository migrated from lakeFS: its former namespace."""


@dataclass(frozen=True, slots=True)
class AdoptedNamespace:
    """A repository's former namespace in lakeFS, whose objects now count as its own."""

    namespace: Namespace
    adopted_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """An active repository."""

    id: RepositoryID
    unique_id: UniqueID
    namespace: Namespace
    default_branch: BranchID
    created_us: int
    read_only: bool
    metadata: dict[str, str] = field(hash=False)
    adopted: AdoptedNamespace | None = None
    strict_hooks: bool = False
    """Whether the hooks of a branch's head also judge commits that replace the head."""
    partition: bytes = field(init=False, repr=False, compare=False)
    """Partition of branches, tags and commits; computed once because every read uses it several
    times."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition", repository_partition(self.id, self.unique_id))

    def has_adopted(self, address: str) -> bool:
        """Whether the repository has adopted the object at an absolute address."""
        return self.adopted is not None and address.startswith(str(self.adopted.namespace))

    @property
    def files_root(self) -> FilesRoot:
        """Location of the repository's committed files."""
        return FilesRoot(self.namespace, self.unique_id)


def new_staging_token(runtime: Runtime, repository: RepositoryID, branch: BranchID) -> StagingToken:
    """Return the name of a new partition for uncommitted changes, prefixed with its branch."""
    return StagingToken(f"{repository}-{branch}:{runtime.random_bytes(16).hex()}")


def repository_partition(repository: RepositoryID, unique_id: UniqueID) -> bytes:
    """Return the partition of a repository's branches, tags and commits."""
    return f"{repository}-{unique_id}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch as read from the store."""

    id: BranchID
    unique_id: UniqueID
    commit_id: CommitID
    staging_token: StagingToken
    sealed_tokens: tuple[StagingToken, ...]
    """Newest first."""
    hidden: bool
    created_us: int
    version: Version
    """Version of the record: reads with equal versions saw the same record."""
    stored: pb.Branch = field(compare=False, repr=False)
    """The record; do not modify. Changing a branch preserves fields written by newer versions."""

    @property
    def tokens(self) -> tuple[StagingToken, ...]:
        """The tokens of all uncommitted changes, newest first."""
        return (self.staging_token, *self.sealed_tokens)


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit."""

    id: TagID
    commit_id: CommitID
    unique_id: UniqueID
    """Empty for tags created by older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A state of a repository and the commits it was made from."""

    id: CommitID
    committer: str
    message: str
    metarange_id: MetaRangeID
    """Its entries."""
    created_us: int
    parents: tuple[CommitID, ...]
    metadata: dict[str, str] = field(hash=False)
    generation: int
    """One more than the largest generation of its parents."""
    consumed_tokens: tuple[StagingToken, ...] = ()
    """The staging tokens whose changes the commit contains, newest first."""
    stored_us: int = field(default=0, compare=False)
    """Time its record was stored, by the server's clock; 0 if an older version stored it."""
    branch: BranchID = field(default=BranchID(""), compare=False)
    """The branch the commit was made for, if known."""
    sources: tuple[CommitID, ...] = field(default=(), compare=False)
    """The commits besides its first parent whose content it took."""

    @property
    def weight(self) -> int:
        """Weight in a cache: the size of its texts in kilobytes, rounded up."""
        texts = len(self.message) + sum(len(key) + len(self.metadata[key]) for key in self.metadata)
        return 1 + (texts >> 10)

    @property
    def is_first(self) -> bool:
        """Whether it is the initial commit of a repository, without entries."""
        return not self.parents and self.metarange_id == EMPTY_METARANGE


def size_of(metadata: Mapping[str, str]) -> int:
    """Return the size of metadata in bytes, names and values together."""
    return sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())


_REPOSITORY: Final = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_BRANCH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,254}")
# Git's rule for a well-formed reference, without the characters of our own expressions. Lone
# surrogates cannot be encoded in UTF-8.
_TAG: Final = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\@$\ud800-\udfff]{1,255}")


COMMIT_ID: Final = re.compile(r"[0-9a-f]{64}")
"""Not allowed as a branch or tag name: the id of a commit always means the commit."""


def is_commit_id(expression: str) -> bool:
    """Whether an expression is a full commit id, and so unambiguous."""
    return COMMIT_ID.fullmatch(expression) is not None


def check_repository_name(name: str) -> RepositoryID:
    """Return a valid repository name, or raise `InvalidName`."""
    if not _REPOSITORY.fullmatch(name):
        raise InvalidName(
            f"'{name}' is not a valid repository name: use 3 to 63 lower-case letters, digits"
            " and hyphens, beginning with a letter or digit"
        )
    return RepositoryID(name)


def check_branch_name(name: str) -> BranchID:
    """Return a valid branch name, or raise `InvalidName`."""
    if not _BRANCH.fullmatch(name) or COMMIT_ID.fullmatch(name):
        raise InvalidName(
            f"'{name}' is not a valid branch name: use up to 255 letters, digits, hyphens and"
            " underscores, not beginning with a hyphen, and not a commit id"
        )
    return BranchID(name)


def check_tag_name(name: str) -> TagID:
    """Return a valid tag name, or raise `InvalidName`."""
    parts = name.split("/")
    well_formed = all(part and not part.startswith(".") for part in parts)
    well_formed = well_formed and ".." not in name and not name.endswith(".lock")
    if not _TAG.fullmatch(name) or not well_formed or COMMIT_ID.fullmatch(name):
        raise InvalidName(
            f"'{name}' is not a valid tag name: use up to 255 characters without spaces and"
            r" without ~ ^ : ? * [ \ @ $, in parts that are not empty and do not begin with a dot,"
            " and not a commit id"
        )
    return TagID(name)
