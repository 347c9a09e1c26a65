"""Branches, tags and other refs: reading, history, protection rules, dumps."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from lakebed.base.runtime import Runtime, from_datetime
from lakebed.base.tracing import traced
from lakebed.block import BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.errors import PreconditionFailed, TooManyTries
from lakebed.engine.model import (
    Branch,
    BranchID,
    Commit,
    CommitID,
    Repository,
    RepositoryID,
    Tag,
    TagID,
)
from lakebed.engine.refs.dump import dump_refs
from lakebed.engine.refs.log import LogPage, LogQuery
from lakebed.engine.refs.protection import Protection
from lakebed.engine.refs.restore import restore_refs
from lakebed.formats import DumpID
from lakebed.kv import ABSENT, Predicate, Store, Version
from lakebed.lake.purge_marks import PurgeMarks

_VERSION: Final = re.compile("[0-9a-f]{32}")
_TRIES: Final = 10
_NEVER_SET: Final = "none"
"""The version of protection rules never set."""


@dataclass(frozen=True, slots=True)
class ProtectionRules:
    """The branch protection rules of a repository, as read."""

    patterns: tuple[str, ...]
    strict: frozenset[str]
    """The patterns under which only merges change a branch."""
    version: str
    """Identifies this set of rules, for compare-and-swap."""


class _Rules(NamedTuple):
    patterns: Sequence[str]
    strict: Mapping[str, bool]
    """Strictness per pattern; patterns without an entry keep their current value."""


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The best common ancestor of two refs, with their commits."""

    source: Commit
    destination: Commit
    base: Commit


