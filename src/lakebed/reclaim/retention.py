"""Retention rules of a repository, and which commits stay, as a function of rules, refs, commits.

As in lakeFS, for each branch: its head and, along first parents, all commits younger than the
branch's retention period, and the first older commit: the state of the branch when the period
began. Commits that are neither a first parent nor a head are kept for the default period in the
same way, except when they are older themselves. A commit in several retention windows stays for the
longest period. Ages use the server's time of storing, never a date set by a client.

These commits stay, too:

- commits referenced by a tag, a ref being created, or a branch about to be moved;
- commits stored less than a day before the scan began: their ref may not be written yet;
- commits in flight: the head of their branch is their first parent, so a suspended committer could
  still publish them.

`commit_retention` returns which of these rules keep one commit, for explanations.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final

from lakebed.base.runtime import Runtime, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import Invalid
from lakebed.engine.expiry_marks import EXPIRED, ExpiryMark
from lakebed.engine.keys import (
    EXPIRY,
    RETENTION,
    RETENTION_NAME,
    RETENTION_SINCE,
    RETENTION_SINCE_NAME,
)
from lakebed.engine.model import BranchID, CommitID, Repository
from lakebed.engine.refs.protection import check_pattern
from lakebed.kv import ABSENT, PredicateFailed, Store
from lakebed.kv.records import Record, Records

DAYS_MAX: Final = 36_500
_EXPIRING: Final = pb.EXPIRY_STATE_EXPIRING


@dataclass(frozen=True, slots=True)
class BranchRule:
    """Retention period of some branches."""

    pattern: str
    """A name, or a glob pattern as in a protection rule."""
    days: int


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Retention periods of branches; raises `Invalid` for an invalid period or pattern."""

    default_days: int
    """For branches without a rule, and for commits not reachable from any branch."""
    branches: Sequence[BranchRule] = ()

    def __post_init__(self) -> None:
        _check_days("the default period", self.default_days)
        patterns = [rule.pattern for rule in self.branches]
        for rule in self.branches:
            check_pattern(rule.pattern)
            _check_days(f"the period of '{rule.pattern}'", rule.days)
            if patterns.count(rule.pattern) > 1:
                raise Invalid(f"duplicate rules for '{rule.pattern}': send one")

    def days_of(self, branch: BranchID) -> int:
        """Return the days for a branch: by its name, else the longest matching pattern's."""
        for rule in self.branches:
            if rule.pattern == branch:
                return rule.days
        matching = [rule.days for rule in self.branches if fnmatchcase(branch, rule.pattern)]
        return max(matching, default=self.default_days)


