"""What branches, tags, commits and staged keys really were, at every step of a simulation.

The answers that actors get are compared with this. It sees every write to the store as it is
applied, whoever made it, so it also checks what no answer shows: each swap of a branch, by
the rule of publishing, and each key that is deleted from a token.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import LEFTOVERS
from lakebed.engine.keys import BRANCHES, COMMITS, LIVE, STAGED_PREFIX, TAGS
from lakebed.engine.staging.cells import TOMBSTONE, decode, has_proposal, parse_proposed, value_of
from lakebed.kv import Item
from lakebed.testing.simulation.history import ABSENT
from lakebed.testing.simulation.simulator import Simulation

PLAIN_COMMIT: Final = "a commit of what is staged"
"""The message of all commits that actors make by `commit`."""

Shown = Mapping[bytes, str]
"""Values by key, without those that are not there."""

Held = Callable[[bytes, str], Shown]
"""What a commit of a partition holds."""


@dataclass
class Version:
    """A ref, and the steps during which it did not change."""

    partition: bytes
    name: str
    unique_id: str
    commit_id: str
    tokens: tuple[str, ...]
    """For a branch, newest first; empty for a tag."""
    since: int
    until: int = 1 << 60

    def meets(self, began: int, ended: int) -> bool:
        return self.since <= ended and self.until >= began


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """A value that was written under a token, and by whom."""

    step: int
    value: str | None
    task: object
    version: Version | None
    """The branch whose staging token it was then."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value that a conditional write proposed, and its owner."""

    step: int
    value: bytes
    beside: bytes | None
    """The value in the cell, or None if nothing is staged."""
    task: object
    version: Version | None
    """The branch as it was when the condition was judged."""


