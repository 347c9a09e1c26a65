"""Two-phase expiry of commits that the retention rules of a repository do not keep.

A pass, which is one request:

- E1. Read the rules.
- E2. Read the expiry marks with their versions. *Then* read all refs, *then* all commits, then
  whether a restore of refs is in progress: if so, the pass does nothing. Then read the rules again:
  a commit kept by either reading stays (`keep`).
- E3. Mark the other commits EXPIRING, unless they have a mark.
- E4. For the marks EXPIRING since an earlier pass: remove the mark of a commit that stays now. Turn
  the other marks EXPIRED if they are old enough and not too many, by a compare-and-swap with the
  version read before the scan.

So between EXPIRING and EXPIRED lies a whole scan that began after the mark was written. A ref
missed by the scan was either created later, by a request that has met the mark (`marks`), or
deleted.

A pass may die anywhere: its marks have no owner, and the next pass continues with them, even if the
rules were deleted. Concurrent passes are safe, since marks only change by compare-and-swap. The
lease only saves work.

**Clocks.** Commits expire, and objects age, by the clock of one server. A clock running days ahead
would treat new commits as old. So each run begins by writing, reading and deleting a file
(`Clocks`), to compare its modification time in the storage.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from lakebed.base.leases import Lease
from lakebed.base.runtime import Runtime, UniqueID, now_us, to_us
from lakebed.base.tracing import traced
from lakebed.block import BlockStore
from lakebed.engine import records_pb2 as pb
from lakebed.engine.engine import Engine
from lakebed.engine.errors import RepositoryNotFound, TooManyExpire
from lakebed.engine.expiry_marks import EXPIRED, EXPIRING, ExpiryMark, ExpiryMarks
from lakebed.engine.keys import BRANCHES, COMMITS, CREATING, LIVE, RESTORED, RESTORED_NAME, TAGS
from lakebed.engine.leases import LeaseRecords
from lakebed.engine.model import MOVED_NAMESPACE, BranchID, CommitID, Repository, RepositoryID
from lakebed.formats.layout import gc_check_path
from lakebed.kv import ABSENT, PredicateFailed, Store
from lakebed.kv.records import Record, Records
from lakebed.lake.errors import ClocksDiffer
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.retention import (
    FLOOR_US,
    CommitRetention,
    RetentionRecords,
    RetentionRules,
    Scan,
    StoredCommit,
    commit_retention,
    kept_commits,
)
from lakebed.reclaim.runs import GCLeases

_LOGGER: Final = logging.getLogger(__name__)

LEASE_SECONDS: Final = 60.0
UNCHECKED_COMMITS_MAX: Final = 1000
"""Up to this number of commits expire regardless of their share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Result of an expiry pass; for a dry run, what it would do."""

    ran: bool = True
    """False if another process is making a pass, or a restore of refs is in progress."""
    commits: int = 0
    """Unexpired commits scanned."""
    marked: int = 0
    """New EXPIRING marks."""
    rescued: int = 0
    """Marks removed because their commits are in use."""
    waiting: int = 0
    """Commits EXPIRING for not long enough."""
    expired: int = 0
    by_branch: Mapping[str, int] = field(default_factory=dict)
    """Expired commits per branch for which they were created."""
    next_by_branch: Mapping[str, int] = field(default_factory=dict)
    """Commits per branch that are marked now and expire later."""
    next_us: int = 0
    """When the first marked commit may expire; 0 if none is marked."""


class Expirer:
    """Expiry passes for all repositories."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        marks: ExpiryMarks,
        rules: RetentionRecords,
        *,
        expiring_seconds: float,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._marks = marks
        self._rules = rules
        self._expiring_us = to_us(expiring_seconds)

    def run(self, repository: Repository, *, max_share: float, dry_run: bool = False) -> Expiry:
        """Make a pass.

        Raises:
            TooManyExpire: More than `max_share` of the commits would expire; none has.
            OutcomeUnknown: The store did not answer: retry.
        """
        name = f"expire/{repository.unique_id}".encode()
        records = LeaseRecords(self._store, self._runtime, name, LEASE_SECONDS)
        lease = Lease(records, self._runtime)
        if not lease.acquire():
            return Expiry(ran=False)
        try:
            return self._run(repository, max_share, dry_run=dry_run)
        finally:
            records.release_lease(lease.holder)

    def retention_of(
        self, repository: Repository, ids: Collection[CommitID]
    ) -> list[CommitRetention]:
        """Return why each commit in `ids` stays or expires; leave out missing commits."""
        marks = self._marks.find_all(repository, list(ids))
        scan, rules = self._scan(repository), self._rules.find(repository)
        return [
            commit_retention(each, rules, scan, marks.get(each), expiring_us=self._expiring_us)
            for each in ids
            if each in scan.commits
        ]

    def unkept(self, repository: Repository) -> set[CommitID]:
        """Return the unexpired commits that no rule keeps; empty during a restore of refs."""
        plan = self._plan(repository)
        if plan is None:
            return set()
        return _ids_of(plan.unkept) | set(plan.unmarked)

    def expire_again(self, repository: Repository, ids: Collection[CommitID]) -> set[CommitID]:
        """Expire again the commits that had expired in a later state of a restored database.

        Their data may be deleted, so neither rules nor ages count. As in a pass, a scan of the refs
        lies between EXPIRING and EXPIRED. Return the commits in `ids` referenced by refs: they get
        no mark, so that garbage collection keeps the rest of their data.
        """
        before = self._read_marks(repository)
        self._apply(repository, _Plan(unmarked=[each for each in ids if each not in before]))
        marks = self._read_marks(repository)
        heads, others = self._read_refs(repository, now_us(self._runtime))
        in_use = {commit_id for _, commit_id in heads} | {CommitID(each) for each in others}
        found = [(each, marks[each]) for each in ids if each in marks]
        expiring = [(each, mark) for each, mark in found if mark.message.state == EXPIRING]
        plan = _Plan(
            rescued=[mark for each, mark in expiring if each in in_use],
            due=[mark for each, mark in expiring if each not in in_use],
        )
        self._apply(repository, plan)
        return in_use & set(ids)

    def _read_marks(self, repository: Repository) -> dict[CommitID, ExpiryMark]:
        records = self._marks.records(repository).scan_readable()
        return {CommitID(mark.name.decode()): mark for mark in records}

    def _run(self, repository: Repository, max_share: float, *, dry_run: bool) -> Expiry:
        plan = self._plan(repository)
        if plan is None:
            return Expiry(ran=False)
        if len(plan.due) > max(UNCHECKED_COMMITS_MAX, max_share * plan.commits):
            raise TooManyExpire(len(plan.due), plan.commits, max_share)
        report = Expiry(
            commits=plan.commits,
            marked=len(plan.unmarked),
            rescued=len(plan.rescued),
            waiting=len(plan.unkept) - len(plan.due),
            expired=len(plan.due),
            by_branch=plan.by_branch(_ids_of(plan.due)),
            next_by_branch=plan.by_branch(
                (_ids_of(plan.unkept) - _ids_of(plan.due)) | set(plan.unmarked)
            ),
            next_us=self._next_us(plan),
        )
        if not dry_run:
            self._apply(repository, plan)
            _LOGGER.info("expired commits of %s: %s", repository.id, report)
        return report

    def _next_us(self, plan: "_Plan") -> int:
        """Return when the first commit marked after a pass may expire."""
        due = _ids_of(plan.due)
        waiting = (mark for mark in plan.unkept if CommitID(mark.name.decode()) not in due)
        marked_us = [mark.message.marked_us for mark in waiting]
        if plan.unmarked:
            marked_us.append(now_us(self._runtime))
        return min(marked_us) + self._expiring_us if marked_us else 0

    def _plan(self, repository: Repository) -> "_Plan | None":
        """Scan rules, marks, refs and commits; return None during a restore of refs."""
        rules = self._rules.find(repository)
        # Read versions before the scan: a later version could belong to a mark it did not see.
        marks = self._read_marks(repository)
        if rules is None and not marks:
            return _Plan()
        scan = self._scan(repository)
        restored = Records(self._store, RESTORED, repository.partition).find(RESTORED_NAME)
        if restored is not None and not restored.message.finished:
            return None
        kept = kept_commits(rules, scan) | kept_commits(self._rules.find(repository), scan)
        return _Plan.make(marks, scan, kept, scan.began_us - self._expiring_us)

    def _apply(self, repository: Repository, plan: "_Plan") -> None:
        records = self._marks.records(repository)

        def mark(commit_id: CommitID) -> None:
            message = pb.Expiry(state=EXPIRING, marked_us=now_us(self._runtime))
            with suppress(PredicateFailed):
                records.set_if(commit_id.encode(), message, ABSENT)

        def rescue(found: ExpiryMark) -> None:
            with suppress(PredicateFailed):
                records.delete_if(found.name, found.predicate)

        def expire(found: ExpiryMark) -> None:
            message = pb.Expiry()
            message.CopyFrom(found.message)
            message.state, message.expired_us = EXPIRED, now_us(self._runtime)
            with suppress(PredicateFailed):  # rescued, or expired by another pass
                records.set_if(found.name, message, found.predicate)

        self._runtime.map_parallel(rescue, plan.rescued)
        self._runtime.map_parallel(expire, plan.due)
        self._runtime.map_parallel(mark, plan.unmarked)

    def _scan(self, repository: Repository) -> Scan:
        """Read refs, then commits. Commits stored from now on are too recent to expire."""
        since_us = self._rules.counting_since_us(repository)
        began_us = now_us(self._runtime)
        heads, named = self._read_refs(repository, began_us)
        return Scan(
            began_us=began_us,
            heads=heads,
            named=frozenset(CommitID(each) for each in named if each),
            commits=self._read_commits(repository, since_us),
        )

    def _read_refs(
        self, repository: Repository, began_us: int
    ) -> tuple[list[tuple[BranchID, CommitID]], set[str]]:
        """Return the heads of branches, and all other referenced commits."""
        heads: list[tuple[BranchID, CommitID]] = []
        named: set[str] = set()
        branches = Records(self._store, BRANCHES, repository.partition)
        for branch in branches.scan():
            message = branch.message
            named.add(message.transient.next_commit_id)
            if message.state == LIVE:
                heads.append((BranchID(branch.name.decode()), CommitID(message.commit_id)))
            else:
                self._delete_stale_creation(branches, branch, began_us)
                named.add(message.commit_id)
        tags = Records(self._store, TAGS, repository.partition)
        for tag in tags.scan():
            self._delete_stale_creation(tags, tag, began_us)
            named.add(tag.message.commit_id)
        return heads, named

    def _read_commits(self, repository: Repository, since_us: int) -> dict[CommitID, StoredCommit]:
        return {
            CommitID(record.name.decode()): StoredCommit(
                CommitID(record.message.parents[0]) if record.message.parents else None,
                record.message.stored_us or since_us,
                BranchID(record.message.branch),
            )
            for record in Records(self._store, COMMITS, repository.partition).scan()
        }

    def _delete_stale_creation(
        self,
        records: Records[pb.Branch] | Records[pb.Tag],
        found: Record[pb.Branch] | Record[pb.Tag],
        began_us: int,
    ) -> None:
        """Delete a creation that began a day ago: it would keep its commit forever."""
        is_old = found.message.created_us < began_us - FLOOR_US
        if is_old and found.message.state == CREATING:
            with suppress(PredicateFailed):
                records.delete_if(found.name, found.predicate)