class Refs:
    """Reads the refs of all repositories; changes protection rules; dumps and restores.

    Methods raise `RepositoryNotFound`, `BranchNotFound`, `TagNotFound`, `RefNotFound` or
    `InvalidRef` if a repository or ref does not exist.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        purge_marks: PurgeMarks,
    ) -> None:
        self._engine = engine
        self._store = store
        self._runtime = runtime
        self._block = block
        self._purge_marks = purge_marks

    # Branches

    def list_branches(
        self,
        repository_id: RepositoryID,
        *,
        prefix: str = "",
        after: str = "",
        show_hidden: bool = False,
    ) -> Iterator[Branch]:
        """Yield branches with a name prefix, in order, after the name `after`."""
        repository = self._engine.repositories.get(repository_id)
        found = self._engine.branches.list(repository, prefix=prefix, after=after)
        return (branch for branch in found if show_hidden or not branch.hidden)

    @traced("catalog.get_branch")
    def get_branch(self, repository_id: RepositoryID, branch: BranchID) -> Branch:
        return self._engine.branches.get(self._engine.repositories.get(repository_id), branch)

    # Tags

    def list_tags(
        self, repository_id: RepositoryID, *, prefix: str = "", after: str = ""
    ) -> Iterator[Tag]:
        """Yield tags with a name prefix, in order, after the name `after`."""
        repository = self._engine.repositories.get(repository_id)
        return self._engine.tags.list(repository, prefix=prefix, after=after)

    @traced("catalog.get_tag")
    def get_tag(self, repository_id: RepositoryID, tag: TagID) -> Tag:
        return self._engine.tags.get(self._engine.repositories.get(repository_id), tag)

    # History

    @traced("catalog.get_commit")
    def get_commit(self, repository_id: RepositoryID, ref: str) -> Commit:
        """Return the commit of a ref; of a branch, its head."""
        repository, commit_id = self._engine.readings.commit_of(repository_id, ref)
        return self._engine.commits.get(repository, commit_id)

    @traced("catalog.get_judged_commit")
    def get_commit_and_refusal(
        self, repository_id: RepositoryID, ref: str
    ) -> tuple[Commit, str | None]:
        """Return the commit of a ref, and the hook that refused it, or None if none did."""
        repository, commit_id, refused_by = self._find_with_refusal(repository_id, ref)
        return self._engine.commits.get(repository, commit_id), refused_by

    def _find_with_refusal(
        self, repository_id: RepositoryID, ref: str
    ) -> tuple[Repository, CommitID, str | None]:
        repository, commit_id = self._engine.readings.commit_of(repository_id, ref)
        return repository, commit_id, self._engine.refusals.find(repository, ref, commit_id)

    @traced("catalog.log")
    def log(
        self,
        repository_id: RepositoryID,
        ref: str,
        *,
        amount: int,
        after: str | None = None,
        first_parent: bool = False,
        since: datetime | None = None,
        stop_at: str | None = None,
        paths: Sequence[bytes] = (),
        prefixes: Sequence[bytes] = (),
        look_ahead: bool = True,
    ) -> LogPage:
        """Return a page of the history of a ref, newest commit first.

        - `after`: the id of the last commit of the previous page.
        - `first_parent`: follow only first parents.
        - `since`: omit older commits; a time without a zone is in UTC.
        - `stop_at`: a ref: show its commit, but omit its history.
        - `paths`: with paths or prefixes, show only commits that changed one of them.
        - `prefixes`: see `paths`.
        - `look_ahead`: determine whether more commits follow, which may take a search.
        """
        repository, head, refused_by = self._find_with_refusal(repository_id, ref)
        resolver = self._engine.resolver
        if since is not None and since.tzinfo is None:
            since = since.replace(tzinfo=UTC)
        query = LogQuery(
            first_parent=first_parent,
            since_us=None if since is None else from_datetime(since),
            stop_at=None if stop_at is None else resolver.commit(repository, stop_at).id,
            after=None if after is None else CommitID(after),
            keys=tuple(paths),
            prefixes=tuple(prefixes),
        )
        committed = self._engine.committed(repository)
        page = self._engine.history.page(
            repository, committed, head, query, amount=amount, look_ahead=look_ahead
        )
        return page if refused_by is None else replace(page, refused={head: refused_by})

    @traced("catalog.find_merge_base")
    def find_merge_base(
        self, repository_id: RepositoryID, source: str, destination: str
    ) -> MergeBase:
        """Return the best common ancestor of two refs, with their commits.

        Raises `Invalid` if the refs have no common ancestor.
        """
        repository = self._engine.repositories.get(repository_id)
        left = self._engine.resolver.commit(repository, source)
        right = self._engine.resolver.commit(repository, destination)
        return MergeBase(left, right, self._engine.merge_bases.get(repository, left.id, right.id))

    # Protection rules

    @traced("catalog.get_protection")
    def get_protection(self, repository_id: RepositoryID) -> ProtectionRules:
        """Return the branch protection rules of a repository."""
        found = self._engine.protection.get(self._engine.repositories.get(repository_id))
        version = found.predicate
        text = version.hex() if isinstance(version, bytes) else _NEVER_SET
        return ProtectionRules(found.patterns, found.strict, text)

    @traced("catalog.set_protection")
    def set_protection(
        self,
        repository_id: RepositoryID,
        patterns: Sequence[str],
        *,
        strict: Mapping[str, bool] | None = None,
        version: str | None = None,
    ) -> None:
        """Replace the branch protection rules, optionally only those of a `version`.

        `strict` maps patterns to whether only merges change their branches. Other patterns keep
        their value: a client that knows only patterns must not remove this protection.

        Raises:
            Invalid: A pattern can match no branch.
            PreconditionFailed: The rules have changed since `version`; nothing was written.
            TooManyTries: Concurrent changes kept winning.
            OutcomeUnknown: The rules may have been replaced.
        """
        expected = None if version is None else _predicate_of(version)

        def replace(found: Protection) -> _Rules:
            if expected not in {None, found.predicate}:
                raise PreconditionFailed(b"branch_protection", "the rules have been changed")
            return _Rules(patterns, strict or {})

        self._change_protection(repository_id, replace)

    @traced("catalog.add_protection")
    def add_protection(
        self, repository_id: RepositoryID, pattern: str, *, strict: bool | None = None
    ) -> None:
        """Add a branch protection rule; raises as `set_protection` does."""
        said = {} if strict is None else {pattern: strict}
        self._change_protection(
            repository_id, lambda found: _Rules([*found.patterns, pattern], said)
        )

    @traced("catalog.remove_protection")
    def remove_protection(self, repository_id: RepositoryID, pattern: str) -> None:
        """Remove a rule, if it exists; raises as `set_protection` does."""
        self._change_protection(
            repository_id,
            lambda found: _Rules([each for each in found.patterns if each != pattern], {}),
        )

    def _change_protection(
        self, repository_id: RepositoryID, change: Callable[[Protection], _Rules]
    ) -> None:
        """Replace the rules with compare-and-swap, retrying on concurrent changes."""
        repository = self._engine.repositories.get(repository_id)
        protection = self._engine.protection
        for _ in range(_TRIES):
            found = protection.get(repository)
            patterns, said = change(found)
            strict = [each for each in patterns if said.get(each, each in found.strict)]
            with suppress(PreconditionFailed):
                protection.set(repository, patterns, strict=strict, predicate=found.predicate)
                return
        raise TooManyTries(f"the change of the protection rules of {repository_id}", _TRIES)

    # Dumps

    @traced("catalog.dump_refs")
    def dump(self, repository_id: RepositoryID) -> DumpID:
        """Write all branches, tags and commits into the repository's storage namespace."""
        repository = self._engine.repositories.get(repository_id)
        return dump_refs(self._store, self._block, self._runtime, repository).dump_id

    @traced("catalog.restore_refs")
    def restore(self, repository_id: RepositoryID, dump_id: DumpID) -> None:
        """Restore a dump into a bare repository; raises as `restore_refs` does.

        Restores purge marks first, so that readers are told why purged objects are missing.
        """
        repository = self._engine.repositories.get_writable(repository_id)
        self._purge_marks.restore(repository, self._block)
        restore_refs(self._store, self._block, self._runtime, repository, dump_id)


def _predicate_of(version: str) -> Predicate:
    if version == _NEVER_SET:
        return ABSENT
    if not _VERSION.fullmatch(version):
        raise PreconditionFailed(
            b"branch_protection", f"the rules never had version {version}: read them again"
        )
    return Version(bytes.fromhex(version))
