"""Repositories, and the refs that they have: commits, branches and tags."""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from lakebed.clients.library.backend import Backend, CommitWords, Reset
from lakebed.clients.library.errors import Conflict
from lakebed.clients.library.objects import StoredObject, WriteableObject
from lakebed.clients.library.values import Change, Commit, CommonPrefix, ObjectInfo, RepositoryInfo

if TYPE_CHECKING:  # it loads the engine's files, which a client of a server can do without
    from lakebed.reclaim.collector.report import RunSummary

Strategy = Literal["", "dest-wins", "source-wins"]


class Reference:
    """A state of a repository: a commit, a branch, a tag, or an expression such as ``main~1``.

    >>> books = lake.repository("books")
    >>> [commit.message for commit in books.ref("main").log()]
    ['Add authors', 'Repository created']
    """

    def __init__(self, backend: Backend, repository: str, ref: str) -> None:
        """Made by `Repository.ref`."""
        self._backend = backend
        self.repository = repository
        self.id = ref

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.id!r} of {self.repository!r}>"

    def get_commit(self) -> Commit:
        """Return the commit that this leads to.

        >>> lake.repository("books").ref("main").get_commit().message
        'Add authors'

        Raises:
            NotFound: There is none.
        """
        return self._backend.get_commit(self.repository, self.id)

    def log(self) -> Iterator[Commit]:
        """Iterate over the commits that led here, the latest first."""
        return self._backend.log(self.repository, self.id)

    def diff(self, other: "str | Commit | Reference", *, prefix: str = "") -> Iterator[Change]:
        """Iterate over what `other` changed since the two had their last commit in common.

        >>> books = lake.repository("books")
        >>> draft = books.branch("draft").create("main")
        >>> _ = draft.object("poems/first.txt").upload("Roses")
        >>> _ = draft.commit("Begin the poems")
        >>> [(change.type, change.path) for change in books.branch("main").diff(draft)]
        [('added', 'poems/first.txt')]
        """
        return self._backend.diff(self.repository, self.id, str(other), prefix)

    def objects(self, prefix: str = "", delimiter: str = "") -> Iterator[ObjectInfo | CommonPrefix]:
        """Iterate over the objects whose paths begin with a prefix, in order.

        With a delimiter, those that are alike up to it are one `CommonPrefix`.

        >>> [item.path for item in lake.repository("books").ref("main").objects()]
        ['authors.txt']
        """
        return self._backend.list_objects(self.repository, self.id, prefix, delimiter)

    def object(self, path: str) -> StoredObject:
        """Return an object here, which need not be there."""
        return StoredObject(self._backend, self.repository, self.id, path)

    def merge_into(
        self,
        branch: "str | Branch",
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy = "",
    ) -> Commit:
        """Merge this into a branch; return the commit that the branch has then.

        >>> books = lake.repository("books")
        >>> draft = books.branch("second-draft").create("main")
        >>> _ = draft.object("plays/first.txt").upload("Enter Ghost")
        >>> _ = draft.commit("Begin the plays")
        >>> draft.merge_into("main").message
        "Merge 'second-draft' into 'main'"

        Args:
            branch: Where to.
            message: Of the merge commit; empty: one that names the two.
            metadata: Of the merge commit.
            strategy: Which side wins where both changed an object; empty: that is a conflict.

        Raises:
            MergeConflict: Both changed an object; nothing was done.
            Invalid: There is nothing to merge, or the branch has uncommitted changes.
            PreconditionFailed: A hook refused.
        """
        words = CommitWords(message=message, metadata=metadata or {})
        return self._backend.merge(self.repository, self.id, str(branch), words, strategy)


class Tag(Reference):
    """A name for a commit.

    >>> lake.repository("books").tag("v1").create("main").get_commit().message
    'Add authors'
    """

    def create(self, source: str | Commit | Reference) -> "Tag":
        """Make the tag, for the commit of a ref; return it.

        Raises:
            Conflict: There is a tag of this name.
            NotFound: There is no such ref.
        """
        self._backend.create_tag(self.repository, self.id, str(source))
        return self

    def delete(self) -> None:
        """Delete the tag; its commit stays."""
        self._backend.delete_tag(self.repository, self.id)


