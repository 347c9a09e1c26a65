"""What all simulations of the engine are made of: processes, what they share, and the truth."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Final, TypeVar
from unittest.mock import patch

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.block import BlockStore, Namespace, StorageUnavailable
from lakebed.engine import engine
from lakebed.engine.committed import Cache, EntryPage, EntryQuery
from lakebed.engine.committed.store import CommittedFor, committed_for
from lakebed.engine.engine import Engine
from lakebed.engine.errors import GivenUp, TooManyTries
from lakebed.engine.model import BranchID, FilesRoot, RepositoryID
from lakebed.engine.repositories.repositories import Repositories
from lakebed.engine.settings import EngineSettings
from lakebed.formats import AddressType, DumpManifest, Entry, MetaRangeID
from lakebed.kv import OutcomeUnknown, Store
from lakebed.kv import store as kv_store
from lakebed.kv.managed import ManagedStore
from lakebed.reclaim.cleaner import Cleaner
from lakebed.testing.models.committed import ModelCommitted
from lakebed.testing.simulation.block import SimulatedBlock
from lakebed.testing.simulation.history import WriteHistory
from lakebed.testing.simulation.runtime import EPOCH
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Simulation
from lakebed.testing.simulation.store import SimulatedStore
from tests.simulation.monitor import Monitor
from tests.simulation.truth import Shown, Truth

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

MAIN: Final = BranchID("main")
DEV: Final = BranchID("dev")
KEYS: Final = [b"a", b"b", b"dir/c"]

GRACE_SECONDS: Final = 900.0
# Less than the grace period even with a fast clock: later writes may be strays.
LONGEST_REQUEST_SECONDS: Final = GRACE_SECONDS * 0.8
# More than the grace period even with a slow clock.
SURELY_PAST_GRACE_SECONDS: Final = GRACE_SECONDS * 1.2

SETTINGS: Final = EngineSettings(
    grace_seconds=GRACE_SECONDS,
    scan_limit_seconds=100,
    sealed_tokens_max=3,
    noted_tombstones_min=1,
)


def entry(key: bytes, name: str, content: str = "") -> Entry:
    """An object with its own address; objects with the same content have the same identity."""
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


class OnlookerRuntime(ThreadRuntime):
    """For use when no task runs: it is alone, and its sleeping moves its clock on."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._slept = 0.0

    def monotonic(self) -> float:
        return self._simulation.seconds + self._slept

    def now(self) -> float:
        return EPOCH + self.monotonic()

    def sleep(self, seconds: float) -> None:
        self._slept += seconds

    def random_bytes(self, count: int) -> bytes:
        return self._simulation.random.randbytes(count)

    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 16
    ) -> list[ResultT]:
        del limit
        return [function(item) for item in items]


def model_committed_for(block: BlockStore, _runtime: Runtime, _cache: Cache) -> CommittedFor:
    """Open namespaces with plain dicts for metaranges."""
    return lru_cache(partial(ModelCommitted, block))


@dataclass(frozen=True, slots=True)
class Process:
    """A simulated process and what it runs."""

    name: str
    runtime: Runtime
    store: Store
    lake: Engine
    cleaner: Cleaner


