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
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.engine.model import BranchID, CommitID
from lakebed.engine.retention.rules import RetentionRules

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan has met: refs first, and commits after them."""

    began_us: int
    heads: Sequence[tuple[BranchID, CommitID]]
    named: frozenset[CommitID]
    """By tags, refs that are being made, and branches that are about to be moved."""
    commits: Mapping[CommitID, StoredCommit]


def staying(rules: RetentionRules | None, scan: Scan) -> set[CommitID]:
    """Return the commits that stay; without rules, all."""
    if rules is None:
        return set(scan.commits)
    kept = {head for _, head in scan.heads} | scan.named
    young_us = scan.began_us - FLOOR_US
    heads_of: dict[BranchID, set[CommitID]] = {}
    for branch, head in scan.heads:
        heads_of.setdefault(branch, set()).add(head)
    all_heads = {head for _, head in scan.heads}
    for commit_id, commit in scan.commits.items():
        heads = heads_of.get(commit.branch, set()) if commit.branch else all_heads
        if commit.stored_us > young_us or commit.first_parent in heads:
            kept.add(commit_id)
    return kept | _by_age(rules, scan)


def _by_age(rules: RetentionRules, scan: Scan) -> set[CommitID]:
    """Return what stays by its age alone."""
    kept: set[CommitID] = set()
    # The longest period comes first: so who meets a commit that was met before has nothing to add.
    for oldest_us, start in sorted(_starts(rules, scan)):
        at: CommitID | None = start
        while at is not None and at not in kept and at in scan.commits:
            kept.add(at)
            commit = scan.commits[at]
            at = commit.first_parent if commit.stored_us > oldest_us else None
    return kept


def _starts(rules: RetentionRules, scan: Scan) -> list[tuple[int, CommitID]]:
    """Return where to begin to go back, and how far: to the first commit older than that."""
    starts = [(scan.began_us - rules.days_of(b) * _DAY_US, head) for b, head in scan.heads]
    default_us = scan.began_us - rules.default_days * _DAY_US
    followed = {commit.first_parent for commit in scan.commits.values()}
    followed.update(head for _, head in scan.heads)
    starts += [
        (default_us, commit_id)
        for commit_id, commit in scan.commits.items()
        if commit_id not in followed and commit.stored_us > default_us
    ]
    return starts
