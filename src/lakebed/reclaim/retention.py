"""Retention rules of a repository: how long the data of its commits is kept."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from lakebed.base.runtime import Runtime, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import Invalid
from lakebed.engine.keys import (
    EXPIRY,
    RETENTION,
    RETENTION_NAME,
    RETENTION_SINCE,
    RETENTION_SINCE_NAME,
)
from lakebed.engine.model import BranchID, Repository
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
    """Retention periods of branches.

    Raises:
        Invalid: A period is less than a day or too long, or a pattern can match no branch.
    """

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


def _check_days(what: str, days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        raise Invalid(f"{what} is {days} days: use 1 to {DAYS_MAX}")


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

        def take_away(mark: Record[pb.Expiry]) -> None:
            with suppress(PredicateFailed):  # expired before these rules, or in use
                marks.delete_if(mark.name, mark.predicate)

        self._runtime.map_parallel(take_away, expiring)

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
