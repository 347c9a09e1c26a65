"""What becomes of one commit, and why: the same rules as `keep`, for people who ask."""

from dataclasses import dataclass

from lakebed.engine.expiry_marks import EXPIRED, Mark
from lakebed.engine.model import BranchID, CommitID
from lakebed.reclaim.keep import Scan, Way, by_age, is_young, may_be_in_flight
from lakebed.reclaim.retention_rules import RetentionRules


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
