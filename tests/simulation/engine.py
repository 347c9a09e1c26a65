"""Scenarios of the engine: actors of every kind on one repository, under every fault."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from lakebed.block import Namespace, StorageUnavailable
from lakebed.errors import LakebedError
from lakebed.formats import AddressType, Entry, MetaRangeID
from lakebed.graveler.cleaner import Cleaner
from lakebed.graveler.commit import CommitRequest
from lakebed.graveler.committed import Query, Strategy
from lakebed.graveler.engine import Engine, assemble
from lakebed.graveler.errors import BranchNotFound, EntryNotFound, NoChanges
from lakebed.graveler.keys import DROPPED_PARTITION
from lakebed.graveler.model import (
    BranchID,
    Commit,
    CommitID,
    Repository,
    RepositoryID,
    UniqueID,
)
from lakebed.graveler.moves import MergeRequest
from lakebed.graveler.settings import EngineSettings
from lakebed.graveler.staging.writer import if_absent
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.wrappers.retries import RetryingStore
from lakebed.runtime import Runtime, ThreadRuntime
from lakebed.testing.history import ABSENT, WILD, History, Operation
from lakebed.testing.model_committed import Contents, ModelCommitted
from lakebed.testing.scheduler import Actor
from lakebed.testing.simulated_store import SimulatedStore
from lakebed.testing.simulator import Faults, Simulation

MAIN = BranchID("main")
DEV = BranchID("dev")
KEYS = [b"a", b"b", b"dir/c"]
REPOSITORY = Repository(
    id=RepositoryID("repo"),
    unique_id=UniqueID("uid"),
    namespace=Namespace.parse("mem://bucket/repo"),
    default_branch=MAIN,
    created_us=0,
    read_only=False,
    metadata={},
)
SETTINGS = EngineSettings(grace_seconds=900, scan_limit_seconds=100, sealed_tokens_max=3)
Assemble = Callable[[Store, Runtime, ModelCommitted], Engine]


def assemble_for_simulation(store: Store, runtime: Runtime, committed: ModelCommitted) -> Engine:
    return assemble(store, runtime, lambda _: committed, settings=SETTINGS)


def entry(key: bytes, name: str, content: str = "") -> Entry:
    """An object with an address of its own; with the same content, the same identity."""
    return Entry(
        key=key,
        identity=(content or name).encode(),
        address=name,
        address_type=AddressType.RELATIVE,
        size=1,
        checksum=content or name,
        mtime=datetime(2026, 1, 1, tzinfo=UTC),
        content_type="",
        metadata={},
    )


@dataclass
class World:
    """What all actors share, and what they did."""

    simulation: Simulation
    shared: SimulatedStore
    metaranges: dict[MetaRangeID, Contents]
    make_engine: Assemble
    histories: dict[BranchID, History] = field(init=False)
    written: int = 0
    longest_seconds: float = 0.0
    """How long the slowest operation took."""
    published: list[tuple[BranchID, Commit, int]] = field(default_factory=list)
    """Commits whose makers were told so, and the step at which they had begun."""

    def __post_init__(self) -> None:
        main, dev = History(), History()
        main.elsewhere, dev.elsewhere = dev.writes, main.writes
        self.histories = {MAIN: main, DEV: dev}

    def engine(self, actor: Actor) -> Engine:
        """The engine of a process."""
        store = RetryingStore(self.shared.handle(actor), actor.runtime)

        def gate(label: str, apply: Callable[[], object]) -> object:
            return self.simulation.call(
                actor, ("block", label), apply, lambda _: StorageUnavailable("injected")
            )

        return self.make_engine(store, actor.runtime, ModelCommitted(self.metaranges, gate))

    def onlooker(self) -> Engine:
        """An engine that sees everything and meets no fault, for when all is over."""
        committed = ModelCommitted(self.metaranges, lambda _, apply: apply())
        return self.make_engine(self.shared.inner, ThreadRuntime(), committed)

    def contents(self, commit: Commit) -> dict[bytes, str]:
        """What a commit holds: values by key."""
        entries = self.metaranges[MetaRangeID(commit.metarange_id)]
        return {key: found.address for key, found in entries.items()}

    def new_name(self) -> str:
        """A value nobody wrote yet."""
        self.written += 1
        return f"w{self.written}"


def new_world(seed: int, faults: Faults, make_engine: Assemble) -> World:
    simulation = Simulation(seed, faults, steps_max=200_000)
    shared = SimulatedStore(simulation, MemoryStore(ThreadRuntime()))
    world = World(simulation, shared, {}, make_engine)
    engine = world.onlooker()
    empty = ModelCommitted(world.metaranges, lambda _, apply: apply()).write([])
    first = engine.commits.add(
        REPOSITORY, committer="", message="", metarange_id=empty, parents=[], metadata={}
    )
    for branch in (MAIN, DEV):
        engine.branches.create(REPOSITORY, branch, first.id)
    return world


class Worker:
    """One task of an actor: does one thing after another, and notes what it was told."""

    def __init__(self, world: World, engine: Engine) -> None:
        self.world = world
        self.engine = engine
        self.random = world.simulation.random

    def attempt(
        self,
        branch: BranchID,
        name: str,
        key: bytes | None,
        value: str | None,
        act: Callable[[], object],
    ) -> Operation:
        """Do something that writes, noting when it began and ended, and how."""
        operation = Operation(name, key, value, self.world.simulation.step)
        self.world.histories[branch].writes.append(operation)
        try:
            act()
            operation.succeeded = True
        except LakebedError as error:
            operation.name = f"{name}, which raised {type(error).__name__}"
        operation.ended = self.world.simulation.step
        return operation

    def put(self, branch: BranchID) -> None:
        key, name = self.random.choice(KEYS), self.world.new_name()
        act = partial(self.engine.writer.put, REPOSITORY, branch, entry(key, name))
        self.attempt(branch, "put", key, name, act)

    def create(self, branch: BranchID) -> None:
        key, name = self.random.choice(KEYS), self.world.new_name()
        act = partial(self.engine.writer.put_if, REPOSITORY, branch, entry(key, name), if_absent)
        self.attempt(branch, "create", key, name, act)

    def delete(self, branch: BranchID) -> None:
        key = self.random.choice(KEYS)
        act = partial(self.engine.writer.delete, REPOSITORY, branch, key)
        self.attempt(branch, "delete", key, ABSENT, act)

    def read(self, branch: BranchID) -> None:
        key, begun = self.random.choice(KEYS), self.world.simulation.step
        try:
            found = {key: self.engine.reader.get(REPOSITORY, branch, key).address}
        except EntryNotFound:
            found = {}
        except LakebedError:
            return
        history = self.world.histories[branch]
        history.check_read("a read", found, [key], begun, self.world.simulation.step)

    def list_all(self, branch: BranchID) -> None:
        begun = self.world.simulation.step
        try:
            page = self.engine.reader.list_entries(REPOSITORY, branch, Query())
        except LakebedError:
            return
        found = {item.key: item.address for item in page.items if isinstance(item, Entry)}
        history = self.world.histories[branch]
        history.check_read("a listing", found, KEYS, begun, self.world.simulation.step)

    def commit(self, branch: BranchID) -> None:
        begun = self.world.simulation.step
        request = CommitRequest(committer="", message="")
        try:
            result = self.engine.committer.commit(REPOSITORY, branch, request)
        except NoChanges:
            self.check_head(branch, begun)
            return
        except LakebedError:
            return
        self.world.published.append((branch, result.commit, begun))
        self.check_commit(branch, result.commit, begun)

    def check_commit(self, branch: BranchID, commit: Commit, begun: int) -> None:
        history = self.world.histories[branch]
        contents = self.world.contents(commit)
        history.check_read("a commit", contents, KEYS, begun, self.world.simulation.step)

    def check_head(self, branch: BranchID, begun: int) -> None:
        """Nothing to commit means that the head has all that was acknowledged before."""
        onlooker = self.world.onlooker()
        try:
            record = onlooker.branches.get(REPOSITORY, branch)
        except BranchNotFound:
            return
        head = onlooker.commits.get(REPOSITORY, record.commit_id)
        self.check_commit(branch, head, begun)

    def merge(self, branch: BranchID) -> None:
        source = DEV if branch == MAIN else MAIN
        strategy = self.random.choice([None, Strategy.SOURCE_WINS, Strategy.DEST_WINS])

        def act() -> None:
            head = self.engine.branches.get(REPOSITORY, source)
            commit = self.engine.commits.get(REPOSITORY, head.commit_id)
            request = MergeRequest(committer="", message="", strategy=strategy)
            self.engine.moves.merge(REPOSITORY, branch, commit, request)

        self.attempt(branch, "merge", None, WILD, act)

    def revert(self, branch: BranchID) -> None:
        def act() -> None:
            head = self.engine.branches.get(REPOSITORY, branch)
            commit = self.engine.commits.get(REPOSITORY, head.commit_id)
            request = CommitRequest(committer="", message="")
            self.engine.moves.revert(REPOSITORY, branch, commit, request)

        self.attempt(branch, "revert", None, WILD, act)

    def hard_reset(self, branch: BranchID) -> None:
        def act() -> None:
            head = self.engine.branches.get(REPOSITORY, branch)
            commit = self.engine.commits.get(REPOSITORY, head.commit_id)
            target = self.engine.commits.get(REPOSITORY, (commit.parents or (commit.id,))[0])
            self.engine.moves.hard_reset(REPOSITORY, branch, target)

        self.attempt(branch, "hard reset", None, WILD, act)

    def reset(self, branch: BranchID) -> None:
        act = partial(self.engine.resets.reset, REPOSITORY, branch)
        self.attempt(branch, "reset", None, WILD, act)

    def reset_key(self, branch: BranchID) -> None:
        key = self.random.choice(KEYS)
        act = partial(self.engine.resets.reset_key, REPOSITORY, branch, key)
        self.attempt(branch, "reset of a key", key, WILD, act)

    def reset_prefix(self, branch: BranchID) -> None:
        act = partial(self.engine.resets.reset_prefix, REPOSITORY, branch, b"dir/")
        self.attempt(branch, "reset of a prefix", b"dir/c", WILD, act)

    def recreate(self, branch: BranchID) -> None:
        """Delete a branch and make it again from the first commit: all of its keys are gone."""

        def act() -> None:
            self.engine.branches.delete(REPOSITORY, branch)

        deleted = self.attempt(branch, "delete branch", None, ABSENT, act)
        if deleted.succeeded:
            first = min(self.engine.commits.list(REPOSITORY), key=lambda c: c.generation)
            try:
                self.engine.branches.create(REPOSITORY, branch, first.id)
            except LakebedError:
                return


FAULTY = Faults(
    fail_before=0.01,
    fail_after=0.02,
    kill=0.002,
    stall=0.005,
    stall_seconds=400,
    skew_seconds=200,
    until_step=4000,
)
CALM = Faults(skew_seconds=200)


@dataclass(frozen=True)
class Mix:
    """What actors do, how often, and under which faults."""

    weights: dict[str, int]
    faults: Faults
    tasks: int = 2
    """How many tasks each process has."""
    cleaned: bool = False
    """Whether a Cleaner runs beside them."""

    @property
    def keeps_history(self) -> bool:
        """Whether no operation takes commits out of a branch's history."""
        return not {"hard_reset", "recreate"} & self.weights.keys()


