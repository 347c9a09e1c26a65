"""The interface between the library's objects and a catalog, in this process or on a server.

All methods raise the errors of `lakebed.clients.library.errors`. Listings are iterators that fetch
pages on demand.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

from lakebed.clients.library.values import Change, Commit, CommonPrefix, ObjectInfo, RepositoryInfo

if TYPE_CHECKING:  # imports the engine, which a client of a server does not need
    from lakebed.reclaim.collector.job import CollectorOptions
    from lakebed.reclaim.collector.report import RunSummary

Reset = Literal["reset", "object", "common_prefix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDetails:
    """Message and metadata of a new commit."""

    message: str
    metadata: Mapping[str, str]
    allow_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadDetails:
    """Metadata of a new object."""

    content_type: str
    metadata: Mapping[str, str]
    only_new: bool
    """Whether to store only if the path has no object."""


class OpenObject(Protocol):
    """A version of an object. A read returns bytes of this version, or fails."""

    info: ObjectInfo

    def read(self, begin: int, end: int) -> bytes:
        """Return all bytes of a range."""


class Backend(Protocol):
    """A lake, addressed by names."""

    options: dict[str, str]
    """Arguments of `LakebedFileSystem` that open the same lake, in any process."""

    def close(self) -> None:
        """Release all resources."""

    # Repositories

    def list_repositories(self, prefix: str) -> Iterator[RepositoryInfo]:
        """Iterate over the repositories, sorted by name."""

    def get_repository(self, name: str) -> RepositoryInfo:
        """Return a repository."""

    def create_repository(
        self, name: str, storage_namespace: str | None, default_branch: str
    ) -> None:
        """Create a repository."""

    def delete_repository(self, name: str) -> None:
        """Delete a repository; its objects stay in the storage."""

    def collect_garbage(self, repository: str, options: "CollectorOptions") -> "RunSummary":
        """Run a garbage collection."""

    # Branches and tags

    def list_branches(self, repository: str, prefix: str) -> Iterator[str]:
        """Iterate over the names of branches, sorted."""

    def get_branch(self, repository: str, branch: str) -> str:
        """Return the commit id of a branch."""

    def create_branch(self, repository: str, branch: str, source: str) -> None:
        """Create a branch at the commit of a ref."""

    def delete_branch(self, repository: str, branch: str) -> None:
        """Delete a branch and its uncommitted changes."""

    def list_tags(self, repository: str, prefix: str) -> Iterator[str]:
        """Iterate over the names of tags, sorted."""

    def get_tag(self, repository: str, tag: str) -> str:
        """Return the commit id of a tag."""

    def create_tag(self, repository: str, tag: str, source: str) -> None:
        """Create a tag for the commit of a ref."""

    def delete_tag(self, repository: str, tag: str) -> None:
        """Delete a tag."""

    # History

    def get_commit(self, repository: str, ref: str) -> Commit:
        """Return the commit of a ref."""

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        """Iterate over the history of a ref, latest commit first."""

    def diff(self, repository: str, left: str, right: str, prefix: str) -> Iterator[Change]:
        """Iterate over the changes in `right` since the merge base, sorted by path."""

    def uncommitted(self, repository: str, branch: str, prefix: str) -> Iterator[Change]:
        """Iterate over the uncommitted changes of a branch."""

    def commit(self, repository: str, branch: str, details: CommitDetails) -> Commit:
        """Commit the staged changes."""

    def merge(
        self, repository: str, source: str, branch: str, details: CommitDetails, strategy: str
    ) -> Commit:
        """Merge a ref into a branch."""

    def revert(self, repository: str, branch: str, ref: str, parent_number: int | None) -> Commit:
        """Revert the changes of a commit."""

    def cherry_pick(
        self, repository: str, branch: str, ref: str, parent_number: int | None
    ) -> Commit:
        """Apply the changes of a commit."""

    def reset(self, repository: str, branch: str, what: Reset, path: str) -> None:
        """Discard uncommitted changes: all, of one object, or below a prefix."""

    # Objects

    def list_objects(
        self, repository: str, ref: str, prefix: str, delimiter: str
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """Iterate over the objects of a ref, sorted by path."""

    def stat(self, repository: str, ref: str, path: str) -> ObjectInfo:
        """Return the metadata of an object."""

    def open_object(self, repository: str, ref: str, path: str) -> OpenObject:
        """Return an object for reading."""

    def upload(
        self, repository: str, branch: str, path: str, data: BinaryIO, details: UploadDetails
    ) -> ObjectInfo:
        """Store a file."""

    def copy(
        self, repository: str, branch: str, path: str, source_ref: str, source_path: str
    ) -> ObjectInfo:
        """Copy an object onto a branch."""

    def delete_objects(self, repository: str, branch: str, paths: Sequence[str]) -> None:
        """Delete objects; missing objects are ignored."""

    def import_objects(
        self,
        repository: str,
        branch: str,
        prefixes: Mapping[str, str],
        objects: Mapping[str, str],
        details: CommitDetails,
    ) -> Commit:
        """Import objects from the storage in one commit; return the commit."""
