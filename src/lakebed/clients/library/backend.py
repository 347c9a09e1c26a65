"""What the objects of the library ask: a catalog in this process, or a server.

All methods raise the errors of `lakebed.clients.library.errors`. Lists come one by one, fetched in
pages.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

from lakebed.clients.library.values import Change, Commit, CommonPrefix, ObjectInfo, RepositoryInfo

if TYPE_CHECKING:  # it loads the engine's files, which a client of a server can do without
    from lakebed.reclaim.collector.job import CollectorOptions
    from lakebed.reclaim.collector.report import RunSummary

Reset = Literal["reset", "object", "common_prefix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWords:
    """What whoever makes a commit says of it."""

    message: str
    metadata: Mapping[str, str]
    allow_empty: bool = False


class OpenObject(Protocol):
    """An object as it was when it was opened: every read gives bytes of that one, or fails."""

    info: ObjectInfo

    def read(self, begin: int, end: int) -> bytes:
        """Return some of its bytes; it has all of them."""


class Backend(Protocol):
    """A lake, by names."""

    options: dict[str, str]
    """What `LakebedFileSystem` takes to open the same lake, in this process or another."""

    def close(self) -> None:
        """Give back what was opened."""

    # Repositories

    def list_repositories(self, prefix: str) -> Iterator[RepositoryInfo]:
        """Iterate over the repositories, in order of their names."""

    def get_repository(self, name: str) -> RepositoryInfo:
        """Return a repository."""

    def create_repository(
        self, name: str, storage_namespace: str | None, default_branch: str
    ) -> None:
        """Create a repository."""

    def delete_repository(self, name: str) -> None:
        """Delete a repository; its objects stay in the storage."""

    def collect_garbage(self, repository: str, options: "CollectorOptions") -> "RunSummary":
        """Make a run of garbage collection."""

    # Branches and tags

    def list_branches(self, repository: str, prefix: str) -> Iterator[str]:
        """Iterate over the names of branches, in order."""

    def get_branch(self, repository: str, branch: str) -> str:
        """Return the id of a branch's commit."""

    def create_branch(self, repository: str, branch: str, source: str) -> None:
        """Create a branch at the commit of a ref."""

    def delete_branch(self, repository: str, branch: str) -> None:
        """Delete a branch and what is uncommitted on it."""

    def list_tags(self, repository: str, prefix: str) -> Iterator[str]:
        """Iterate over the names of tags, in order."""

    def get_tag(self, repository: str, tag: str) -> str:
        """Return the id of a tag's commit."""

    def create_tag(self, repository: str, tag: str, source: str) -> None:
        """Create a tag for the commit of a ref."""

    def delete_tag(self, repository: str, tag: str) -> None:
        """Delete a tag."""

    # History

    def get_commit(self, repository: str, ref: str) -> Commit:
        """Return the commit that a ref leads to."""

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        """Iterate over the commits that led to a ref, the latest first."""

    def diff(self, repository: str, left: str, right: str, prefix: str) -> Iterator[Change]:
        """Iterate over what is different on the right, in order of paths."""

    def uncommitted(self, repository: str, branch: str, prefix: str) -> Iterator[Change]:
        """Iterate over what is staged on a branch and differs from its head."""

    def commit(self, repository: str, branch: str, words: CommitWords) -> Commit:
        """Commit what is staged."""

    def merge(
        self, repository: str, source: str, branch: str, words: CommitWords, strategy: str
    ) -> Commit:
        """Merge a ref into a branch."""

    def revert(self, repository: str, branch: str, ref: str, parent_number: int | None) -> Commit:
        """Undo on a branch what a commit changed."""

    def cherry_pick(
        self, repository: str, branch: str, ref: str, parent_number: int | None
    ) -> Commit:
        """Do again on a branch what a commit changed."""

    def reset(self, repository: str, branch: str, what: Reset, path: str) -> None:
        """Discard what is uncommitted: all, of one path, or below a prefix."""

    # Objects

    def list_objects(
        self, repository: str, ref: str, prefix: str, delimiter: str
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """Iterate over the objects of a ref, in order of their paths."""

    def stat(self, repository: str, ref: str, path: str) -> ObjectInfo:
        """Return what is known of an object."""

    def open_object(self, repository: str, ref: str, path: str) -> OpenObject:
        """Return an object to be read."""

    def upload(
        self,
        repository: str,
        branch: str,
        path: str,
        data: BinaryIO,
        *,
        content_type: str,
        metadata: Mapping[str, str],
        only_new: bool,
    ) -> ObjectInfo:
        """Store a file, from its beginning to its end; with `only_new`, over no other object."""

    def copy(
        self, repository: str, branch: str, path: str, source_ref: str, source_path: str
    ) -> ObjectInfo:
        """Copy an object onto a branch."""

    def delete_objects(self, repository: str, branch: str, paths: Sequence[str]) -> None:
        """Delete objects; those that are not there are not missed."""

    def import_objects(
        self,
        repository: str,
        branch: str,
        prefixes: Mapping[str, str],
        objects: Mapping[str, str],
        words: CommitWords,
    ) -> Commit:
        """Make objects of what lies in the storage, by one commit; return it when it is made."""
