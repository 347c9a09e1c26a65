"""Optimistic reads with version validation: an operation's records in one store call.

An operation on a key reads records that each locate the next: the repository, its protection rules
and the branch, and the key's cells under the branch's tokens. A process guesses that repository and
branch are unchanged since it last saw them, and reads all of them in one call: cells, rules,
branch, repository, in this order. Then the versions validate the guess:

- The keys of rules and branch contain the repository's unique id. They are right if the repository,
  read last, still has this id. If not, everything is read again with the new id.
- A version stands for one write. If the branch has the version last seen, it had this version
  throughout, and the cells belong to it. If not, the caller reads the cells of the new version.

For a repository or branch not seen before, the process guesses less, and reads the repository
first, or the cells last.

No decision depends on a cache: every record is read after the operation began. A write starts from
such a reading, and reads the same records again with the write or after it (`after_write`). So a
write is acknowledged only if repository, rules and branch allowed it at some moment after the
write.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakebed.base.actor import current_actor
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.base.tracing import traced
from lakebed.engine.errors import (
    BranchNotFound,
    Deleting,
    InvalidRef,
    Protected,
    ReadOnly,
    RepositoryNotFound,
    TooManyTries,
)
from lakebed.engine.keys import (
    BRANCHES,
    EMPTIED,
    GRAVELER,
    PROTECTION,
    PROTECTION_NAME,
    REPOSITORIES,
    STAGED_PREFIX,
    TAGS,
)
from lakebed.engine.model import Branch, BranchID, CommitID, Repository, RepositoryID
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.protection import BranchProtection, Protection
from lakebed.engine.refs.resolve import Resolver, View, branch_in
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.engine.repositories.repositories import Repositories
from lakebed.kv import Item, Store

RECENT_SECONDS: Final = 1.0
"""How long a write may rely on its first reading. A later write would often hit a token sealed
meanwhile, and be repeated under the new token."""

REFUSALS: Final = (BranchNotFound, Deleting, Protected, ReadOnly, RepositoryNotFound)
"""Errors with which the records refuse a write."""

_TRIES: Final = 10

_WITH_CELLS: Final = (View.COMBINED, View.STAGED)

_Place = tuple[bytes, bytes]


class Reading(NamedTuple):
    """Records read together, consistent as of one moment after the call began."""

    repository: Repository
    found: Branch | None
    """The branch, or None if the ref does not name a branch."""
    commit_id: CommitID
    """The commit of the ref; for a branch, its head."""
    view: View = View.COMBINED
    rules: Protection | None = None
    """The protection rules, or None if not read."""
    cells: Sequence[Item | None] | None = None
    """The key's cell in each token of the branch, newest first, or None if not read."""
    read_at: float = 0
    """Monotonic time before the records were read."""
    note: Item | None = None
    """The skip index of the written token (`skip_index`), if read after a write."""

    @property
    def branch(self) -> Branch:
        """The branch; only for refs to a branch."""
        assert self.found is not None
        return self.found


