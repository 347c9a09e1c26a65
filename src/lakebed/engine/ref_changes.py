"""Making and deleting branches and tags: what rules and hooks have to say, and in which order.

What must hold of the records alone is in `lakebed.engine.refs`. Here the repository is looked at
first (is it there, may it be changed), then rules, and then hooks are asked. They hear how it
ended, unless that is unknown: then they find out themselves, later (`lakebed.hooks.post`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from lakebed.engine.errors import DefaultBranch, NotUnique, RefNotFound
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
)
from lakebed.engine.names import check_branch_name, check_tag_name
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.protection import BranchProtection
from lakebed.engine.refs.refusals import Refusals
from lakebed.engine.refs.resolve import Resolver
from lakebed.engine.refs.tags import Tags
from lakebed.engine.repositories.repositories import Repositories
from lakebed.errors import LakebedError
from lakebed.ids import UniqueID, new_unique_id
from lakebed.kv import Guard, Item, OutcomeUnknown
from lakebed.runtime import Runtime
from lakebed.tracing import traced


class RefChanges:
    """Makes and deletes the branches and tags of all repositories."""

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
        """Make a branch that points to a ref's commit.

        Raises:
            InvalidName: A branch cannot have this name.
            RepositoryNotFound, ReadOnly, RefNotFound, InvalidRef: There is nothing to branch from.
            NotUnique: There is already a branch of this name.
            CommitExpired: The data of the commit is not kept any more.
            CommitRefused: A hook refused the commit when it was made.
            Refused: A hook refused it.
        """
        branch = check_branch_name(name)
        created = self._create_as_last_seen(repository_id, branch, source, hidden=hidden)
        if created is not None:
            return created
        repository = self._repositories.get_writable(repository_id)
        commit = self._resolver.commit(repository, source)
        self._refusals.check(repository, source, commit.id)
        with self._change(repository) as unique_id:
            self._hooks.before_create_branch(repository, branch, commit.id, source, unique_id)
            return self._branches.create(
                repository,
                branch,
                commit.id,
                hidden=hidden,
                unique_id=unique_id,
                before_try=partial(self._hooks.before_try, repository, unique_id),
            )

    def _create_as_last_seen(
        self, repository_id: RepositoryID, branch: BranchID, source: str, *, hidden: bool
    ) -> Branch | None:
        """Make a branch in the repository as it was last seen.

        None: nothing was made. It has changed since, the name is taken, or it takes more reads to
        find the source; then the ordinary way says what is wrong, or succeeds.
        """
        seen = self._repositories.seen_lately(repository_id)
        if seen is None or seen[1].read_only:
            return None
        version, repository = seen
        place = Guard(GRAVELER, REPOSITORIES.prefix + repository_id.encode(), version)
        known = self._branches.last_seen(repository, BranchID(source))
        if known is not None and not self._hooks.minds_branch(repository, branch, known.commit_id):
            made = self._branches.create_at_once(repository, branch, known, place, hidden=hidden)
            if made is not None:
                return made
        return self._create_in_one_look(repository, place, branch, source, known, hidden=hidden)

    def _create_in_one_look(
        self,
        repository: Repository,
        place: Guard,
        branch: BranchID,
        source: str,
        known: Branch | None,
        *,
        hidden: bool,
    ) -> Branch | None:
        """Make a branch in three calls to the store, which read the source on the way.

        (In five, if the source is not `known`, or not where it was last seen.)
        """
        places = self._resolver.places(repository, source)
        if places is None:
            return None
        read_at = self._runtime.monotonic()
        offered: list[CommitID] = []

        def find_commit(found: Sequence[Item | None]) -> CommitID:
            record, *named = found
            commit_id = self._resolver.commit_in(named)
            if record is None or record.predicate != place.predicate or commit_id is None:
                raise RefNotFound(source)
            self._branches.recognise(repository, BranchID(source), named[0], read_at)
            if offered[-1:] != [commit_id]:
                self._hooks.before_create_branch(repository, branch, commit_id, source, unique_id)
                offered.append(commit_id)
            self._hooks.before_try(repository, unique_id)
            return commit_id

        keys = [(place.partition, place.key), *places]
        guess = None if known is None else known.commit_id
        try:
            with self._change(repository) as unique_id:
                return self._branches.create_from(
                    repository, branch, keys, find_commit, guess, hidden=hidden, unique_id=unique_id
                )
        except (RefNotFound, NotUnique):
            return None

    @traced("engine.delete_branch")
    def delete_branch(
        self, repository_id: RepositoryID, branch: BranchID, *, unchanged: Branch | None = None
    ) -> None:
        """Delete a branch and what is staged on it; with `unchanged`, only if it is still so.

        Raises:
            PreconditionFailed: It is not.
            RepositoryNotFound, ReadOnly, BranchNotFound: There is nothing to delete.
            DefaultBranch: It is the default branch, which cannot be deleted.
            Protected: A rule protects it.
            Refused: A hook refused it.
        """
        repository = self._repositories.get_writable(repository_id)
        if branch == repository.default_branch:
            raise DefaultBranch(repository_id, branch)
        # Else it could be made again, with any content.
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
        """Make a tag for a ref's commit; raises as `create_branch` does."""
        tag = check_tag_name(name)
        repository = self._repositories.get_writable(repository_id)
        commit = self._resolver.commit(repository, ref)
        self._refusals.check(repository, ref, commit.id)
        with self._change(repository) as unique_id:
            self._hooks.before_create_tag(repository, tag, commit.id, unique_id)
            before_try = partial(self._hooks.before_try, repository, unique_id)
            return self._tags.create(
                repository, tag, commit.id, unique_id=unique_id, before_try=before_try
            )

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
        """Draw an id for a creation or a deletion, and tell hooks what became of it."""
        operation = new_unique_id(self._runtime)
        try:
            yield operation
        except OutcomeUnknown:
            raise
        except LakebedError:
            self._hooks.after_failed_change(repository, operation)
            raise
        self._hooks.after_change(repository, operation)
