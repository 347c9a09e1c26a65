"""Rules that protect branches from staged writes, commits, resets and deletion.

A protected branch changes by merges, and by reverts and cherry-picks, as in lakeFS. With a *strict*
rule it changes by merges only.

Rules are read for every write, never from a cache: once `set` has returned, a new rule holds for
every write that begins after that, and for each put that is staged after that. They are read
together with the other records that a write depends on (`lakebed.engine.reading`).
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
# no branch, but look as if it protected something.
_PATTERN: Final = re.compile(r"[A-Za-z0-9_*?\[\]!-]{1,255}")


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that no name of a branch matches.

    Raises:
        Invalid: It is one.
    """
    if not _PATTERN.fullmatch(pattern):
        raise Invalid(
            f"'{pattern}' cannot match any branch: use letters, digits, hyphens, underscores, and"
            " * ? [a-z] [!a-z]"
        )


@dataclass(frozen=True, slots=True)
class Protection:
    """The rules of a repository as they were read."""

    patterns: tuple[str, ...]
    strict: frozenset[str]
    """Those of the patterns that refuse reverts and cherry-picks too."""
    predicate: Predicate
    """The write that left them; `ABSENT` if there never were any."""

    def check(self, branch: BranchID, *, strict: bool = False) -> None:
        """Refuse to write to a branch, to commit on it or to delete it, if a rule protects it.

        With `strict`, only strict rules count, which refuse reverts and cherry-picks too.

        Raises:
            Protected: One does.
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
        """Return the rules as they are at some moment after this call began."""
        return self._reads.get(repository.partition)

    def set(
        self,
        repository: Repository,
        patterns: Sequence[str],
        *,
        strict: Collection[str] = (),
        predicate: Predicate | None = None,
    ) -> Protection:
        """Replace all rules; return them as they are then.

        Args:
            repository: Whose branches.
            patterns: Glob patterns of branch names: ``*`` any characters, ``?`` one, ``[a-z]`` one
                of these, ``[!a-z]`` one other than these.
            strict: Those of the patterns that are to refuse reverts and cherry-picks too.
            predicate: Only if the rules are still those that were read with it.

        Raises:
            Invalid: A pattern cannot match any branch.
            PreconditionFailed: The rules have changed; nothing was written.
            OutcomeUnknown: They may have been replaced.
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
            raise PreconditionFailed(error.key, "the rules have been changed") from None

    def check(self, repository: Repository, branch: BranchID) -> None:
        """Refuse to write to a branch, to commit on it or to delete it, if a rule protects it.

        Raises:
            Protected: One does.
        """
        self.get(repository).check(branch)

    def check_strict(self, repository: Repository, branch: BranchID) -> None:
        """Refuse a revert or a cherry-pick onto a branch, if a strict rule protects it.

        Raises:
            Protected: One does.
        """
        self.get(repository).check(branch, strict=True)

    def from_item(self, repository: Repository, item: Item | None) -> Protection:
        """Return the rules, given their record as it was read by other means."""
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
