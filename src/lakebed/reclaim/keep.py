"""Which commits stay, as a function of what a scan of refs and commits has met.

As in lakeFS, for each branch: its head, and going back by first parents, all that is younger than
the period of the branch, and the first one that is older: it is how the branch was when the period
began. Commits that are nobody's first parent and no head are kept for the default period in the
same way, but if they are older themselves, not even they are. Of several ways to a commit, that
with the longest period counts. Ages go by the server's time of storing, and never by the date that
a client gave.

Beside that, these stay:

- what a tag names, or a ref that is just being made, or a branch that is about to be moved there;
- what was stored less than a day before the scan began: it may not be named yet;
- what may be in flight: its branch has its first parent as the head, so that a committer which
  sleeps could still publish it.

`fate_of` says which of these rules keep one commit, for people who ask.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakebed.engine.expiry_marks import EXPIRED, Mark
from lakebed.engine.model import BranchID, CommitID
from lakebed.reclaim.retention import RetentionRules

FLOOR_US: Final = 86_400 * 1_000_000
"""Commits that were stored later than so long before a scan began stay."""

_DAY_US: Final = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """What matters of a commit."""

    first_parent: CommitID | None
    stored_us: int
    branch: BranchID
    """The branch that it was made for; empty: any."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a scan has met: refs first, and commits after them."""

    began_us: int
    heads: Sequence[tuple[BranchID, CommitID]]
    named: frozenset[CommitID]
    """By tags, refs that are being made, and branches that are about to be moved."""
    commits: Mapping[CommitID, StoredCommit]

    @cached_property
    def all_heads(self) -> frozenset[CommitID]:
        """The heads of all branches."""
        return frozenset(head for _, head in self.heads)

    @cached_property
    def heads_of(self) -> frozenset[tuple[BranchID, CommitID]]:
        """The heads, each with its branch."""
        return frozenset(self.heads)


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """A way back through history, by first parents, on which commits stay by their age."""

    oldest_us: int
    """It ends with the first commit that was stored before this."""
    start: CommitID
    branch: BranchID
    """The branch whose head it starts from; empty: no branch leads to its start."""
    days: int
    """The period that it goes by."""


def staying(rules: RetentionRules | None, scan: Scan) -> set[CommitID]:
    """Return the commits that stay; without rules, all."""
    if rules is None:
        return set(scan.commits)
    kept = set(scan.all_heads | scan.named)
    kept.update(
        each for each in scan.commits if is_young(each, scan) or may_be_in_flight(each, scan)
    )
    return kept | by_age(rules, scan).keys()


def is_young(commit_id: CommitID, scan: Scan) -> bool:
    """Whether a commit was stored so late that it may not be named yet."""
    return scan.commits[commit_id].stored_us > scan.began_us - FLOOR_US


def may_be_in_flight(commit_id: CommitID, scan: Scan) -> bool:
    """Whether a committer that sleeps could still publish a commit."""
    commit = scan.commits[commit_id]
    if commit.branch:
        return (commit.branch, commit.first_parent) in scan.heads_of
    return commit.first_parent in scan.all_heads


def by_age(rules: RetentionRules, scan: Scan) -> dict[CommitID, Way]:
    """Return what stays by its age alone, each with the way on which it stays for longest."""
    kept: dict[CommitID, Way] = {}
    # The longest period comes first: so who meets a commit that was met before has nothing to add.
    for way in sorted(_ways(rules, scan)):
        at: CommitID | None = way.start
        while at is not None and at not in kept and at in scan.commits:
            kept[at] = way
            commit = scan.commits[at]
            at = commit.first_parent if commit.stored_us > way.oldest_us else None
    return kept


def _ways(rules: RetentionRules, scan: Scan) -> list[Way]:
    """Return where to begin to go back, and how far."""

    def way(start: CommitID, branch: BranchID, days: int) -> Way:
        return Way(scan.began_us - days * _DAY_US, start, branch, days)

    ways = [way(head, branch, rules.days_of(branch)) for branch, head in scan.heads]
    followed = {commit.first_parent for commit in scan.commits.values()} | scan.all_heads
    dangling = [
        way(commit_id, BranchID(""), rules.default_days)
        for commit_id in scan.commits
        if commit_id not in followed
    ]
    return ways + [each for each in dangling if scan.commits[each.start].stored_us > each.oldest_us]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Why a commit stays or goes."""

    commit_id: CommitID
    has_rules: bool
    """Without rules, every commit stays."""
    head_of: tuple[BranchID, ...]
    is_named: bool
    """By a tag, a ref that is being made, or a branch that is about to be moved there."""
    is_young: bool
    is_in_flight: bool
    """Whether a committer could still publish it."""
    way: Way | None
    """On which it stays by its age."""
    stored_us: int
    marked_us: int
    """When it was marked; 0: it is not."""
    expiring_us: int
    """How long it is marked before it may expire."""
    expired_us: int
    """When it expired; 0: it has not."""

    @property
    def stays(self) -> bool:
        """Whether a pass that looked now would keep it."""
        kept = self.head_of or self.is_named or self.is_young or self.is_in_flight or self.way
        return not self.has_rules or bool(kept)


def fate_of(
    commit_id: CommitID,
    rules: RetentionRules | None,
    scan: Scan,
    mark: Mark | None,
    *,
    expiring_us: int,
) -> Fate:
    """Return what becomes of a commit that the scan has met, by the rules and its mark."""
    is_expired = mark is not None and mark.message.state == EXPIRED
    marked_us = mark.message.marked_us if mark is not None else 0
    return Fate(
        commit_id=commit_id,
        has_rules=rules is not None,
        head_of=tuple(branch for branch, head in scan.heads if head == commit_id),
        is_named=commit_id in scan.named,
        is_young=is_young(commit_id, scan),
        is_in_flight=may_be_in_flight(commit_id, scan),
        way=None if rules is None else by_age(rules, scan).get(commit_id),
        stored_us=scan.commits[commit_id].stored_us,
        marked_us=marked_us,
        expiring_us=expiring_us,
        expired_us=mark.message.expired_us if mark is not None and is_expired else 0,
    )
