"""The values of the engine: ids as types of their own, records as frozen classes."""

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
"""How long a client may make the message of a commit, its metadata, and that of a repository."""

RepositoryID = NewType("RepositoryID", str)
"""The name of a repository."""

BranchID = NewType("BranchID", str)
"""The name of a branch within its repository."""

TagID = NewType("TagID", str)
"""The name of a tag within its repository."""

CommitID = NewType("CommitID", str)
"""The id of a commit: a hash of its record, in hexadecimal."""

StagingToken = NewType("StagingToken", str)
"""The name of a partition that holds uncommitted changes; never used twice."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where one creation of a repository keeps the files of its commits.

    The namespace alone does not tell whose files are meant: a repository can be deleted, and
    another one made in its namespace. What is known of the files of one says nothing of the other.
    """

    namespace: Namespace
    unique_id: UniqueID


MOVED_NAMESPACE: Final = "::lakebed::moved-namespace"
"""In the metadata of a repository that moved in from lakeFS: the namespace that it had there."""


@dataclass(frozen=True, slots=True)
class AdoptedNamespace:
    """Where lakeFS kept a repository's objects, which count as the repository's own since then."""

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
    """Whether the hooks of a branch's head judge what takes its place, too."""
    partition: bytes = field(init=False, repr=False, compare=False)
    """The partition of its branches, tags and commits. Every read asks for it several times."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition", repository_partition(self.id, self.unique_id))

    def has_adopted(self, address: str) -> bool:
        """Whether the repository has adopted the object at a whole address."""
        return self.adopted is not None and address.startswith(str(self.adopted.namespace))

    @property
    def home(self) -> Home:
        """Where the files of its commits are."""
        return Home(self.namespace, self.unique_id)


def new_staging_token(runtime: Runtime, repository: RepositoryID, branch: BranchID) -> StagingToken:
    """Return the name of a new partition for uncommitted changes; people can read whose it is."""
    return StagingToken(f"{repository}-{branch}:{runtime.random_bytes(16).hex()}")


def repository_partition(repository: RepositoryID, unique_id: UniqueID) -> bytes:
    """Return the partition of one creation of a repository."""
    return f"{repository}-{unique_id}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch as it was read."""

    id: BranchID
    unique_id: UniqueID
    commit_id: CommitID
    staging_token: StagingToken
    sealed_tokens: tuple[StagingToken, ...]
    """Newest first."""
    hidden: bool
    created_us: int
    version: Version
    """The version of the record: two reads with equal versions saw the same record."""
    stored: pb.Branch = field(compare=False, repr=False)
    """The record, not to be changed: a change of the branch keeps the fields that a later version
    wrote."""

    @property
    def tokens(self) -> tuple[StagingToken, ...]:
        """The tokens that hold uncommitted changes, newest first."""
        return (self.staging_token, *self.sealed_tokens)


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit."""

    id: TagID
    commit_id: CommitID
    unique_id: UniqueID
    """Empty for tags that older versions made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A state of a repository, and the commits it was made from."""

    id: CommitID
    committer: str
    message: str
    metarange_id: MetaRangeID
    """The entries it holds."""
    created_us: int
    parents: tuple[CommitID, ...]
    metadata: dict[str, str] = field(hash=False)
    generation: int
    """One more than the largest of its parents'."""
    consumed_tokens: tuple[StagingToken, ...] = ()
    """The staging tokens whose contents it holds, newest first."""
    stored_us: int = field(default=0, compare=False)
    """When its record was stored, by the clock of the server; 0: an older version stored it."""
    branch: BranchID = field(default=BranchID(""), compare=False)
    """The branch that it was made for, if that is known."""
    sources: tuple[CommitID, ...] = field(default=(), compare=False)
    """The commits beside its first parent whose content it took."""

    @property
    def weight(self) -> int:
        """How much it counts in a cache: the kilobytes that its texts begin."""
        texts = len(self.message) + sum(len(key) + len(self.metadata[key]) for key in self.metadata)
        return 1 + (texts >> 10)

    @property
    def is_first(self) -> bool:
        """Whether it is the commit that a repository is created with, before there is any tree."""
        return not self.parents and self.metarange_id == EMPTY_METARANGE


def size_of(metadata: Mapping[str, str]) -> int:
    """Return how many bytes metadata has, names and values together."""
    return sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
