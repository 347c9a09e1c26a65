"""Garbage collection in the model: the server's preparation and the job, both step by step.

Each time, a clean and an optimized run are computed from the same preparation and listing, and must
agree; one of them deletes.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace

from lakebed.block import Namespace
from lakebed.formats import AddressType
from lakebed.formats.object_paths import ObjectPath
from lakebed.reclaim.collector import rules
from lakebed.reclaim.collector.rules import Judged, ObservationTimes, ScannedObject, State, Verdict
from tests.simulation.gc_world import (
    GAP,
    MIN_AGE,
    PARTITION_OPEN,
    SKEW,
    Entry,
    GCWorld,
    Pause,
    Process,
    Steps,
)

NAMESPACE = Namespace.parse("s3://bucket/lake")

LAG = 60
"""How long a listing may miss an object that was just written (as on a network file system), or one
that was lost and brought back."""
MISSED = 0.2


class DisagreementError(AssertionError):
    """Clean and optimized runs found different garbage."""


@dataclass(frozen=True, slots=True)
class Preparation:
    repository_uid: str
    repository_uids: frozenset[str]
    times: ObservationTimes
    uncommitted: frozenset[str]
    commits: dict[int, frozenset[str]]


def path_of(entry: Entry) -> str | None:
    """The canonical path of an entry's address, as the job computes it."""
    if entry.path is None:
        return None
    if entry.whole:
        return rules.canonical_path(str(NAMESPACE.address(entry.path)), AddressType.FULL, NAMESPACE)
    return rules.canonical_path(entry.path, AddressType.RELATIVE, NAMESPACE)


def prepare(world: GCWorld, process: Process) -> Generator[Pause, None, Preparation | None]:
    """Read in the order in which entries move; None if the repository is gone."""
    uid, adopted = world.repository_uid, world.adopted
    began = world.now + process.offset
    yield
    uncommitted = set((yield from read_uploads(world)))
    uncommitted |= yield from read_staging(world)
    commits = yield from read_commits(world)
    if uid is None or not is_active(world, uid):
        return None
    cutoff = began - MIN_AGE - SKEW
    times = ObservationTimes(
        began_us=began,
        ended_us=world.now + process.offset,
        cutoff_us=cutoff,
        closed_before_us=cutoff - PARTITION_OPEN,
        gap_us=GAP,
    )
    return Preparation(uid, frozenset({uid, *adopted}), times, frozenset(uncommitted), commits)


def is_active(world: GCWorld, repository_uid: str) -> bool:
    return world.repository_uid == repository_uid


def read_uploads(world: GCWorld) -> Generator[Pause, None, set[str]]:
    paths = set(world.multiparts)
    yield
    paths |= set(world.links)
    yield
    return paths


def read_staging(world: GCWorld) -> Generator[Pause, None, set[str]]:
    uncommitted: set[str] = set()
    for name in sorted(world.branches):
        branch = world.branches.get(name)
        yield
        for token in branch.tokens if branch is not None else ():
            uncommitted |= staged_paths(world, token)
            yield
    return uncommitted


def staged_paths(world: GCWorld, token: int) -> set[str]:
    entries = list(world.staged.get(token, {}).values())
    paths = {*map(path_of, entries), *(entry.replaced for entry in entries)}
    return {path for path in paths if path is not None}


def read_commits(world: GCWorld) -> Generator[Pause, None, dict[int, frozenset[str]]]:
    found: dict[int, frozenset[str]] = {}
    numbers = sorted(world.commits)
    for chunk in (numbers[::2], numbers[1::2]):
        for number in chunk:
            if number in world.commits:
                paths = map(path_of, world.commits[number].entries.values())
                found[number] = frozenset(filter(None, paths))
        yield
    return found


