"""Opening a branch for writing: all that could refuse a write, read in one call to the store.

A write asks three records whether it may go on: the repository (is it there, may it be changed),
its protection rules, and the branch. A write that must know what it replaces reads the staged key
too. Each of them lies at a place that the one before names. A process that has seen the repository
and the branch before guesses that those places have not changed, and asks for everything at once.

The guess is proved as in `fast_read`. The keys of rules and branch contain the unique id of the
repository, so they are right if the repository that was read last has that id. The staged values
are those of the branch if it still has the version that was seen; if not, they are read again by
whoever needs them.

Nothing that decides comes from a cache: every record is read after the call began. So once a rule
is set, or a repository is read-only, that holds for every write that begins later.

An upload opens its branch before it takes any byte. If the bytes came within `RECENT_SECONDS`, the
write goes by that opening and does not ask again. A rule that is set in between is one that was set
while the write was under way: as it may always come between a write's check and its effect. Whether
the branch and the staged key are still as they were is no matter of time: the writer proves that,
however old the opening is.
"""

from dataclasses import dataclass
from typing import Final

from lakebed.actor import current_actor
from lakebed.engine.errors import BranchNotFound, ReadOnly, TooManyTries
from lakebed.engine.keys import (
    BRANCHES,
    GRAVELER,
    PROTECTION,
    PROTECTION_NAME,
    REPOSITORIES,
    STAGED_PREFIX,
)
from lakebed.engine.model import Branch, BranchID, Repository, RepositoryID
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.protection import BranchProtection, Protection
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.engine.repositories.repositories import Repositories
from lakebed.engine.staging.writer import Target
from lakebed.kv import Item, Store
from lakebed.runtime import Runtime

RECENT_SECONDS: Final = 1.0
"""How long a write may go by what it found when it began. See the module's docstring."""

_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Opened:
    """A branch that may be written to, as it was at some moment after the call began."""

    repository: Repository
    target: Target


@dataclass(frozen=True, slots=True)
class _Found:
    """What one call to the store has found."""

    repository: Repository
    protection: Protection
    branch: Branch | None
    staged: tuple[Item | None, ...] | None


class Opener:
    """Opens branches for writing."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        repositories: Repositories,
        branches: Branches,
        protection: BranchProtection,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._repositories = repositories
        self._branches = branches
        self._protection = protection
        self._reads: SharedReads[tuple[RepositoryID, BranchID], _Found] = SharedReads(
            runtime, lambda key: self._read(*key)
        )

    def open(self, repository_id: RepositoryID, branch: BranchID) -> Opened:
        """Return a branch that may be written to; callers that ask at one time share the read.

        Raises:
            RepositoryNotFound, Deleting: There is no such repository.
            ReadOnly: It is read-only.
            Protected: A rule protects the branch.
            BranchNotFound: There is no such branch.
        """
        return _checked(branch, self._reads.get((repository_id, branch)))

    def open_at(self, repository_id: RepositoryID, branch: BranchID, key: bytes) -> Opened:
        """Return a branch as `open` does, with what is staged for a key."""
        return _checked(branch, self._read(repository_id, branch, key))

    def is_recent(self, opened: Opened) -> bool:
        """Whether a write may still go by an opening."""
        age = self._runtime.monotonic() - opened.target.branch.read_at
        return age <= RECENT_SECONDS

    def _read(
        self, repository_id: RepositoryID, branch: BranchID, key: bytes | None = None
    ) -> _Found:
        seen = self._repositories.last_seen(repository_id)
        repository = self._repositories.get(repository_id) if seen is None else seen[1]
        for _ in range(_TRIES):
            before = self._branches.last_seen(repository, branch)
            tokens = before.tokens if before is not None and key is not None else ()
            read_at = self._runtime.monotonic()
            # The order matters: see the module's docstring.
            *staged, rules, branch_now, repository_now = self._store.get_many(
                [
                    *((token.encode(), STAGED_PREFIX + (key or b"")) for token in tokens),
                    (repository.partition, PROTECTION.prefix + PROTECTION_NAME),
                    (repository.partition, BRANCHES.prefix + branch.encode()),
                    (GRAVELER, REPOSITORIES.prefix + repository_id.encode()),
                ]
            )
            found = self._repositories.recognise(repository_id, repository_now, read_at)
            if found.unique_id != repository.unique_id:
                repository = found  # another one was made under this name
                continue
            current = self._branches.recognise(found, branch, branch_now, read_at)
            is_right = tokens and current == before
            return _Found(
                found,
                self._protection.recognise(found, rules),
                current,
                tuple(staged) if is_right else None,
            )
        raise TooManyTries(f"the opening of branch {branch} of {repository_id}", _TRIES)


def _checked(branch: BranchID, found: _Found) -> Opened:
    # Not before: callers that share a read may differ in whether they may write here.
    if found.repository.read_only and not current_actor().force:
        raise ReadOnly(found.repository.id)
    found.protection.check(branch)
    if found.branch is None:
        raise BranchNotFound(branch)
    return Opened(found.repository, Target(found.branch, found.staged))