Body = Callable[["World", Process], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What processes are made of."""

    repositories: type[Repositories] = Repositories
    cleaner: type[Cleaner] = Cleaner
    grace_seconds: float = GRACE_SECONDS
    break_rule: Callable[[Repositories, Cleaner], None] = lambda _repositories, _cleaner: None
    """Replaces an inner part with a wrong one."""
    real_files: bool = False
    """Whether committed entries are real Parquet files, and not a model of them."""

    def build(self, name: str, runtime: Runtime, store: Store, block: BlockStore) -> Process:
        """Put a process together."""
        with patch.object(engine, "committed_for", self.committed_for):
            lake = Engine(store, block, runtime=runtime, settings=SETTINGS)
        lake.repositories = self.repositories(
            store,
            block,
            runtime,
            branches=lake.branches,
            commits=lake.commits,
            committed_in=lake._committed_in,
        )
        cleaner = self.cleaner(store, runtime, grace_seconds=self.grace_seconds)
        self.break_rule(lake.repositories, cleaner)
        return Process(name, runtime, store, lake, cleaner)

    @property
    def committed_for(self) -> Callable[[BlockStore, Runtime, Cache], CommittedFor]:
        return committed_for if self.real_files else model_committed_for


@dataclass(frozen=True, slots=True)
class Dump:
    """A dump that an actor took, and when."""

    manifest: DumpManifest
    began: int
    ended: int


@dataclass(frozen=True, slots=True)
class Read:
    """Values of some keys as an actor was shown them, and when."""

    what: str
    partitions: list[bytes]
    branch: BranchID
    shown: dict[bytes, str | None]
    span: tuple[int, int]

    def check(self, world: "World") -> None:
        """Check that one record of the branch explains all of it."""
        is_explained = any(
            world.truth.allows(partition, self.branch, self.shown, self.span, world.held)
            for partition in self.partitions
        )
        shows = f"{self.what}, in steps {self.span}, shows {self.shown}"
        assert is_explained, f"{shows}, but no record of {self.branch} does"


@dataclass
class World:
    """What one run shares: the truth, and what actors did and were told."""

    simulation: Simulation
    names: list[RepositoryID]
    namespaces: list[Namespace]
    parts: Parts = field(default_factory=Parts)
    unbatched: bool = False
    """Whether scans and bulk calls take several steps, between which others write."""
    retrying: float = 1.0
    """The share of processes that retry; the others get more unknown outcomes."""
    is_calm: bool = False
    """Whether every call is answered, so that every operation ends as it should."""

    def __post_init__(self) -> None:
        self.random = self.simulation.random
        self.monitor = Monitor(self.simulation, self.simulation.actor("storage").runtime)
        self.store = SimulatedStore(self.simulation, self.monitor.store, unbatched=self.unbatched)
        self.block = SimulatedBlock(self.simulation, self.monitor.block)
        self.told: Counter[str] = Counter()
        """How often actors got each answer."""
        self.strays = 0
        self.unpublished = 0
        self.dumps: list[Dump] = []
        self.reads: list[Read] = []
        self.freed: list[tuple[bytes, int]] = []
        """Keys of refs that someone began to delete, and when."""
        self.histories: dict[tuple[RepositoryID, BranchID], WriteHistory] = {}
        for name in self.names:
            main, dev = WriteHistory(), WriteHistory()
            main.elsewhere, dev.elsewhere = dev.writes, main.writes
            self.histories |= {(name, MAIN): main, (name, DEV): dev}
        self._written = 0
        self._held: dict[tuple[FilesRoot, str], Shown] = {}
        self.onlooker = self._onlooker()

    @property
    def truth(self) -> Truth:
        return self.monitor.truth

    def process(self, actor: SimulatedProcess) -> Process:
        """What an actor runs."""
        store = self.store.handle(actor)
        if self.retrying == 1.0 or self.random.random() < self.retrying:
            store = ManagedStore(store, actor.runtime)
        return self.parts.build(actor.name, actor.runtime, store, self.block.handle(actor))

    def _onlooker(self) -> Process:
        """A process without faults that sees everything, for use when no task runs."""
        runtime = OnlookerRuntime(self.simulation)
        return self.parts.build("onlooker", runtime, self.monitor.store, self.monitor.block)

    def begin(self, count: int) -> None:
        """Make some repositories, each with two branches, before anything goes wrong."""
        lake = self.onlooker.lake
        for name, namespace in islice(zip(self.names, self.namespaces, strict=False), count):
            lake.repositories.create(name, namespace, committer="begin")
            lake.refs.create_branch(name, DEV, MAIN)

    def run(self, bodies: Mapping[str, Iterable[Body]]) -> None:
        """Let processes run until all their tasks have ended."""
        for name, tasks in bodies.items():
            actor = self.simulation.actor(name)
            process = self.process(actor)
            for task in tasks:
                actor.start(partial(task, self, process))
        with ExitStack() as stack:
            if self.unbatched:
                stack.enter_context(patch.object(kv_store, "FIRST_PAGE", 2))
            self.simulation.run()
        self.check_no_violations()

    def check_no_violations(self) -> None:
        assert not self.monitor.violations, self.monitor.violations[0]

    @contextmanager
    def request(self) -> Iterator[int]:
        """Yield the step at which a request begins; end the request if it gets no answer."""
        try:
            yield self.simulation.step
        except (OutcomeUnknown, StorageUnavailable, TooManyTries, GivenUp) as error:
            self.told[type(error).__name__] += 1

    def check(self, what: str, *, holds: bool) -> None:
        """Note a violation, unless `holds`."""
        if not holds:
            self.monitor.violation(what)

    def new_name(self) -> str:
        """A value that nobody wrote yet."""
        self._written += 1
        return f"w{self._written}"

    def held(self, partition: bytes, commit_id: str) -> Shown:
        """What a commit holds: values by key."""
        home = self.monitor.homes[partition]
        metarange_id = MetaRangeID(self.truth.commits[partition][commit_id].metarange_id)
        found = self._held.get((home, metarange_id))
        if found is None:
            page = self.onlooker.lake._committed_in(home).list(metarange_id, EntryQuery())
            found = self._held[home, metarange_id] = addresses(page)
        return found


def addresses(page: EntryPage[Entry]) -> dict[bytes, str]:
    """The values of all keys of a page."""
    return {item.key: item.address for item in page.items if isinstance(item, Entry)}
