"""Repositories and their refs: commits, branches and tags."""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from lakebed.clients.library.backend import Backend, CommitDetails, Reset
from lakebed.clients.library.errors import Conflict
from lakebed.clients.library.objects import StoredObject, WriteableObject
from lakebed.clients.library.values import Change, Commit, CommonPrefix, ObjectInfo, RepositoryInfo

if TYPE_CHECKING:  # imports the engine, which a client of a server does not need
    from lakebed.reclaim.collector.report import RunSummary

Strategy = Literal["", "dest-wins", "source-wins"]


class Reference:
    """A ref of a repository: a commit, a branch, a tag, or an expression such as ``main~1``.

    >>> books = lake.repository("books")
    >>> [commit.message for commit in books.ref("main").log()]
    ['Add authors', 'Repository created']
    """

    def __init__(self, backend: Backend, repository: str, ref: str) -> None:
        """Use `Repository.ref`."""
        self._backend = backend
        self.repository = repository
        self.id = ref

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.id!r} of {self.repository!r}>"

    def get_commit(self) -> Commit:
        """Return the commit of the ref.

        >>> lake.repository("books").ref("main").get_commit().message
        'Add authors'

        Raises:
            NotFound: The ref does not exist.
        """
        return self._backend.get_commit(self.repository, self.id)

    def log(self) -> Iterator[Commit]:
        """Iterate over the history, latest commit first."""
        return self._backend.log(self.repository, self.id)

    def diff(self, other: "str | Commit | Reference", *, prefix: str = "") -> Iterator[Change]:
        """Iterate over the changes in `other` since the merge base.

        >>> books = lake.repository("books")
        >>> draft = books.branch("draft").create("main")
        >>> _ = draft.object("poems/first.txt").upload("Roses")
        >>> _ = draft.commit("Begin the poems")
        >>> [(change.type, change.path) for change in books.branch("main").diff(draft)]
        [('added', 'poems/first.txt')]
        """
        return self._backend.diff(self.repository, self.id, str(other), prefix)

    def objects(self, prefix: str = "", delimiter: str = "") -> Iterator[ObjectInfo | CommonPrefix]:
        """Iterate over the objects with a prefix, sorted by path.

        With a delimiter, paths are grouped up to the delimiter, each group as one `CommonPrefix`.

        >>> [item.path for item in lake.repository("books").ref("main").objects()]
        ['authors.txt']
        """
        return self._backend.list_objects(self.repository, self.id, prefix, delimiter)

    def object(self, path: str) -> StoredObject:
        """Return an object at this ref, which need not exist."""
        return StoredObject(self._backend, self.repository, self.id, path)

    def merge_into(
        self,
        branch: "str | Branch",
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy = "",
    ) -> Commit:
        """Merge this ref into a branch; return the branch's new commit.

        >>> books = lake.repository("books")
        >>> draft = books.branch("second-draft").create("main")
        >>> _ = draft.object("plays/first.txt").upload("Enter Ghost")
        >>> _ = draft.commit("Begin the plays")
        >>> draft.merge_into("main").message
        "Merge 'second-draft' into 'main'"

        Args:
            branch: The destination.
            message: Message of the merge commit; empty means a default naming both refs.
            metadata: Metadata of the merge commit.
            strategy: The side that wins a conflict; empty means that conflicts are errors.

        Raises:
            MergeConflict: Both sides changed an object; the branch is unchanged.
            Invalid: The branch is up to date, or has uncommitted changes.
            PreconditionFailed: A hook refused.
        """
        details = CommitDetails(message=message, metadata=metadata or {})
        return self._backend.merge(self.repository, self.id, str(branch), details, strategy)


class Tag(Reference):
    """A name for a commit.

    >>> lake.repository("books").tag("v1").create("main").get_commit().message
    'Add authors'
    """

    def create(self, source: str | Commit | Reference) -> "Tag":
        """Create the tag at the commit of a ref; return the tag.

        Raises:
            Conflict: The tag already exists.
            NotFound: The ref does not exist.
        """
        self._backend.create_tag(self.repository, self.id, str(source))
        return self

    def delete(self) -> None:
        """Delete the tag; its commit is kept."""
        self._backend.delete_tag(self.repository, self.id)