class Truth:
    """Follows the writes to all partitions except the one with repository records."""

    def __init__(
        self,
        simulation: Simulation,
        violation: Callable[[str], None],
        is_there: Callable[[bytes], bool],
    ) -> None:
        self.versions: dict[tuple[bytes, bytes], list[Version]] = defaultdict(list)
        """All versions of each ref, by partition and key."""
        self.commits: dict[bytes, dict[str, pb.Commit]] = defaultdict(dict)
        """All commit records that ever existed, by partition and id."""
        self.disowned: dict[bytes, float] = {}
        """When partitions lost their owner."""
        self.written: dict[tuple[bytes, bytes], float] = {}
        """When keys were written last."""
        self.was_late = False
        """Whether any proposal was confirmed after the branch had changed: before, readers may have
        been shown something else."""
        self._simulation = simulation
        self._violation = violation
        self._is_there = is_there
        # For each token: who names it now, which branch it was made for, when it was sealed.
        self._naming: dict[str, Version] = {}
        self._home: dict[str, tuple[bytes, str, str]] = {}
        self._sealed_at: dict[str, int] = {}
        self._staged: dict[tuple[str, bytes], list[StagedWrite]] = defaultdict(list)
        self._proposals: dict[tuple[str, bytes], Proposal] = {}
        self._by_record: dict[bytes, Version] = {}
        # The first version of any branch to have a certain head: the one whose writer made it.
        self._first_heads: dict[tuple[bytes, str], Version] = {}
        self._swaps: list[tuple[Version, Version]] = []

    # Following

    def applied(self, partition: bytes, key: bytes, item: Item | None) -> None:
        """Take note of what a write left, or that a key was deleted."""
        value = None if item is None else item.value
        if value is not None:
            self.written[partition, key] = self._simulation.seconds
        if b":" in partition and key.startswith(STAGED_PREFIX):
            self._follow_staged(partition.decode(), key, item)
        elif key.startswith(BRANCHES.prefix):
            branch = None if value is None else pb.Branch.FromString(value)
            self._follow_branch(partition, key, branch if branch and branch.state == LIVE else None)
            if item is not None and self.versions[partition, key]:
                self._by_record[item.predicate] = self.versions[partition, key][-1]
            self._check_one_kind(partition, key.removeprefix(BRANCHES.prefix))
        elif key.startswith(TAGS.prefix):
            tag = None if value is None else pb.Tag.FromString(value)
            self._follow_tag(partition, key, tag if tag and tag.state == LIVE else None)
            self._check_one_kind(partition, key.removeprefix(TAGS.prefix))
        elif key.startswith(COMMITS.prefix) and value is not None:
            commit_id = key.removeprefix(COMMITS.prefix).decode()
            self.commits[partition][commit_id] = pb.Commit.FromString(value)

    def disown(self, partition: bytes) -> None:
        """Take note that the repository of a partition is gone."""
        self._disown(partition)
        for version in list(self._naming.values()):
            if version.partition == partition:
                for token in version.tokens:
                    self._disown(token.encode())

    def _disown(self, partition: bytes) -> None:
        self.disowned.setdefault(partition, self._simulation.seconds)

    def _follow_staged(self, token: str, key: bytes, item: Item | None) -> None:
        naming, path = self._naming.get(token), key.removeprefix(STAGED_PREFIX)
        value, proposal = value_of(item), self._proposals.pop((token, path), None)
        if has_proposal(item):
            assert item is not None
            self._follow_proposal(token, path, item, value)
        elif proposal is not None and value == proposal.beside:
            return  # it was taken away
        elif value is not None:
            task, step = self._simulation.current_task, self._simulation.step
            current = naming if naming and naming.tokens[0] == token else None
            if proposal is not None and value == proposal.value:
                if task is proposal.task:
                    current = proposal.version
                    step = self._check_confirmed(token, path, proposal)
                elif value != TOMBSTONE:
                    self._violation(f"the proposal for {path!r} was confirmed by another task")
            write = StagedWrite(step, _shown(path, value), task, current)
            self._staged[token, path].append(write)
        elif naming is not None and self._is_there(naming.partition):
            self._violation(f"{key!r} was deleted from {token}, which {naming} names")

    def _follow_proposal(self, token: str, path: bytes, item: Item, beside: bytes | None) -> None:
        proposed = parse_proposed(item.key, item.value)
        self._proposals[token, path] = Proposal(
            self._simulation.step,
            proposed.proposal.SerializeToString(),
            beside,
            self._simulation.current_task,
            self._by_record.get(proposed.branch_version),
        )
        before = self._staged.get((token, path), [])
        was = before[-1].value if before else "nothing"
        now = "nothing" if beside is None else _shown(path, beside)
        if was != now:
            self._violation(f"a proposal made of {was}, staged for {path!r} in {token}, {now}")

    def _check_confirmed(self, token: str, path: bytes, proposal: Proposal) -> int:
        """Check a confirmation; return the step at which the write took effect, at the latest."""
        version, now = proposal.version, self._simulation.step
        if version is None or version.tokens[0] != token or version.until <= proposal.step:
            self._violation(f"the proposal for {path!r} was confirmed, but came after {version}")
            return now
        self.was_late |= version.until <= now
        return min(now, version.until - 1)

    def _follow_tag(self, partition: bytes, key: bytes, tag: pb.Tag | None) -> None:
        name = key.removeprefix(TAGS.prefix).decode()
        after = None
        if tag is not None:
            after = Version(partition, name, "", tag.commit_id, (), self._simulation.step)
        self._succeed(partition, key, after)

    def _check_one_kind(self, partition: bytes, name: bytes) -> None:
        now = self._simulation.step + 1
        keys = (BRANCHES.prefix + name, TAGS.prefix + name)
        if all(any(each.meets(now, now) for each in self.versions[partition, key]) for key in keys):
            self._violation(f"{name!r} is the name of a branch and of a tag")

    def _follow_branch(self, partition: bytes, key: bytes, branch: pb.Branch | None) -> None:
        name = key.removeprefix(BRANCHES.prefix).decode()
        after = None
        if branch is not None:
            tokens = (branch.staging_token, *branch.sealed_tokens)
            after = Version(
                partition, name, branch.unique_id, branch.commit_id, tokens, self._simulation.step
            )
        before = self._succeed(partition, key, after)
        kept = set(after.tokens) if after else set()
        for token in before.tokens if before else ():
            if token not in kept:
                del self._naming[token]
                self._disown(token.encode())
        if after is not None:
            self._first_heads.setdefault((partition, after.commit_id), after)
            self._name_tokens(after)
            if before is not None:
                self._swaps.append((before, after))

    def _succeed(self, partition: bytes, key: bytes, after: Version | None) -> Version | None:
        """End the current version of a ref and begin a new one; return the old one."""
        versions = self.versions[partition, key]
        before = versions[-1] if versions and versions[-1].until > self._simulation.step else None
        if before is not None:
            before.until = self._simulation.step
        if after is not None:
            versions.append(after)
        return before

    def _name_tokens(self, version: Version) -> None:
        home = (version.partition, version.name, version.unique_id)
        for token in version.tokens:
            if self._home.setdefault(token, home) != home:
                self._violation(f"{token} of {self._home[token]} is named by {version}")
            if token.encode() in self.disowned and self._is_there(version.partition):
                self._violation(f"{token}, which was dropped, is named again by {version}")
            self._naming[token] = version
            if not self._is_there(version.partition):
                self._disown(token.encode())
        for token in version.tokens[1:]:
            self._sealed_at.setdefault(token, self._simulation.step)

    # Judging

    def branch_versions(self, partition: bytes, branch: str) -> list[Version]:
        return self.versions.get((partition, BRANCHES.prefix + branch.encode()), [])

    def of_partition(self, partition: bytes, prefix: bytes) -> Iterator[list[Version]]:
        """Iterate over the versions of each ref of a kind that a repository ever had."""
        for (where, key), versions in self.versions.items():
            if versions and where == partition and key.startswith(prefix):
                yield versions

    def became_head(
        self, partitions: Iterable[bytes], branch: str, commit_id: str, began: int
    ) -> bool:
        """Whether a commit was made the head of a branch, after some step."""
        return any(
            before.commit_id != commit_id == after.commit_id and after.since >= began
            for partition in partitions
            for before, after in pairwise(self.branch_versions(partition, branch))
        )

    def allows(
        self,
        partition: bytes,
        branch: str,
        shown: Mapping[bytes, str | None],
        span: tuple[int, int],
        held: Held,
    ) -> bool:
        """Whether a read of one record of a branch may show all of this in a span of steps.

        Args:
            partition: Of the repository.
            branch: Which branch.
            shown: What keys were shown as.
            span: When the read began and when it ended.
            held: What commits hold.
        """
        return any(
            all(self._may_show(version, version.tokens, each, span, held) for each in shown.items())
            for version in self.branch_versions(partition, branch)
            if version.meets(*span)
        )

    def _may_show(
        self,
        version: Version,
        tokens: tuple[str, ...],
        shown: tuple[bytes, str | None],
        span: tuple[int, int],
        held: Held,
    ) -> bool:
        """Whether a reader of some tokens, newest first, and then of a head may see this value.

        Keys that the Cleaner deleted count as there: only a read that is too long misses them.
        """
        key, value = shown
        began, ended = span
        for token in tokens:
            writes = self._staged.get((token, key), [])
            before = [write.value for write in writes if write.step < began]
            during = [write.value for write in writes if began <= write.step <= ended]
            if value in before[-1:] + during:
                return True
            if before:
                return False
        return held(version.partition, version.commit_id).get(key) == value

    def last_staged(self, key: bytes, task: object, began: int) -> StagedWrite | None:
        """The last value that a task staged for a key, after some step."""
        writes = [
            write
            for (_, path), writes in self._staged.items()
            if path == key
            for write in writes
            if write.task is task and write.step >= began
        ]
        return max(writes, key=lambda write: write.step, default=None)

    def stands(self, write: StagedWrite, key: bytes) -> bool:
        """Whether the branch has not changed since a write, and nobody wrote the key again."""
        version = write.version
        if version is None or version.until <= self._simulation.step:
            return False
        return self._staged[version.tokens[0], key][-1] is write

    def shown_before(self, write: StagedWrite, key: bytes, held: Held) -> set[str | None]:
        """What a reader who ignores the written value may have seen just before a write.

        A write to a sealed token, which nobody acknowledges, may have come after the writer
        looked there.
        """
        assert write.version is not None
        seen: set[str | None] = set()
        for token in write.version.tokens:
            writes = self._staged.get((token, key), [])
            for each in reversed([each for each in writes if each.step < write.step]):
                if each.value == write.value:
                    break
                seen.add(each.value)
                if each.version is not None:
                    return seen
        return seen | {self.shown_by_head(write, key, held)}

    def shown_by_head(self, write: StagedWrite, key: bytes, held: Held) -> str | None:
        """What the head of the branch had for a key when it was staged."""
        assert write.version is not None
        return held(write.version.partition, write.version.commit_id).get(key, ABSENT)

    def may_see(
        self, partition: bytes, branch: str, key: bytes, span: tuple[int, int], held: Held
    ) -> set[str | None]:
        """Return all that reads of a key in a span of steps may show."""
        values = {
            write.value for (_, path), each in self._staged.items() for write in each if path == key
        }
        heads = [
            version for version in self.branch_versions(partition, branch) if version.meets(*span)
        ]
        values |= {held(partition, version.commit_id).get(key) for version in heads}
        return {
            value
            for value in values | {ABSENT}
            if self.allows(partition, branch, {key: value}, span, held)
        }

    def staged_values(self) -> set[str | None]:
        """Return all values that were ever visible in any token."""
        return {write.value for writes in self._staged.values() for write in writes}

    def check_swaps(self, keys: Iterable[bytes], held: Held) -> None:
        """Check every swap of a branch by the rule of publishing.

        A commit holds the head that it replaces, changed by the tokens that it removes. Any other
        removal of tokens must change nothing (except a reset, which takes a new staging token).
        """
        for before, after in self._swaps:
            if before.unique_id != after.unique_id:
                self._violation(f"{before} was replaced by {after}, which is another branch")
            if before.tokens[0] == after.tokens[0]:
                self._check_swap(before, after, keys, held)
            elif after.commit_id != before.commit_id or after.tokens[1:] not in {
                before.tokens,
                (),
            }:
                self._violation(f"{before} became {after}: neither sealed nor reset")

    def _check_swap(
        self, before: Version, after: Version, keys: Iterable[bytes], held: Held
    ) -> None:
        left = len(after.tokens)
        removed = before.tokens[left:]
        if before.tokens[:left] != after.tokens:
            self._violation(f"{before} became {after}: only the oldest tokens may go")
        result = before.commit_id
        made = self.commits[after.partition][after.commit_id]
        if after is self._first_heads[after.partition, after.commit_id]:
            if made.parents[:1] != [before.commit_id]:
                self._violation(f"the first parent of {made} is not the head of {before}")
            if made.message in {PLAIN_COMMIT, LEFTOVERS.message}:
                result = after.commit_id
        if not removed:
            return
        span = (self._sealed_at[removed[0]], after.since)
        contents = held(after.partition, result)
        for key in keys:
            shown = (key, contents.get(key, ABSENT))
            if not self._may_show(before, removed, shown, span, held):
                self._violation(f"{before} became {after}, and {key!r} became {shown[1]}")


def _shown(path: bytes, value: bytes) -> str | None:
    entry = decode(path, value)
    return ABSENT if entry is None else entry.address
