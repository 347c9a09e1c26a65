"""Rules that protect branches from staged writes, commits, resets and deletion.

A protected branch changes only by merges, reverts and cherry-picks, as in lakeFS; with a *strict*
rule, only by merges.

Rules are read for every write, never from a cache: once `set` has returned, a new rule applies to
every write begun later, and to every put staged later. They are read together with the other
records a write depends on (`lakebed.engine.reading`).
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import Invalid, PreconditionFailed, Protected
from lakebed.engine.keys import PROTECTION, PROTECTION_NAME
from lakebed.engine.model import BranchID, Repository
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.kv import ABSENT, Item, Predicate, PredicateFailed, Store
from lakebed.kv.records import Record, Records

# The characters of branch names, and * ? [a-z] [!a-z]. A rule with any other character would match
# no branch, but appear to protect one.
_PATTERN: Final = re.compile(r"[A-Za-z0-9_*?\[\]!-]{1,255}")


def check_pattern(pattern: str) -> None:
    """Raise `Invalid` for a pattern that matches no branch name."""
    if not _PATTERN.fullmatch(pattern):
        raise Invalid(
            f"'{pattern}' cannot match any branch: use letters, digits, hyphens, underscores, and"
            " * ? [a-z] [!a-z]"
        )


@dataclass(frozen=True, slots=True)
class Protection:
    """The rules of a repository, as read."""

    patterns: tuple[str, ...]
    strict: frozenset[str]
    """The patterns that refuse reverts and cherry-picks too."""
    predicate: Predicate
    """The version of the rules; `ABSENT` if never set."""

    def check(self, branch: BranchID, *, strict: bool = False) -> None:
        """Raise `Protected` if a rule forbids writing to a branch, committing or deleting it.

        With `strict`, only strict rules count, which refuse reverts and cherry-picks too.
        """
        for pattern in self.strict if strict else self.patterns:
            if fnmatchcase(branch, pattern):
                raise Protected(branch, pattern)


class BranchProtection:
    """The protection rules of all repositories."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._reads: SharedReads[bytes, Protection] = SharedReads(runtime, self._read)

    def get(self, repository: Repository) -> Protection:
        """Return the rules as of a moment after this call began."""
        return self._reads.get(repository.partition)

    def set(
        self,
        repository: Repository,
        patterns: Sequence[str],
        *,
        strict: Collection[str] = (),
        predicate: Predicate | None = None,
    ) -> Protection:
        """Replace all rules, or only rules with the version `predicate`; return the new rules.

        Patterns are globs of branch names: ``*`` for any characters, ``?`` for one, ``[a-z]`` for
        one in the range, ``[!a-z]`` for one outside. `strict` patterns also refuse reverts and
        cherry-picks.

        Raises:
            Invalid: A pattern cannot match any branch.
            PreconditionFailed: The rules have changed; nothing was written.
            OutcomeUnknown: The rules may have been replaced.
        """
        for pattern in patterns:
            check_pattern(pattern)
        unique = tuple(dict.fromkeys(patterns))

        def replace(message: pb.BranchProtection) -> None:
            known = {rule.pattern: rule.SerializeToString() for rule in message.rules}
            del message.rules[:]
            for pattern in unique:
                rule = message.rules.add()
                rule.ParseFromString(known.get(pattern, b""))
                rule.pattern, rule.strict = pattern, pattern in strict

        records = self._records(repository.partition)
        try:
            return _recorded(records.change(PROTECTION_NAME, replace, predicate=predicate))
        except PredicateFailed as error:
            raise PreconditionFailed(error.key, "the rules have changed: read them again") from None

    def check(self, repository: Repository, branch: BranchID) -> None:
        """Raise `Protected` if a rule forbids writing to a branch, committing or deleting it."""
        self.get(repository).check(branch)

    def check_strict(self, repository: Repository, branch: BranchID) -> None:
        """Raise `Protected` if a strict rule forbids reverts and cherry-picks onto a branch."""
        self.get(repository).check(branch, strict=True)

    def from_item(self, repository: Repository, item: Item | None) -> Protection:
        """Return the rules, given the item of their record."""
        if item is None:
            return _NO_RULES
        return _recorded(self._records(repository.partition).decode(item))

    def _read(self, partition: bytes) -> Protection:
        return _recorded(self._records(partition).find(PROTECTION_NAME))

    def _records(self, partition: bytes) -> Records[pb.BranchProtection]:
        return Records(self._store, PROTECTION, partition)


def _recorded(record: Record[pb.BranchProtection] | None) -> Protection:
    if record is None:
        return _NO_RULES
    return _protection(record.message, record.predicate)


def _protection(message: pb.BranchProtection, predicate: Predicate) -> Protection:
    return Protection(
        tuple(rule.pattern for rule in message.rules),
        frozenset(rule.pattern for rule in message.rules if rule.strict),
        predicate,
    )


_NO_RULES: Final = _protection(pb.BranchProtection(), ABSENT)