class Cleaning:
    """A process that cleans up beside the others, and goes on when it meets a fault."""

    def __init__(self, world: World, actor: Actor) -> None:
        store = RetryingStore(world.shared.handle(actor), actor.runtime)
        self.cleaner = Cleaner(store, actor.runtime, grace_seconds=SETTINGS.grace_seconds)
        self.runtime = actor.runtime

    def run(self) -> None:
        for _ in range(8):
            with suppress(LakebedError):
                self.cleaner.run_once()
            self.runtime.sleep(SETTINGS.grace_seconds / 3)


class AdvancingRuntime(ThreadRuntime):
    """A clock that goes only forward, and only when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> float:
        return 1_900_000_000.0 + self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def check_cleaned(world: World) -> None:
    """With no call in flight, some passes of a Cleaner leave only what branches name.

    But for strays: see `check_orphans`.
    """
    runtime = AdvancingRuntime()
    store = world.shared.inner
    cleaner = Cleaner(store, runtime, grace_seconds=SETTINGS.grace_seconds)
    for _ in range(6):
        cleaner.run_once()
        runtime.sleep(SETTINGS.grace_seconds)
    assert list(store.scan(DROPPED_PARTITION)) == []
    if world.longest_seconds > SETTINGS.grace_seconds / 2:
        return
    named = set()
    for branch in world.onlooker().branches.list(REPOSITORY):
        named |= {token.encode() for token in branch.tokens}
    assert isinstance(store, MemoryStore)
    tokens = {name for name in store._partitions if b":" in name}
    assert tokens <= named, f"left behind: {tokens - named}"


def play(seed: int, mix: Mix, make_engine: Assemble) -> World:
    """Let some actors do things at random, then check what is left."""
    world = new_world(seed, mix.faults, make_engine)
    choose = world.simulation.random
    names, weights = list(mix.weights), list(mix.weights.values())
    for number in range(choose.randint(2, 4)):
        actor = world.simulation.actor(f"actor{number}")
        engine = world.engine(actor)
        for _ in range(mix.tasks):
            worker = Worker(world, engine)
            actor.start(partial(work, worker, choose.choices(names, weights, k=6)))
    if mix.cleaned:
        actor = world.simulation.actor("cleaner")
        actor.start(Cleaning(world, actor).run)
    world.simulation.run()
    check_orphans(world)
    if mix.keeps_history:
        check_ancestry(world)
    check_rest(world)
    if mix.cleaned:
        check_cleaned(world)
        check_rest(world)
    return world


def work(worker: Worker, todo: list[str]) -> None:
    for name in todo:
        branch = worker.random.choice([MAIN, MAIN, DEV])
        if name == "recreate":
            branch = DEV
        simulation = worker.world.simulation
        begun = simulation.seconds
        getattr(worker, name)(branch)
        took = simulation.seconds - begun
        worker.world.longest_seconds = max(worker.world.longest_seconds, took)


def check_orphans(world: World) -> None:
    """Every token that holds keys is named by a branch, or announced to the Cleaner.

    But for strays: a request slower than the grace period may write to a token that was cleaned.
    """
    if world.longest_seconds > SETTINGS.grace_seconds / 2:
        return
    store = world.shared.inner
    known = {entry.key for entry in store.scan(DROPPED_PARTITION)}
    for branch in world.onlooker().branches.list(REPOSITORY):
        known |= {token.encode() for token in branch.tokens}
    assert isinstance(store, MemoryStore)
    tokens = {name for name in store._partitions if b":" in name}
    assert tokens <= known, f"nothing knows of {tokens - known}"


def check_ancestry(world: World) -> None:
    """Every commit whose maker was told so is in the history of its branch."""
    engine = world.onlooker()
    for branch in (MAIN, DEV):
        history = set()
        commit_id: CommitID | None = engine.branches.get(REPOSITORY, branch).commit_id
        while commit_id is not None:
            history.add(commit_id)
            parents = engine.commits.get(REPOSITORY, commit_id).parents
            commit_id = parents[0] if parents else None
        told = {commit.id for where, commit, _ in world.published if where == branch}
        assert told <= history, f"not in the history of {branch}: {told - history}"


def check_rest(world: World) -> None:
    """When all is over: every branch shows, and can commit, what was acknowledged."""
    now = world.simulation.step + 1
    engine = world.onlooker()
    for branch in (MAIN, DEV):
        history = world.histories[branch]
        history.check_creates(KEYS)
        try:
            shown = read_all(engine, branch)
        except BranchNotFound:
            continue
        history.check_read("the branch at the end", shown, KEYS, now, now)
        try:
            request = CommitRequest(committer="", message="")
            commit = engine.committer.commit(REPOSITORY, branch, request).commit
        except NoChanges:
            record = engine.branches.get(REPOSITORY, branch)
            commit = engine.commits.get(REPOSITORY, record.commit_id)
        assert world.contents(commit).keys() == shown.keys()
        history.check_read("the last commit", world.contents(commit), KEYS, now, now)


def read_all(engine: Engine, branch: BranchID) -> dict[bytes, str]:
    shown = {}
    for key in KEYS:
        try:
            shown[key] = engine.reader.get(REPOSITORY, branch, key).address
        except EntryNotFound:
            continue
    return shown


# What is played: strict mixes, in which every value can be told, and wild ones

WRITES = {"put": 6, "delete": 2, "read": 4, "list_all": 1, "commit": 4}
CONDITIONAL = {"create": 8, "read": 2, "commit": 4, "delete": 1}
EVERYTHING = {
    "put": 6, "create": 4, "delete": 2, "read": 4, "list_all": 2, "commit": 5, "merge": 2,
    "revert": 1, "reset": 1, "reset_key": 1, "reset_prefix": 1, "hard_reset": 1, "recreate": 1,
}  # fmt: skip
RECREATED = {"put": 6, "read": 4, "commit": 3, "recreate": 2}

CREATES = {"create": 6, "commit": 4, "read": 2}
# Replies that hang for a while, in processes with many tasks: what reads may be shared shows.
SLOW_REPLIES = Faults(stall=0.1, stall_seconds=0.3)
# Calls that hang for so long that the Cleaner's grace period passes during operations.
LONG_STALLS = Faults(stall=0.03, stall_seconds=2000, kill=0.002, skew_seconds=200, until_step=4000)

MIXES = {
    "writes": Mix(WRITES, FAULTY),
    "writes_calm": Mix(WRITES, CALM),
    "shared_reads": Mix({"put": 8, "commit": 5}, SLOW_REPLIES, tasks=4),
    "conditional": Mix(CONDITIONAL, FAULTY),
    "creates_only": Mix(CREATES, FAULTY),
    "recreated": Mix(RECREATED, FAULTY),
    "cleaned": Mix({**WRITES, "list_all": 2}, LONG_STALLS, cleaned=True),
    "everything": Mix(EVERYTHING, FAULTY, cleaned=True),
}


def scenario(name: str, seed: int, make_engine: Assemble = assemble_for_simulation) -> None:
    play(seed, MIXES[name], make_engine)


SCENARIOS: dict[str, Callable[[int], None]] = {name: partial(scenario, name) for name in MIXES}