class Readings:
    """Batched reads of repositories, rules, branches and cells, for one process."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        repositories: Repositories,
        branches: Branches,
        protection: BranchProtection,
        resolver: Resolver,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._repositories = repositories
        self._branches = branches
        self._protection = protection
        self._resolver = resolver
        self._to_write: SharedReads[tuple[RepositoryID, BranchID], Reading] = SharedReads(
            runtime, lambda key: self._read(*key, with_rules=True)
        )

    def of_ref(self, repository_id: RepositoryID, ref: str, key: bytes | None = None) -> Reading:
        """Return the reading of a ref, with a key's cells if the ref shows a branch's changes.

        Raises:
            RepositoryNotFound, Deleting, RefNotFound, InvalidRef: The ref cannot be read.
        """
        name, view = branch_in(ref)
        found = self._read(repository_id, name, key, view=view)
        if found.found is not None and view is not None:
            return found
        if found.commit_id and view is View.COMBINED:  # a tag
            return found._replace(view=View.COMMITTED)
        resolved = self._resolver.follow(found.repository, ref, found.found)
        return Reading(
            repository=found.repository,
            found=None,
            commit_id=resolved.commit_id,
            view=resolved.view,
        )

    @traced("engine.find_commit")
    def commit_of(self, repository_id: RepositoryID, ref: str) -> tuple[Repository, CommitID]:
        """Return a repository and the commit of a ref in it; raises as `of_ref`.

        Raises `InvalidRef` also for the staged changes of a branch.
        """
        found = self.of_ref(repository_id, ref)
        if found.view is View.STAGED:
            raise InvalidRef(
                f"{ref} means the staged changes of a branch: use a branch, a tag or a commit"
            )
        return found.repository, found.commit_id

    def of_branch(self, repository_id: RepositoryID, branch: BranchID) -> Reading:
        """Return the reading of a branch; raise `BranchNotFound` if it does not exist."""
        found = self._read(repository_id, branch)
        if found.found is None:
            raise self._resolver.not_a_branch(found.repository, branch)
        return found

    @traced("engine.read_to_write")
    def to_write(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        key: bytes | None = None,
        *,
        unique_id: UniqueID | None = None,
    ) -> Reading:
        """Return the reading of a writable branch, with the cells of `key` if given.

        Concurrent callers without a key share the read. With `unique_id`, a later repository of the
        same name is not found.

        Raises:
            RepositoryNotFound, Deleting: The repository does not exist.
            ReadOnly: The repository is read-only.
            Protected: A rule protects the branch.
            BranchNotFound: The branch does not exist.
        """
        if key is None:
            found = self._to_write.get((repository_id, branch))
        else:
            found = self._read(repository_id, branch, key, with_rules=True)
        try:
            return _checked(branch, found, unique_id)
        except BranchNotFound:
            raise self._resolver.not_a_branch(found.repository, branch) from None

    def renewed(self, known: Reading, key: bytes) -> Reading:
        """Return `known` if recent enough for a write of `key`, or else `to_write`."""
        if self._runtime.monotonic() - known.read_at <= RECENT_SECONDS:
            return known
        repository = known.repository
        return self.to_write(repository.id, known.branch.id, key, unique_id=repository.unique_id)

    def places_after_write(self, before: Reading) -> list[_Place]:
        """Return the places read by `after_write`, for writers that read them with the write."""
        repository, branch = before.repository, before.branch
        return [
            (branch.staging_token.encode(), EMPTIED),
            (repository.partition, PROTECTION.prefix + PROTECTION_NAME),
            (repository.partition, BRANCHES.prefix + branch.id.encode()),
            (GRAVELER, REPOSITORIES.prefix + repository.id.encode()),
        ]

    def after_write(
        self, before: Reading, items: Sequence[Item | None] = (), read_at: float = 0
    ) -> Reading:
        """Return the reading of a branch after a write, if still writable; raises as `to_write`.

        `before` is the reading the write relied on. `items` are the items at `places_after_write`,
        if read with the write after the monotonic time `read_at`; by default they are read here.
        """
        if not items:
            read_at = self._runtime.monotonic()
            items = self._store.get_many(self.places_after_write(before))
        note, rules, branch_now, repository_now = items
        written, name = before.repository, before.branch.id
        repository = self._repositories.from_item(written.id, repository_now, read_at)
        if repository.unique_id != written.unique_id:
            raise RepositoryNotFound(written.id)
        branch = self._branches.from_item(repository, name, branch_now)
        after = Reading(
            repository=repository,
            found=branch,
            commit_id=CommitID("") if branch is None else branch.commit_id,
            rules=self._protection.from_item(repository, rules),
            read_at=read_at,
            note=note,
        )
        return _checked(name, after, None)

    def _read(
        self,
        repository_id: RepositoryID,
        name: BranchID | None,
        key: bytes | None = None,
        *,
        with_rules: bool = False,
        view: View | None = View.COMBINED,
    ) -> Reading:
        """Read a repository and a branch or tag, in one call if the guess is right.

        Without a `name`, reads only the repository; `with_rules`, also the rules, but no tag. Reads
        the cells of `key` if `view` includes staged changes; no view selects the commit an
        expression starts from.
        """
        seen = self._repositories.last_seen(repository_id)
        repository = None if seen is None else seen[1]
        for _ in range(_TRIES):
            before, wanted, cells = None, list[_Place](), 0
            if repository is not None and name is not None:
                before = self._branches.last_seen(repository, name)
                if before is not None and key is not None and view in _WITH_CELLS:
                    wanted += [(token.encode(), STAGED_PREFIX + key) for token in before.tokens]
                    cells = len(wanted)
                if with_rules:
                    wanted.append((repository.partition, PROTECTION.prefix + PROTECTION_NAME))
                elif before is None:
                    wanted.append((repository.partition, TAGS.prefix + name.encode()))
                wanted.append((repository.partition, BRANCHES.prefix + name.encode()))
            wanted.append((GRAVELER, REPOSITORIES.prefix + repository_id.encode()))
            read_at = self._runtime.monotonic()
            items = self._store.get_many(wanted)
            current = self._repositories.from_item(repository_id, items[-1], read_at)
            if repository is None or current.unique_id != repository.unique_id:
                repository = current  # first seen, or created again under this name
                if name is not None:
                    continue
            if name is None:
                return Reading(repository=current, found=None, commit_id=CommitID(""))
            branch = self._branches.from_item(current, name, items[-2])
            if branch is None:
                tag = None if with_rules or before is not None else items[-3]
                head = self._resolver.commit_in([None, tag]) or CommitID("")
            else:
                head = branch.commit_id
            return Reading(
                repository=current,
                found=branch,
                commit_id=head,
                view=view or View.COMMITTED,
                rules=self._protection.from_item(current, items[-3]) if with_rules else None,
                cells=items[:cells] if cells and _is_unchanged(before, branch) else None,
                read_at=read_at,
            )
        raise TooManyTries(f"the read of branch {name} of {repository_id}", _TRIES)


def _is_unchanged(before: Branch | None, after: Branch | None) -> bool:
    return before is not None and after is not None and before.version == after.version


def _checked(branch: BranchID, found: Reading, unique_id: UniqueID | None) -> Reading:
    # Check after the read: callers that share a read may differ in permission to write.
    repository = found.repository
    if unique_id not in {None, repository.unique_id}:
        raise RepositoryNotFound(repository.id)
    if repository.read_only and not current_actor().force:
        raise ReadOnly(repository.id)
    assert found.rules is not None
    found.rules.check(branch)
    if found.found is None:
        raise BranchNotFound(branch)
    return found