def _check_days(setting: str, days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        raise Invalid(f"{setting} is {days} days: use 1 to {DAYS_MAX}")


class RetentionRecords:
    """Retention rules of all repositories."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime

    def find(self, repository: Repository) -> RetentionRules | None:
        """Return the rules of a repository, or None if all commits are kept."""
        record = self._records(repository).find(RETENTION_NAME)
        if record is None:
            return None
        branches = tuple(BranchRule(each.pattern, each.days) for each in record.message.branches)
        return RetentionRules(record.message.default_days, branches)

    def set(self, repository: Repository, rules: RetentionRules) -> None:
        """Replace the rules of a repository; see `_begin_again`.

        Marks are also removed before the rules are written. If the second removal is missing,
        because the process died or the write has an unknown outcome, a repeat finds equal rules and
        removes no marks. A mark made in between cannot expire by the old rules: it lasts for a day
        (`engine.expiring_seconds`).
        """
        self.counting_since_us(repository)

        def replace(message: pb.Retention) -> None:
            message.default_days = rules.default_days
            known = {each.pattern: each.SerializeToString() for each in message.branches}
            del message.branches[:]
            for rule in rules.branches:
                branch = message.branches.add()
                branch.ParseFromString(known.get(rule.pattern, b""))
                branch.pattern, branch.days = rule.pattern, rule.days

        records = self._records(repository)
        before = records.find(RETENTION_NAME)
        wanted = pb.Retention()
        if before is not None:
            wanted.CopyFrom(before.message)
        replace(wanted)
        if before is None or before.message != wanted:
            self._begin_again(repository)
        after = records.change(RETENTION_NAME, replace)
        if before is None or before.message != after.message:
            self._begin_again(repository)

    def delete(self, repository: Repository) -> None:
        """Remove the rules of a repository, if any: all commits are kept from then on."""
        self._records(repository).delete(RETENTION_NAME)
        self._begin_again(repository)

    def _begin_again(self, repository: Repository) -> None:
        """Remove the marks of unexpired commits, before or after rules are written.

        A pass may be about to expire commits by the old rules. Its compare-and-swaps of the marks
        then fail. Passes that begin later read the new rules.
        """
        marks = Records(self._store, EXPIRY, repository.partition)
        expiring = [each for each in marks.scan_readable() if each.message.state == _EXPIRING]

        def unmark(mark: Record[pb.Expiry]) -> None:
            with suppress(PredicateFailed):  # expired before these rules, or in use
                marks.delete_if(mark.name, mark.predicate)

        self._runtime.map_parallel(unmark, expiring)

    def counting_since_us(self, repository: Repository) -> int:
        """Return the time from which commits without a time of storing are aged.

        Commits of older versions have none. The time of the first call is recorded once.
        """
        records = Records(self._store, RETENTION_SINCE, repository.partition)
        found = records.find(RETENTION_SINCE_NAME)
        if found is not None:
            return found.message.since_us
        message = pb.RetentionSince(since_us=now_us(self._runtime))
        try:
            records.set_if(RETENTION_SINCE_NAME, message, ABSENT)
        except PredicateFailed:
            return records.get(RETENTION_SINCE_NAME).message.since_us
        return message.since_us

    def _records(self, repository: Repository) -> Records[pb.Retention]:
        return Records(self._store, RETENTION, repository.partition)


FLOOR_US: Final = 86_400 * 1_000_000
"""Commits stored less than this before a scan began stay."""

_DAY_US: Final = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """The fields of a commit that decide its retention."""

    first_parent: CommitID | None
    stored_us: int
    branch: BranchID
    """The branch for which the commit was created; empty: any."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Result of a scan: refs first, commits after them."""

    began_us: int
    heads: Sequence[tuple[BranchID, CommitID]]
    named: frozenset[CommitID]
    """Commits referenced by tags, refs being created, or branches about to be moved there."""
    commits: Mapping[CommitID, StoredCommit]

    @cached_property
    def all_heads(self) -> frozenset[CommitID]:
        return frozenset(head for _, head in self.heads)

    @cached_property
    def heads_of(self) -> frozenset[tuple[BranchID, CommitID]]:
        return frozenset(self.heads)


@dataclass(frozen=True, slots=True, order=True)
class RetentionWindow:
    """Part of history, along first parents, in which commits stay by their age."""

    oldest_us: int
    """The window ends with the first commit stored before this time."""
    start: CommitID
    branch: BranchID
    """The branch whose head is `start`; empty if no branch leads to `start`."""
    days: int
    """Retention period."""


def kept_commits(rules: RetentionRules | None, scan: Scan) -> set[CommitID]:
    """Return the commits that stay; without rules, all."""
    if rules is None:
        return set(scan.commits)
    kept = set(scan.all_heads | scan.named)
    kept.update(
        each for each in scan.commits if is_recent(each, scan) or may_be_in_flight(each, scan)
    )
    return kept | kept_by_age(rules, scan).keys()


def is_recent(commit_id: CommitID, scan: Scan) -> bool:
    """Return whether a commit is so recent that its ref may not be written yet."""
    return scan.commits[commit_id].stored_us > scan.began_us - FLOOR_US


def may_be_in_flight(commit_id: CommitID, scan: Scan) -> bool:
    """Return whether a suspended committer could still publish a commit."""
    commit = scan.commits[commit_id]
    if commit.branch:
        return (commit.branch, commit.first_parent) in scan.heads_of
    return commit.first_parent in scan.all_heads


def kept_by_age(rules: RetentionRules, scan: Scan) -> dict[CommitID, RetentionWindow]:
    """Return the commits that stay by age, each with its longest window."""
    kept: dict[CommitID, RetentionWindow] = {}
    # The longest period comes first: a window that meets a visited commit has nothing to add.
    for window in sorted(_windows(rules, scan)):
        at: CommitID | None = window.start
        while at is not None and at not in kept and at in scan.commits:
            kept[at] = window
            commit = scan.commits[at]
            at = commit.first_parent if commit.stored_us > window.oldest_us else None
    return kept


def _windows(rules: RetentionRules, scan: Scan) -> list[RetentionWindow]:
    """Return the retention windows of heads and dangling commits."""

    def window(start: CommitID, branch: BranchID, days: int) -> RetentionWindow:
        return RetentionWindow(scan.began_us - days * _DAY_US, start, branch, days)

    windows = [window(head, branch, rules.days_of(branch)) for branch, head in scan.heads]
    followed = {commit.first_parent for commit in scan.commits.values()} | scan.all_heads
    dangling = [
        window(commit_id, BranchID(""), rules.default_days)
        for commit_id in scan.commits
        if commit_id not in followed
    ]
    return windows + [
        each for each in dangling if scan.commits[each.start].stored_us > each.oldest_us
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRetention:
    """Why a commit stays or expires."""

    commit_id: CommitID
    has_rules: bool
    """Without rules, every commit stays."""
    head_of: tuple[BranchID, ...]
    is_referenced: bool
    """Whether a tag, a ref being created, or a branch about to be moved references it."""
    is_recent: bool
    is_in_flight: bool
    """Whether a committer could still publish it."""
    window: RetentionWindow | None
    """Window in which the commit stays by its age."""
    stored_us: int
    marked_us: int
    """Time of its expiry mark; 0 if it has none."""
    expiring_us: int
    """How long a mark has to be EXPIRING before the commit may expire."""
    expired_us: int
    """Time of expiry; 0 if it has not expired."""

    @property
    def stays(self) -> bool:
        """Whether a pass would keep the commit now."""
        kept = (
            self.head_of or self.is_referenced or self.is_recent or self.is_in_flight or self.window
        )
        return not self.has_rules or bool(kept)


def commit_retention(
    commit_id: CommitID,
    rules: RetentionRules | None,
    scan: Scan,
    mark: ExpiryMark | None,
    *,
    expiring_us: int,
) -> CommitRetention:
    """Return why a scanned commit stays or expires, by the rules and its mark."""
    is_expired = mark is not None and mark.message.state == EXPIRED
    marked_us = mark.message.marked_us if mark is not None else 0
    return CommitRetention(
        commit_id=commit_id,
        has_rules=rules is not None,
        head_of=tuple(branch for branch, head in scan.heads if head == commit_id),
        is_referenced=commit_id in scan.named,
        is_recent=is_recent(commit_id, scan),
        is_in_flight=may_be_in_flight(commit_id, scan),
        window=None if rules is None else kept_by_age(rules, scan).get(commit_id),
        stored_us=scan.commits[commit_id].stored_us,
        marked_us=marked_us,
        expiring_us=expiring_us,
        expired_us=mark.message.expired_us if mark is not None and is_expired else 0,
    )