def _ids_of(marks: Collection[ExpiryMark]) -> set[CommitID]:
    return {CommitID(mark.name.decode()) for mark in marks}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Changes that a pass is going to make."""

    commits: int = 0
    unmarked: Collection[CommitID] = ()
    rescued: Collection[ExpiryMark] = ()
    unkept: Collection[ExpiryMark] = ()
    """All EXPIRING marks of commits that do not stay."""
    due: Collection[ExpiryMark] = ()
    """The marks in `unkept` that are old enough."""
    branch_of: Mapping[CommitID, str] = field(default_factory=dict)

    def by_branch(self, ids: Collection[CommitID]) -> dict[str, int]:
        """Return the number of commits per branch for which they were created."""
        return dict(Counter(self.branch_of[each] for each in ids))

    @classmethod
    def make(
        cls, marks: Mapping[CommitID, ExpiryMark], scan: Scan, kept: set[CommitID], old_us: int
    ) -> "_Plan":
        """Decide the outcome of each commit; marks made before `old_us` are old enough."""
        expiring = {
            commit_id: mark for commit_id, mark in marks.items() if mark.message.state == EXPIRING
        }
        unkept = [mark for commit_id, mark in expiring.items() if commit_id not in kept]
        due = [mark for mark in unkept if mark.message.marked_us <= old_us]
        return cls(
            commits=len(scan.commits) - (len(marks) - len(expiring)),
            unmarked=[each for each in scan.commits if each not in kept and each not in marks],
            rescued=[mark for commit_id, mark in expiring.items() if commit_id in kept],
            unkept=unkept,
            due=due,
            branch_of={commit_id: commit.branch for commit_id, commit in scan.commits.items()},
        )


_TICK_SECONDS: Final = 1.0
"""Clouds report object times in whole seconds."""


class Clocks:
    """Comparison of this process's clock with the storage's."""

    def __init__(self, block: BlockStore, runtime: Runtime, settings: CatalogSettings) -> None:
        self._block = block
        self._runtime = runtime
        self._skew_seconds = settings.skew_seconds

    def check(self, repository: Repository) -> None:
        """Raise `ClocksDiffer` if this clock and the storage's differ by over `skew_seconds`."""
        nonce = self._runtime.random_bytes(8).hex()
        address = repository.namespace.address(gc_check_path(repository.unique_id, nonce))
        begun = self._runtime.now()
        self._block.put(address, [b"Written to compare clocks; delete it if you find it.\n"])
        try:
            written = self._block.head(address).mtime.timestamp()
        finally:
            self._block.delete(address)
        # The file was written between the two clock readings.
        ahead = begun - (written + _TICK_SECONDS)
        behind = written - self._runtime.now()
        for seconds, how in ((ahead, "ahead of"), (behind, "behind")):
            if seconds > self._skew_seconds:
                raise ClocksDiffer(seconds, how, self._skew_seconds)


