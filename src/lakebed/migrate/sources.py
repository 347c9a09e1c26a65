"""Where a repository of lakeFS is read from: what any such place can tell."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCommit:
    """A commit of lakeFS."""

    id: str
    committer: str
    message: str
    created_us: int
    metarange_id: str
    metadata: Mapping[str, str]
    parents: tuple[str, ...]
    """The first one is the one that it was made over."""
    swapped: bool = False
    """Whether lakeFS has the parents in the other order, as its first versions did."""


@dataclass(frozen=True, slots=True)
class SourceBranch:
    """A branch of lakeFS."""

    name: str
    commit_id: str
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class SourceTag:
    """A tag of lakeFS."""

    name: str
    commit_id: str


class Source(Protocol):
    """A repository of lakeFS, as it is at one moment.

    All methods may raise `MigrationError`s.
    """

    @property
    def namespace(self) -> str:
        """What relative addresses are relative to."""

    def commits(self) -> Iterator[SourceCommit]:
        """Iterate over all commits, in any order."""

    def branches(self) -> Iterator[SourceBranch]:
        """Iterate over all branches."""

    def tags(self) -> Iterator[SourceTag]:
        """Iterate over all tags."""

    def metarange(self, metarange_id: str) -> bytes:
        """Return the file of a metarange."""

    def range(self, range_id: str) -> bytes:
        """Return the file of a range."""
