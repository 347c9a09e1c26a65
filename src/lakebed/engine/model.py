"""Values of the engine: ids as distinct types, records as frozen classes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NewType

from lakebed.base.ids import UniqueID
from lakebed.base.runtime import Runtime
from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
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
