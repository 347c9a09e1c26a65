"""Rules that decide which commits stay, as a function of a scan of refs and commits.

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
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakebed.engine.expiry_marks import EXPIRED, Mark
from lakebed.engine.model import BranchID, CommitID
from lakebed.reclaim.retention import RetentionRules

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
        each for each in scan.commits if is_young(each, scan) or may_be_in_flight(each, scan)
    )
    return kept | kept_by_age(rules, scan).keys()


def is_young(commit_id: CommitID, scan: Scan) -> bool:
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
    is_young: bool
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
            self.head_of or self.is_referenced or self.is_young or self.is_in_flight or self.window
        )
        return not self.has_rules or bool(kept)


def commit_retention(
    commit_id: CommitID,
    rules: RetentionRules | None,
    scan: Scan,
    mark: Mark | None,
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
        is_young=is_young(commit_id, scan),
        is_in_flight=may_be_in_flight(commit_id, scan),
        window=None if rules is None else kept_by_age(rules, scan).get(commit_id),
        stored_us=scan.commits[commit_id].stored_us,
        marked_us=marked_us,
        expiring_us=expiring_us,
        expired_us=mark.message.expired_us if mark is not None and is_expired else 0,
    )
