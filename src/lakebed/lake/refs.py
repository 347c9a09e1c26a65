"""Branches, tags and other refs: what they are, what led to them, who may change them."""

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
"""The version of rules that were never set."""


@dataclass(frozen=True, slots=True)
class ProtectionRules:
    """The rules that protect branches of a repository, as they were read."""

    patterns: tuple[str, ...]
    strict: frozenset[str]
    """Those of the patterns under which only merges change a branch."""
    version: str
    """Stands for this set of rules: to replace them only if nobody else did."""


class _Rules(NamedTuple):
    """Rules that are to be stored."""

    patterns: Sequence[str]
    strict: Mapping[str, bool]
    """What is known of them; a pattern that is not in it stays as it was."""


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The best common ancestor of two refs."""

    source: Commit
    destination: Commit
    base: Commit


class Refs:
    """The refs of all repositories."""

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
        """Iterate over the branches whose names begin with `prefix`, in order, past `after`.

        Raises:
            RepositoryNotFound: There is no such repository.
        """
        repository = self._engine.repositories.get(repository_id)
        found = self._engine.branches.list(repository, prefix=prefix, after=after)
        return (branch for branch in found if show_hidden or not branch.hidden)

    @traced("catalog.get_branch")
    def get_branch(self, repository_id: RepositoryID, branch: BranchID) -> Branch:
        """Return a branch.

        Raises:
            RepositoryNotFound, BranchNotFound: There is none.
        """
        return self._engine.branches.get(self._engine.repositories.get(repository_id), branch)

    # Tags

    def list_tags(
        self, repository_id: RepositoryID, *, prefix: str = "", after: str = ""
    ) -> Iterator[Tag]:
        """Iterate over the tags whose names begin with `prefix`, in order, past `after`.

        Raises:
            RepositoryNotFound: There is no such repository.
        """
        repository = self._engine.repositories.get(repository_id)
        return self._engine.tags.list(repository, prefix=prefix, after=after)

    @traced("catalog.get_tag")
    def get_tag(self, repository_id: RepositoryID, tag: TagID) -> Tag:
        """Return a tag.

        Raises:
            RepositoryNotFound, TagNotFound: There is none.
        """
        return self._engine.tags.get(self._engine.repositories.get(repository_id), tag)

    # History

    @traced("catalog.get_commit")
    def get_commit(self, repository_id: RepositoryID, ref: str) -> Commit:
        """Return the commit that a ref leads to; of a branch, its head.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is none.
        """
        repository, commit_id = self._engine.readings.commit_of(repository_id, ref)
        return self._engine.commits.get(repository, commit_id)

    @traced("catalog.get_judged_commit")
    def get_judged_commit(self, repository_id: RepositoryID, ref: str) -> tuple[Commit, str | None]:
        """Return the commit of a ref, and the hook that refused it, or None if none did.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is none.
        """
        repository, commit_id, refused_by = self._find_judged(repository_id, ref)
        return self._engine.commits.get(repository, commit_id), refused_by

    def _find_judged(
        self, repository_id: RepositoryID, ref: str
    ) -> tuple[Repository, CommitID, str | None]:
        """Return a repository, the commit of a ref, and the hook that refused the commit."""
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
        """Return a page of the commits that led to a ref, the latest first.

        Args:
            repository_id: Where.
            ref: Where to begin.
            amount: At most so many commits.
            after: The id of the last commit of the page before.
            first_parent: Follow only the first parent of each.
            since: Leave out older commits; a time without a zone is in UTC.
            stop_at: A ref: show its commit, and nothing of its own history.
            paths: If these or prefixes are given, only commits that changed one of them.
            prefixes: See `paths`.
            look_ahead: Find out whether more follow, which may take a search.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef, CommitNotFound: There is no such history.
        """
        repository, head, refused_by = self._find_judged(repository_id, ref)
        resolver = self._engine.resolver
        query = LogQuery(
            first_parent=first_parent,
            since_us=None if since is None else from_datetime(_in_utc(since)),
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
        """Return the best common ancestor of two refs, and their commits.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is nothing to compare.
            Invalid: They have no ancestor in common.
        """
        repository = self._engine.repositories.get(repository_id)
        left = self._engine.resolver.commit(repository, source)
        right = self._engine.resolver.commit(repository, destination)
        return MergeBase(left, right, self._engine.merge_bases.get(repository, left.id, right.id))

    # Protection rules

    @traced("catalog.get_protection")
    def get_protection(self, repository_id: RepositoryID) -> ProtectionRules:
        """Return the rules that protect branches of a repository.

        Raises:
            RepositoryNotFound: There is no such repository.
        """
        found = self._engine.protection.get(self._engine.repositories.get(repository_id))
        return ProtectionRules(found.patterns, found.strict, _version_of(found.predicate))

    @traced("catalog.set_protection")
    def set_protection(
        self,
        repository_id: RepositoryID,
        patterns: Sequence[str],
        *,
        strict: Mapping[str, bool] | None = None,
        version: str | None = None,
    ) -> None:
        """Replace the rules that protect branches; with `version`, only those of that version.

        `strict` says under which patterns only merges change a branch. A pattern that it does not
        name stays as it was: a client that knows only patterns must not take this away.

        Raises:
            RepositoryNotFound: There is no such repository.
            Invalid: A pattern can match no branch.
            PreconditionFailed: The rules are others by now; nothing was written.
            TooManyTries: Others always changed them first.
            OutcomeUnknown: They may have been replaced.
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
        """Add a rule to those that protect branches; raises as `set_protection` does."""
        said = {} if strict is None else {pattern: strict}
        self._change_protection(
            repository_id, lambda found: _Rules([*found.patterns, pattern], said)
        )

    @traced("catalog.remove_protection")
    def remove_protection(self, repository_id: RepositoryID, pattern: str) -> None:
        """Remove a rule, if it is there; raises as `set_protection` does."""
        self._change_protection(
            repository_id,
            lambda found: _Rules([each for each in found.patterns if each != pattern], {}),
        )

    def _change_protection(
        self, repository_id: RepositoryID, change: Callable[[Protection], _Rules]
    ) -> None:
        """Replace the rules over those that were read, and no others."""
        repository, protection = (
            self._engine.repositories.get(repository_id),
            self._engine.protection,
        )
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
        """Write all branches, tags and commits into the repository's storage namespace.

        Raises:
            RepositoryNotFound: There is no such repository.
            BlockError: The storage refused or failed.
        """
        repository = self._engine.repositories.get(repository_id)
        return dump_refs(self._store, self._block, self._runtime, repository).dump_id

    @traced("catalog.restore_refs")
    def restore(self, repository_id: RepositoryID, dump_id: DumpID) -> None:
        """Bring a dump back into a bare repository; raises as `restore_refs` does.

        What was purged is marked first, so that those who read it are told why it is not there.
        """
        repository = self._engine.repositories.get_writable(repository_id)
        self._purge_marks.restore(repository, self._block)
        restore_refs(self._store, self._block, self._runtime, repository, dump_id)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _version_of(predicate: Predicate) -> str:
    return predicate.hex() if isinstance(predicate, bytes) else _NEVER_SET


def _predicate_of(version: str) -> Predicate:
    if version == _NEVER_SET:
        return ABSENT
    if not _VERSION.fullmatch(version):
        raise PreconditionFailed(b"branch_protection", f"the rules never had version {version}")
    return Version(bytes.fromhex(version))
