"""Creation and deletion of branches and tags, with checks of rules and hooks in order.

`lakebed.engine.refs` maintains the records alone. This module checks the repository (exists,
writable), then rules, then asks hooks. A creation does so after writing its record, in a state
invisible to readers; a deletion before. Hooks are told the outcome, or find an unknown outcome
later (`lakebed.lake.hooks.post`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from lakebed.base.actor import current_actor
from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, UniqueID, new_unique_id
from lakebed.base.tracing import traced
from lakebed.engine.errors import (
    DefaultBranch,
    InvalidRef,
    NotUnique,
    ReadOnly,
    RefNotFound,
    RepositoryNotFound,
    TooManyTries,
)
from lakebed.engine.hooks import Hooks
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import (
    Branch,
    BranchID,
    CommitID,
    Repository,
    RepositoryID,
    Tag,
    TagID,
    check_branch_name,
    check_tag_name,
)
from lakebed.engine.refs.branches import Branches, Tags
from lakebed.engine.refs.creation import CreationReads
from lakebed.engine.refs.protection import BranchProtection
from lakebed.engine.refs.resolve import Refusals, Resolver
from lakebed.engine.repositories.repositories import Repositories
from lakebed.kv import Item, OutcomeUnknown

CreatedT = TypeVar("CreatedT", Branch, Tag)

_TRIES: Final = 10


class RefChanges:
    """Creates and deletes branches and tags."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        repositories: Repositories,
        resolver: Resolver,
        branches: Branches,
        tags: Tags,
        protection: BranchProtection,
        refusals: Refusals,
        hooks: Hooks,
    ) -> None:
        self._runtime = runtime
        self._repositories = repositories
        self._resolver = resolver
        self._branches = branches
        self._tags = tags
        self._protection = protection
        self._refusals = refusals
        self._hooks = hooks

    @traced("engine.create_branch")
    def create_branch(
        self, repository_id: RepositoryID, name: str, source: str, *, hidden: bool = False
    ) -> Branch:
        """Create a branch at a ref's commit.

        Raises:
            InvalidName: The name is not valid.
            RepositoryNotFound, ReadOnly, RefNotFound, InvalidRef: The source or the repository is
                unusable.
            NotUnique: The name is taken.
            CommitExpired: The commit has expired.
            CommitRefused: A hook refused the commit when it was made.
            Refused: A hook refused the branch.
        """
        branch = check_branch_name(name)

        def ask(repository: Repository, commit_id: CommitID, unique_id: UniqueID) -> None:
            self._hooks.before_create_branch(repository, branch, commit_id, source, unique_id)

        def create(
            repository: Repository, commit_id: CommitID, unique_id: UniqueID, reads: CreationReads
        ) -> Branch:
            return self._branches.create(
                repository, branch, commit_id, hidden=hidden, unique_id=unique_id, reads=reads
            )

        return self._create(repository_id, source, ask, create)

    @traced("engine.delete_branch")
    def delete_branch(
        self, repository_id: RepositoryID, branch: BranchID, *, unchanged: Branch | None = None
    ) -> None:
        """Delete a branch and its staged changes; with `unchanged`, only if equal to this reading.

        Raises:
            PreconditionFailed: The branch has changed.
            RepositoryNotFound, ReadOnly, BranchNotFound: The branch or repository is missing or
                read-only.
            DefaultBranch: The default branch cannot be deleted.
            Protected: A rule protects the branch.
            Refused: A hook refused the deletion.
        """
        repository = self._repositories.get_writable(repository_id)
        if branch == repository.default_branch:
            raise DefaultBranch(repository_id, branch)
        # Otherwise the branch could be deleted and created again with any content.
        self._protection.check(repository, branch)
        known = unchanged or self._branches.get(repository, branch)
        with self._change(repository) as operation:
            self._hooks.before_delete_branch(repository, known, operation)

            def before_try(current: Branch) -> None:
                self._hooks.before_try(repository, operation)
                self._hooks.before_leaving(repository, current)

            self._branches.delete(
                repository,
                branch,
                known=known,
                unchanged=unchanged is not None,
                before_try=before_try,
            )

    @traced("engine.create_tag")
    def create_tag(self, repository_id: RepositoryID, name: str, ref: str) -> Tag:
        """Create a tag at a ref's commit; raises as `create_branch`."""
        tag = check_tag_name(name)

        def ask(repository: Repository, commit_id: CommitID, unique_id: UniqueID) -> None:
            self._hooks.before_create_tag(repository, tag, commit_id, unique_id)

        def create(
            repository: Repository, commit_id: CommitID, unique_id: UniqueID, reads: CreationReads
        ) -> Tag:
            return self._tags.create(repository, tag, commit_id, unique_id=unique_id, reads=reads)

        return self._create(repository_id, ref, ask, create)

    def _create(
        self,
        repository_id: RepositoryID,
        source: str,
        ask: Callable[[Repository, CommitID, UniqueID], None],
        create: Callable[[Repository, CommitID, UniqueID, CreationReads], CreatedT],
    ) -> CreatedT:
        """Create a ref in the repository as last seen; the creation validates this guess.

        `source` is the ref to create at; `ask` asks hooks for permission; `create` is given the
        commit that `source` probably means.
        """
        for _ in range(_TRIES):
            repository = self._repositories.seen_recently(repository_id)
            if repository is None or repository.read_only:
                repository = self._repositories.get_writable(repository_id)
            try:
                return self._create_in(repository, source, ask, create)
            except (RepositoryNotFound, RefNotFound, InvalidRef, NotUnique):
                # The error may be about a deleted repository of the same name.
                now = self._repositories.get_writable(repository_id)
                if now.unique_id == repository.unique_id:
                    raise
        raise TooManyTries(f"the creation of a ref in repository {repository_id}", _TRIES)

    def _create_in(
        self,
        repository: Repository,
        source: str,
        ask: Callable[[Repository, CommitID, UniqueID], None],
        create: Callable[[Repository, CommitID, UniqueID, CreationReads], CreatedT],
    ) -> CreatedT:
        read_at = self._runtime.monotonic()
        keys = [(GRAVELER, REPOSITORIES.prefix + repository.id.encode())]
        known = self._branches.last_seen(repository, BranchID(source))
        places = self._resolver.places(repository, source)
        if known is not None and places is not None:
            guess = known.commit_id
            keys += places
        else:
            guess = self._resolver.commit_id(repository, source)
        asked: list[CommitID] = []
        with self._change(repository) as unique_id:

            def judge(found: Sequence[Item | None]) -> CommitID:
                record, *named = found
                now = self._repositories.from_item(repository.id, record, read_at)
                if now.unique_id != repository.unique_id:
                    raise RepositoryNotFound(repository.id)
                if now.read_only and not current_actor().force:
                    raise ReadOnly(repository.id)
                commit_id = self._named(repository, source, named) if named else guess
                if commit_id not in asked:
                    self._refusals.check(repository, source, commit_id)
                    ask(repository, commit_id, unique_id)
                    asked[:] = [commit_id]
                self._hooks.before_try(repository, unique_id)
                return commit_id

            return create(repository, guess, unique_id, CreationReads(keys, judge))

    def _named(self, repository: Repository, source: str, found: Sequence[Item | None]) -> CommitID:
        """Return the commit of a ref, given the records at its places."""
        self._branches.from_item(repository, BranchID(source), found[0])
        named = self._resolver.commit_in(found)
        return named or self._resolver.commit_id(repository, source)

    @traced("engine.delete_tag")
    def delete_tag(self, repository_id: RepositoryID, tag: TagID) -> None:
        """Delete a tag; raises as `delete_branch` does, with `TagNotFound`."""
        repository = self._repositories.get_writable(repository_id)
        known = self._tags.get(repository, tag)
        with self._change(repository) as operation:
            self._hooks.before_delete_tag(repository, known, operation)

            def before_try() -> None:
                self._hooks.before_try(repository, operation)
                self._hooks.before_leaving(repository, known)

            self._tags.delete(repository, known, before_try)

    @contextmanager
    def _change(self, repository: Repository) -> Iterator[UniqueID]:
        """Draw an id for a creation or deletion, and tell hooks the outcome."""
        operation = new_unique_id(self._runtime)
        try:
            yield operation
        except OutcomeUnknown:
            raise
        except LakebedError:
            self._hooks.after_failed_change(repository, operation)
            raise
        self._hooks.after_change(repository, operation)