class Branch(Reference):
    """A line of work: a head, and changes that are not committed yet.

    >>> main = lake.repository("books").branch("main")
    >>> _ = main.object("poets.txt").upload("Emily Dickinson")
    >>> [change.path for change in main.uncommitted()]
    ['poets.txt']
    >>> main.commit("Add poets", metadata={"source": "memory"}).message
    'Add poets'
    """

    def create(self, source: str | Commit | Reference, *, exist_ok: bool = False) -> "Branch":
        """Make the branch at the commit of a ref; return it.

        Raises:
            Conflict: There is a branch of this name, and not `exist_ok`.
            NotFound: There is no such ref.
        """
        try:
            self._backend.create_branch(self.repository, self.id, str(source))
        except Conflict:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Delete the branch and what is uncommitted on it; commits stay."""
        self._backend.delete_branch(self.repository, self.id)

    @property
    def head(self) -> Reference:
        """The commit that the branch has now, as a ref that does not move."""
        commit_id = self._backend.get_branch(self.repository, self.id)
        return Reference(self._backend, self.repository, commit_id)

    def object(self, path: str) -> WriteableObject:
        """Return an object on the branch, which need not be there."""
        return WriteableObject(self._backend, self.repository, self.id, path)

    def delete_objects(self, paths: Iterable[str]) -> None:
        """Delete many objects; those that are not there are not missed."""
        self._backend.delete_objects(self.repository, self.id, list(paths))

    def uncommitted(self, *, prefix: str = "") -> Iterator[Change]:
        """Iterate over what was changed since the head was committed."""
        return self._backend.uncommitted(self.repository, self.id, prefix)

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> Commit:
        """Commit all changes of the branch; return the commit.

        Raises:
            Invalid: Nothing was changed, and not `allow_empty`.
            Forbidden: The branch is protected.
            PreconditionFailed: A hook refused.
        """
        words = CommitWords(message=message, metadata=metadata or {}, allow_empty=allow_empty)
        return self._backend.commit(self.repository, self.id, words)

    def reset_changes(self, path_type: Reset = "reset", path: str = "") -> None:
        """Discard what is not committed: all, an ``object``, or below a ``common_prefix``.

        >>> main = lake.repository("books").branch("main")
        >>> main.object("authors.txt").delete()
        >>> main.reset_changes()
        >>> main.object("authors.txt").exists()
        True
        """
        self._backend.reset(self.repository, self.id, path_type, path)

    def revert(self, ref: str | Commit | Reference, *, parent_number: int | None = None) -> Commit:
        """Undo on this branch what a commit changed; return the new commit.

        Args:
            ref: The commit.
            parent_number: Of a merge: compared with which of its parents, from 1.
        """
        return self._backend.revert(self.repository, self.id, str(ref), parent_number)

    def cherry_pick(
        self, ref: str | Commit | Reference, *, parent_number: int | None = None
    ) -> Commit:
        """Do again on this branch what a commit changed; return the new commit."""
        return self._backend.cherry_pick(self.repository, self.id, str(ref), parent_number)

    def import_data(
        self,
        message: str = "Import objects",
        *,
        prefixes: Mapping[str, str] | None = None,
        objects: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Make objects of what lies in the storage, by one commit; their bytes stay where they are.

        Args:
            message: Of the commit.
            prefixes: From places in the storage (``s3://bucket/lake/``) to prefixes of paths. All
                that the branch has there is replaced.
            objects: From places of single objects to their paths.
            metadata: Of the commit.

        Returns:
            The new commit, or the head of the branch if it has all of this already.

        Raises:
            Invalid: A place cannot be imported, or the branch has uncommitted changes.
        """
        words = CommitWords(message=message, metadata=metadata or {})
        return self._backend.import_objects(
            self.repository, self.id, prefixes or {}, objects or {}, words
        )

    @contextmanager
    def transact(
        self, commit_message: str, *, metadata: Mapping[str, str] | None = None
    ) -> Iterator["Branch"]:
        """Work on a branch of its own; if the block ends well, it is committed and merged here.

        If it raises, nothing is changed.

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
    """A set of objects with a history.

    >>> lake.repository("films").create().branch("main").get_commit().message
    'Repository created'
    >>> [repository.id for repository in lake.repositories()]
    ['books', 'films']
    """

    def __init__(self, backend: Backend, name: str) -> None:
        """Made by `Lake.repository`."""
        self._backend = backend
        self.id = name

    def __repr__(self) -> str:
        return f"<repository {self.id!r}>"

    @property
    def properties(self) -> RepositoryInfo:
        """What is known of the repository.

        Raises:
            NotFound: There is none of this name.
        """
        return self._backend.get_repository(self.id)

    def create(
        self,
        *,
        storage_namespace: str | None = None,
        default_branch: str = "main",
        exist_ok: bool = False,
    ) -> "Repository":
        """Make the repository; return it.

        Args:
            storage_namespace: The URL below which its data goes; None: where the lake has a place.
            default_branch: Its first branch.
            exist_ok: Whether one of this name may be there already, as it is.

        Raises:
            Conflict: There is one of this name.
            Invalid: Its data cannot go there.
        """
        try:
            self._backend.create_repository(self.id, storage_namespace, default_branch)
        except Conflict:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Delete the repository; its objects stay in the storage."""
        self._backend.delete_repository(self.id)

    def branch(self, name: str) -> Branch:
        """Return a branch, which need not be there."""
        return Branch(self._backend, self.id, name)

    def branches(self, prefix: str = "") -> Iterator[Branch]:
        """Iterate over the branches, in order of their names."""
        return map(self.branch, self._backend.list_branches(self.id, prefix))

    def tag(self, name: str) -> Tag:
        """Return a tag, which need not be there."""
        return Tag(self._backend, self.id, name)

    def tags(self, prefix: str = "") -> Iterator[Tag]:
        """Iterate over the tags, in order of their names."""
        return map(self.tag, self._backend.list_tags(self.id, prefix))

    def ref(self, ref: str | Commit) -> Reference:
        """Return a state of the repository: a commit, a branch, a tag, or ``main~1``."""
        return Reference(self._backend, self.id, str(ref))

    def collect_garbage(
        self,
        *,
        dry_run: bool = False,
        assume_quiet: bool = False,
        min_age_seconds: float | None = None,
        max_share: float = 0.5,
    ) -> "RunSummary":
        """Find objects that nothing names any more; delete those that an earlier run found.

        This process does the work, which must reach the storage. For very large lakes, Spark does:
        see ``lakebed gc run``.

        >>> lake.repository("books").collect_garbage(dry_run=True).sentence()
        'A dry run, nothing was changed: 0 objects would be deleted; nothing else is garbage.'

        Args:
            dry_run: Delete nothing.
            assume_quiet: Find and delete at once: only where nobody else writes.
            min_age_seconds: Leave alone what is younger; None: a day, or as the server says.
            max_share: Stop if a larger share of all objects would be deleted.

        Raises:
            LakeError: The run ended early; nothing that is in use was deleted.
        """
        from lakebed.reclaim.collector.job import CollectorOptions

        options = CollectorOptions(
            dry_run=dry_run,
            assume_quiet=assume_quiet,
            min_age_seconds=min_age_seconds,
            max_share=max_share,
        )
        return self._backend.collect_garbage(self.id, options)