class Retention:
    """Retention rules and expiry of commits; methods raise `RepositoryNotFound`."""

    def __init__(
        self,
        engine: Engine,
        rules: RetentionRecords,
        expirer: Expirer,
        leases: GCLeases,
        clocks: Clocks,
    ) -> None:
        self._engine = engine
        self._rules = rules
        self._expirer = expirer
        self._leases = leases
        self._clocks = clocks

    def find_rules(self, repository_id: RepositoryID) -> RetentionRules | None:
        """Return the rules of a repository, or None if all commits are kept."""
        return self._rules.find(self._engine.repositories.get(repository_id))

    @traced("catalog.set_retention")
    def set_rules(self, repository_id: RepositoryID, rules: RetentionRules) -> None:
        self._rules.set(self._engine.repositories.get(repository_id), rules)
        self._leases.expect_garbage(repository_id)

    @traced("catalog.delete_retention")
    def delete_rules(self, repository_id: RepositoryID) -> None:
        """Remove the rules of a repository, if any."""
        self._rules.delete(self._engine.repositories.get(repository_id))

    @traced("catalog.expire_commits")
    def expire(
        self,
        repository_id: RepositoryID,
        *,
        unique_id: UniqueID | None = None,
        max_share: float,
        dry_run: bool = False,
    ) -> Expiry:
        """Compare clocks, then make a pass of `lakebed.reclaim.expirer`.

        Every garbage collection run begins with it, even without rules.

        Raises:
            RepositoryNotFound: The repository does not exist, or has another unique id.
            ClocksDiffer: The clocks of this server and the storage differ by too much.
            TooManyExpire: More than `max_share` of the commits would expire; none has.
            OutcomeUnknown: The store did not answer: retry.
        """
        repository = self._engine.repositories.get(repository_id)
        if unique_id not in {None, repository.unique_id}:
            raise RepositoryNotFound(repository_id)
        self._clocks.check(repository)
        done = self._expirer.run(repository, max_share=max_share, dry_run=dry_run)
        left_alone = repository.metadata.get(MOVED_NAMESPACE)
        if (done.expired or done.marked) and left_alone and not repository.adopted:
            _LOGGER.warning(
                "commits of repository %s expire without freeing the objects of lakeFS below %s:"
                " adopt them with `lakebed migrate adopt`", repository_id, left_alone,
            )  # fmt: skip
        if done.expired and not dry_run:
            self._leases.expect_garbage(repository_id)
        return done