@dataclass
class Collector:
    """The job, with what it keeps between runs: a state for each kind of run."""

    world: GCWorld
    clean_state: State | None = None
    optimized_state: State | None = None
    state_uid: str | None = None
    deletions: int = 0
    trouble: float = 0.05
    """How likely a run is to die or to be a dry run, and the storage to refuse."""

    def run(self, process: Process) -> Steps:
        self.forget_state_of_others()
        states = self.clean_state, self.optimized_state
        yield
        prepared = yield from prepare(self.world, process)
        if prepared is None or not self.owns(prepared) or not self.is_latest(states):
            return False
        prepared = self.sparing_more(prepared)
        listed = yield from self.list_objects(prepared)
        clean = self.judge_clean(states[0], prepared, listed)
        optimized = self.judge_optimized(states[1], prepared, listed)
        self.compare(candidates(clean), candidates(optimized))
        if self.meets_trouble() or not self.is_latest(states):
            return True  # a dry run, or another run was faster
        deleted = yield from self.sweep(prepared, rules.due(clean, prepared.times))
        if self.meets_trouble() or not self.owns(prepared) or not self.is_latest(states):
            return False
        self.clean_state = self.advance(None, prepared, clean, deleted)
        known = states[1] if may_optimize(states[1], prepared) else None
        self.optimized_state = self.advance(known, prepared, optimized, deleted)
        return True

    def run_quiet(self, process: Process) -> Steps:
        """A run for a repository that nobody writes to: two looks at once, for any age."""
        self.forget_state_of_others()
        state = self.clean_state
        prepared = yield from prepare(self.world, process)
        if prepared is None or not self.owns(prepared) or self.world.links or self.world.multiparts:
            return False
        listed = yield from self.list_objects(prepared)
        times = replace(prepared.times, cutoff_us=1 << 62)
        judged = self.judge_clean(state, replace(prepared, times=times), listed)
        again = yield from prepare(self.world, process)
        if again is None or (again.uncommitted, again.commits) != (
            prepared.uncommitted,
            prepared.commits,
        ):
            return False
        found = candidates(judged)
        deleted = yield from self.sweep(prepared, found)
        # As after a run that deletes what an earlier run found: no state keeps deleted objects.
        left = [one for one in judged if one.stored.path not in deleted]
        self.clean_state = self.advance(None, prepared, left, deleted)
        self.optimized_state = self.advance(None, prepared, left, deleted)
        return True

    def sparing_more(self, prepared: Preparation) -> Preparation:
        """Sometimes the operator asks for a higher age than the server does."""
        if self.world.random.random() < 0.8:
            return prepared
        more = self.world.random.randint(0, MIN_AGE)
        times = prepared.times
        times = replace(
            times,
            cutoff_us=times.cutoff_us - more,
            closed_before_us=times.closed_before_us - more,
        )
        return replace(prepared, times=times)

    def forget_state_of_others(self) -> None:
        if self.state_uid != self.world.repository_uid:
            self.clean_state = self.optimized_state = None
            self.state_uid = self.world.repository_uid

    def is_latest(self, states: tuple[State | None, State | None]) -> bool:
        """Whether no other run was faster."""
        return states[0] is self.clean_state and states[1] is self.optimized_state

    def owns(self, prepared: Preparation) -> bool:
        return self.world.owner == prepared.repository_uid

    def sweep(self, prepared: Preparation, due: list[Judged]) -> Generator[Pause, None, set[str]]:
        deleted: set[str] = set()
        for judged in due:
            if not self.owns(prepared):
                break
            if self.meets_trouble():
                continue  # the storage refuses: it stays a candidate
            self.world.delete_object(judged.stored.path)
            deleted.add(judged.stored.path)
            self.deletions += 1
            yield
        return deleted

    def meets_trouble(self) -> bool:
        return self.world.random.random() < self.trouble

    def list_objects(
        self, prepared: Preparation
    ) -> Generator[Pause, None, dict[str, ScannedObject]]:
        listed: dict[str, ScannedObject] = {}
        folders = sorted({path.rpartition("/")[0] for path in self.world.objects})
        for folder in folders:
            for path, mtime in self.world.objects.items():
                if not path.startswith(folder + "/") or self.misses(mtime):
                    continue
                if one := self.stored(prepared, path, mtime):
                    listed[path] = one
            yield
        return listed

    def misses(self, mtime: int) -> bool:
        return self.world.now - mtime < LAG and self.world.random.random() < MISSED

    @staticmethod
    def stored(prepared: Preparation, path: str, mtime: int) -> ScannedObject | None:
        parts = ObjectPath.parse(path)
        if parts is None or parts.repository_uid not in prepared.repository_uids:
            return None
        return rules.stored_object(path, size=1, mtime_us=mtime)

    @staticmethod
    def judge_clean(
        state: State | None, prepared: Preparation, listed: dict[str, ScannedObject]
    ) -> list[Judged]:
        judged = rules.judge(
            listed.values(),
            committed=all_named(prepared),
            uncommitted=prepared.uncommitted,
            state=state,
            times=prepared.times,
        )
        return list(judged)

    @staticmethod
    def judge_optimized(
        state: State | None, prepared: Preparation, listed: dict[str, ScannedObject]
    ) -> list[Judged]:
        observed = list(listed.values())
        if state is not None and may_optimize(state, prepared):
            in_open = [one for one in observed if not rules.is_closed(one, state)]
            observed = list(rules.observed_objects(state, in_open))
        judged = rules.judge(
            observed,
            committed=optimized_named(state, prepared),
            uncommitted=prepared.uncommitted,
            state=state,
            times=prepared.times,
        )
        return list(judged)

    @staticmethod
    def advance(
        state: State | None, prepared: Preparation, judged: list[Judged], deleted: set[str]
    ) -> State:
        return rules.next_state(
            judged,
            deleted=deleted,
            repository_uids=prepared.repository_uids,
            commits={str(number) for number in prepared.commits},
            state=state,
            times=prepared.times,
        )

    def compare(self, clean: list[Judged], optimized: list[Judged]) -> None:
        """Both kinds agree on existing objects, except those written late to closed partitions.

        An optimized run may still know objects there that a run deleted before it died.
        """
        mine, others = (
            {
                (one.stored.path, one.found_us)
                for one in judged
                if one.stored.path in self.world.objects
                and one.stored.path not in self.world.late_objects
            }
            for judged in (clean, optimized)
        )
        if mine != others:
            raise DisagreementError(f"clean only {mine - others}, optimized only {others - mine}")


def may_optimize(state: State | None, prepared: Preparation) -> bool:
    return rules.may_optimize(
        state, began_us=prepared.times.began_us, repository_uids=prepared.repository_uids
    )


def all_named(prepared: Preparation) -> set[str]:
    return set().union(*prepared.commits.values())


def optimized_named(state: State | None, prepared: Preparation) -> set[str]:
    if state is None or not may_optimize(state, prepared):
        return all_named(prepared)
    new = [paths for number, paths in prepared.commits.items() if str(number) not in state.commits]
    return set().union(*new) | rules.saved_commit_referenced(state)


def candidates(judged: list[Judged]) -> list[Judged]:
    return [one for one in judged if one.verdict is Verdict.CANDIDATE]