class Branch(Reference):
    """A branch: a head commit and uncommitted changes.

    >>> main = lake.repository("books").branch("main")
    >>> _ = main.object("poets.txt").upload("Emily Dickinson")
    >>> [change.path for change in main.uncommitted()]
    ['poets.txt']
    >>> main.commit("Add poets", metadata={"source": "memory"}).message
    'Add poets'
    """

    def create(self, source: str | Commit | Reference, *, exist_ok: bool = False) -> "Branch":
        """Create the branch at the commit of a ref; return the branch.

        Raises:
            Conflict: The branch already exists, unless `exist_ok`.
            NotFound: The ref does not exist.
        """
        try:
            self._backend.create_branch(self.repository, self.id, str(source))
        except Conflict:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Delete the branch and its uncommitted changes; commits are kept."""
        self._backend.delete_branch(self.repository, self.id)

    @property
    def head(self) -> Reference:
        """The current head commit, as a ref that does not move."""
        commit_id = self._backend.get_branch(self.repository, self.id)
        return Reference(self._backend, self.repository, commit_id)

    def object(self, path: str) -> WriteableObject:
        """Return an object on the branch, which need not exist."""
        return WriteableObject(self._backend, self.repository, self.id, path)

    def delete_objects(self, paths: Iterable[str]) -> None:
        """Delete many objects; missing objects are ignored."""
        self._backend.delete_objects(self.repository, self.id, list(paths))

    def uncommitted(self, *, prefix: str = "") -> Iterator[Change]:
        """Iterate over the uncommitted changes."""
        return self._backend.uncommitted(self.repository, self.id, prefix)

    def commit(
        self, message: str, *, metadata: Mapping[str, str] | None = None, allow_empty: bool = False
    ) -> Commit:
        """Commit all changes of the branch; return the commit.

        Raises:
            Invalid: The branch has no changes, unless `allow_empty`.
            Forbidden: The branch is protected.
            PreconditionFailed: A hook refused.
        """
        details = CommitDetails(message=message, metadata=metadata or {}, allow_empty=allow_empty)
        return self._backend.commit(self.repository, self.id, details)

    def reset_changes(self, path_type: Reset = "reset", path: str = "") -> None:
        """Discard uncommitted changes: all, of an ``object``, or below a ``common_prefix``.

        >>> main = lake.repository("books").branch("main")
        >>> main.object("authors.txt").delete()
        >>> main.reset_changes()
        >>> main.object("authors.txt").exists()
        True
        """
        self._backend.reset(self.repository, self.id, path_type, path)

    def revert(self, ref: str | Commit | Reference, *, parent_number: int | None = None) -> Commit:
        """Revert the changes of a commit on this branch; return the new commit.

        Args:
            ref: The commit.
            parent_number: For a merge commit, the parent to diff against, from 1.
        """
        return self._backend.revert(self.repository, self.id, str(ref), parent_number)

    def cherry_pick(
        self, ref: str | Commit | Reference, *, parent_number: int | None = None
    ) -> Commit:
        """Apply the changes of a commit to this branch; return the new commit."""
        return self._backend.cherry_pick(self.repository, self.id, str(ref), parent_number)

    def import_data(
        self,
        message: str = "Import objects",
        *,
        prefixes: Mapping[str, str] | None = None,
        objects: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Import objects from the storage in one commit; their bytes are not copied.

        Args:
            message: Commit message.
            prefixes: Maps storage locations (``s3://bucket/lake/``) to path prefixes. All objects
                below such a prefix are replaced.
            objects: Maps storage locations of single objects to paths.
            metadata: Commit metadata.

        Returns:
            The new commit, or the head if the branch already has these objects.

        Raises:
            Invalid: A location cannot be imported, or the branch has uncommitted changes.
        """
        details = CommitDetails(message=message, metadata=metadata or {})
        return self._backend.import_objects(
            self.repository, self.id, prefixes or {}, objects or {}, details
        )

    @contextmanager
    def transact(
        self, commit_message: str, *, metadata: Mapping[str, str] | None = None
    ) -> Iterator["Branch"]:
        """Run a block on a temporary branch; commit and merge the branch if the block succeeds.

        If the block raises, this branch is unchanged.

        >>> main = lake.repository("books").branch("main")
        >>> with main.transact("Add two") as work:
        ...     _ = work.object("one.txt").upload("1")
        ...     _ = work.object("two.txt").upload("2")
        >>> main.get_commit().message
        'Add two'

        Raises:
            MergeConflict: This branch got another version of an object meanwhile.
            Invalid: The block changed nothing.
        """
        name = f"transaction-{secrets.token_hex(8)}"
        work = Branch(self._backend, self.repository, name).create(self)
        try:
            yield work
            work.commit(commit_message, metadata=metadata)
            work.merge_into(self, message=commit_message, metadata=metadata)
        finally:
            work.delete()


class Repository:
    """A repository: objects with a history.

    >>> lake.repository("films").create().branch("main").get_commit().message
    'Repository created'
    >>> [repository.id for repository in lake.repositories()]
    ['books', 'films']
    """

    def __init__(self, backend: Backend, name: str) -> None:
        """Use `Lake.repository`."""
        self._backend = backend
        self.id = name

    def __repr__(self) -> str:
        return f"<repository {self.id!r}>"

    @property
    def properties(self) -> RepositoryInfo:
        """The repository's settings.

        Raises:
            NotFound: The repository does not exist.
        """
        return self._backend.get_repository(self.id)

    def create(
        self,
        *,
        storage_namespace: str | None = None,
        default_branch: str = "main",
        exist_ok: bool = False,
    ) -> "Repository":
        """Create the repository; return the repository.

        Args:
            storage_namespace: URL below which objects are stored; None means the default.
            default_branch: Name of the first branch.
            exist_ok: Accept an existing repository of this name, unchanged.

        Raises:
            Conflict: The repository already exists.
            Invalid: The storage namespace cannot be used.
        """
        try:
            self._backend.create_repository(self.id, storage_namespace, default_branch)
        except Conflict:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Delete the repository; its objects are kept in the storage."""
        self._backend.delete_repository(self.id)

    def branch(self, name: str) -> Branch:
        """Return a branch, which need not exist."""
        return Branch(self._backend, self.id, name)

    def branches(self, prefix: str = "") -> Iterator[Branch]:
        """Iterate over the branches, sorted by name."""
        return map(self.branch, self._backend.list_branches(self.id, prefix))

    def tag(self, name: str) -> Tag:
        """Return a tag, which need not exist."""
        return Tag(self._backend, self.id, name)

    def tags(self, prefix: str = "") -> Iterator[Tag]:
        """Iterate over the tags, sorted by name."""
        return map(self.tag, self._backend.list_tags(self.id, prefix))

    def ref(self, ref: str | Commit) -> Reference:
        """Return a ref: a commit, a branch, a tag, or an expression such as ``main~1``."""
        return Reference(self._backend, self.id, str(ref))

    def collect_garbage(
        self,
        *,
        dry_run: bool = False,
        assume_quiet: bool = False,
        min_age_seconds: float | None = None,
        max_share: float = 0.5,
    ) -> "RunSummary":
        """Find unreferenced objects; delete objects that an earlier run found.

        The run happens in this process, which needs access to the storage. For very large lakes,
        use Spark: see ``lakebed gc run``.

        >>> lake.repository("books").collect_garbage(dry_run=True).sentence()
        'Dry run: 0 objects would be deleted; no other garbage was found.'

        Args:
            dry_run: Delete no objects.
            assume_quiet: Find and delete in one run. Safe only without concurrent writers.
            min_age_seconds: Keep younger objects; None means one day, or the server's setting.
            max_share: Abort if a larger share of all objects would be deleted.

        Raises:
            LakeError: The run was aborted; no referenced object was deleted.
        """
        from lakebed.reclaim.collector.job import CollectorOptions

        options = CollectorOptions(
            dry_run=dry_run,
            assume_quiet=assume_quiet,
            min_age_seconds=min_age_seconds,
            max_share=max_share,
        )
        return self._backend.collect_garbage(self.id, options)
