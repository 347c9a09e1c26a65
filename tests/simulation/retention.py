"""The fence between commits that expire and everything that can make an old commit reachable.

Processes commit, merge, revert, cherry-pick, copy, move branches, and make and delete refs, mostly
of commits that somebody was told of long ago. Others expire commits by the rules, and delete the
objects that only expired commits name: after one look, and at once, which is harder than what a run
of garbage collection does. (For that, no path is staged twice: a commit under way can hide no
object.) Every call may fail, hang for days, or kill its process.

Whatever a branch or a tag leads to, or is staged and was acknowledged, must have its bytes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.block import Address, BlockStore
from lakebed.engine import engine as engine_module
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import EntryQuery, Strategy
from lakebed.engine.engine import Engine
from lakebed.engine.errors import RefsLeftOut
from lakebed.engine.expiry_marks import EXPIRED, read_expired
from lakebed.engine.hooks import Hooks, Proposal
from lakebed.engine.model import BranchID, CommitID, Repository, TagID
from lakebed.engine.settings import EngineSettings
from lakebed.formats import DumpID, Entry, MetaRangeID
from lakebed.formats.gc_files import GCFileKind, decode_gc_table
from lakebed.kv import store as kv_store
from lakebed.kv.managed import ManagedStore
from lakebed.lake.catalog import Catalog
from lakebed.lake.model import physical_address
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.retention import BranchRule, RetentionRules
from lakebed.reclaim.runs import RunFiles
from lakebed.reclaim.service import Reclaim
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Faults, Simulation
from lakebed.testing.simulation.store import SimulatedStore
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.simulation.objects import DEV, MAIN, REPOSITORY, CatalogWorld
from tests.simulation.world import OnlookerRuntime, model_committed_for

DAY: Final = 86_400.0
RULES: Final = RetentionRules(1, [BranchRule("dev", 2)])
ENGINE: Final = EngineSettings(sealed_tokens_max=3, expiring_seconds=60)
BRANCHES: Final = [MAIN, DEV, BranchID("b1"), BranchID("b2")]
TAGS: Final = [TagID("t1"), TagID("t2")]
REQUEST: Final = CommitRequest(committer="", message="", allow_empty=True)
MERGE: Final = MergeRequest(
    committer="", message="", allow_empty=True, strategy=Strategy.SOURCE_WINS
)
FAULTS: Final = Faults(
    fail_before=0.004,
    fail_after=0.008,
    kill=0.0004,
    stall=0.012,
    stall_seconds=3 * DAY,
    until_step=12_000,
)
SLEEPY: Final = replace(FAULTS, stall=0.05)
ALL: Final = {
    "commit": 6,
    "copy": 3,
    "merge": 2,
    "cherry_pick": 3,
    "revert": 1,
    "commit_metarange": 2,
    "hard_reset": 4,
    "create_branch": 4,
    "create_tag": 3,
    "delete_branch": 2,
    "delete_tag": 3,
}
REFS: Final = {
    "commit": 4,
    "hard_reset": 3,
    "create_branch": 4,
    "create_tag": 4,
    "delete_branch": 3,
    "delete_tag": 4,
}
CONTENT: Final = {
    "commit": 4,
    "copy": 4,
    "merge": 2,
    "cherry_pick": 4,
    "commit_metarange": 2,
    "create_branch": 1,
    "delete_branch": 1,
}
SKEW_SECONDS: Final = 300.0


class Days(Simulation):
    """Clocks that differ by minutes, however many days pass."""

    def actor(self, name: str) -> SimulatedProcess:
        actor = super().actor(name)
        runtime: Any = actor.runtime
        runtime._skew = self.random.uniform(-SKEW_SECONDS, SKEW_SECONDS)
        return actor


class Told(Hooks):
    """A hook that tells everybody the id of what it is offered."""

    def __init__(self, known: list[CommitID]) -> None:
        self._known = known

    def before_commit(self, proposal: Proposal) -> None:
        self._known.append(proposal.commit.id)


@dataclass
class Lake:
    """What one run shares."""

    world: CatalogWorld
    known: list[CommitID] = field(default_factory=list)
    """The commits that somebody was told of."""
    acknowledged: set[bytes] = field(default_factory=set)
    """Paths; each is written once."""
    told: Counter[str] = field(default_factory=Counter)
    working: set["User"] = field(default_factory=set)
    paths: int = 0
    dumps: list[DumpID] = field(default_factory=list)

    def days(self, longest: float) -> Iterator[float]:
        """Times to wait for, in seconds, while any user works."""
        for _ in range(60):
            if any(user.process.actor.alive for user in self.working):
                yield self.world.random.random() * longest * DAY

    def process(self, name: str) -> "Process":
        world = self.world
        actor = world.simulation.actor(name)
        store = world.store.handle(actor)
        if world.random.random() < 0.5:
            store = ManagedStore(store, actor.runtime)
        block = world.block.handle(actor)
        engine = new_engine(
            store, block, runtime=actor.runtime, settings=ENGINE, hooks=Told(self.known)
        )
        catalog = Catalog(engine, store, block, actor.runtime, CatalogSettings())
        reclaim = Reclaim(catalog, engine, store, block, actor.runtime)
        return Process(actor, engine, catalog, reclaim, self)

    def new_path(self) -> bytes:
        self.paths += 1
        return b"p%04d" % self.paths

    def entries(self, ref: str) -> list[Entry]:
        page = staging.list_entries(self.world.onlooker, REPOSITORY, ref, EntryQuery())
        return [item for item in page.items if isinstance(item, Entry)]

    def check_ref(self, ref: str, what: str) -> None:
        for entry in self.entries(ref):
            address = physical_address(self.world.repository.namespace, entry)
            if entry.key in self.acknowledged:
                assert self.world.block.inner.exists(address), f"{what}: {entry.key!r} is gone"

    def check(self) -> None:
        """All that refs lead to is there, and what is staged."""
        engine, repository = self.world.onlooker, self.world.repository
        for branch in engine.branches.list(repository):
            self.check_ref(branch.id, f"branch {branch.id} at {branch.commit_id}")
        for tag in engine.tags.list(repository):
            self.check_ref(tag.id, f"tag {tag.id} of {tag.commit_id}")


@dataclass(frozen=True)
class Process:
    """A simulated server."""

    actor: SimulatedProcess
    engine: Engine
    catalog: Catalog
    reclaim: Reclaim
    lake: Lake


class User:
    """Does one thing after another."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.engine = process.engine
        self.catalog = process.catalog
        self.lake = process.lake
        self.random = process.lake.world.random

    def branch(self) -> BranchID:
        """A branch that is there, mostly."""
        world = self.lake.world
        there = world.onlooker.branches.list(world.repository)
        return self.random.choice([branch.id for branch in there])

    def old(self) -> CommitID:
        """A commit that somebody was told of; mostly one that will expire before long."""
        known, world = self.lake.known, self.lake.world
        if self.random.random() < 0.3:
            return self.random.choice(known)
        marks = world.onlooker.marks.find_all(world.repository, known)
        left = [each for each in known if each not in marks or marks[each].message.state != EXPIRED]
        return self.random.choice(left[:6] or known)

    def upload(self, branch: BranchID) -> None:
        path = self.lake.new_path()
        self.catalog.uploads.upload(REPOSITORY, branch, path, self.lake.world.new_body())
        self.lake.acknowledged.add(path)

    def commit(self) -> None:
        branch = self.branch()
        with suppress(LakebedError):
            self.upload(branch)
        committed = [entry.key for entry in self.lake.entries(f"{branch}@")]
        for path in self.random.sample(committed, min(len(committed), 2)):
            self.catalog.objects.delete(REPOSITORY, branch, path)
        self.know(self.catalog.commits.commit(REPOSITORY, branch, REQUEST).commit.id)

    def copy(self) -> None:
        ref = self.old()
        entries = self.lake.entries(ref)
        if entries:
            path, branch = self.lake.new_path(), self.branch()
            source = self.random.choice(entries).key
            self.catalog.copies.copy(REPOSITORY, branch, path, source_ref=ref, source_path=source)
            self.lake.acknowledged.add(path)

    def merge(self) -> None:
        source = self.random.choice([self.old(), self.branch()])
        self.know(self.catalog.commits.merge(REPOSITORY, source, self.branch(), MERGE).id)

    def cherry_pick(self) -> None:
        made = self.catalog.commits.cherry_pick(
            REPOSITORY, self.branch(), self.old(), committer="", parent_number=1
        )
        self.know(made.id)

    def revert(self) -> None:
        made = self.catalog.commits.revert(
            REPOSITORY, self.branch(), self.old(), REQUEST, parent_number=1
        )
        self.know(made.id)

    def commit_metarange(self) -> None:
        repository = self.lake.world.repository
        metarange = self.lake.world.onlooker.commits.get(repository, self.old()).metarange_id
        made = self.catalog.commits.commit(
            REPOSITORY, self.branch(), REQUEST, source_metarange=metarange
        )
        self.know(made.commit.id)

    def hard_reset(self) -> None:
        self.catalog.commits.hard_reset(REPOSITORY, self.branch(), self.old())

    def create_branch(self) -> None:
        source = self.random.choice([self.old(), self.old(), MAIN, DEV])
        self.catalog.ref_changes.create_branch(REPOSITORY, self.random.choice(BRANCHES[1:]), source)

    def create_tag(self) -> None:
        self.catalog.ref_changes.create_tag(REPOSITORY, self.random.choice(TAGS), self.old())

    def delete_branch(self) -> None:
        self.catalog.ref_changes.delete_branch(REPOSITORY, self.branch())

    def delete_tag(self) -> None:
        self.catalog.ref_changes.delete_tag(REPOSITORY, self.random.choice(TAGS))

    def know(self, commit_id: CommitID) -> None:
        self.lake.known.append(commit_id)

    def run(self, weights: Mapping[str, int]) -> None:
        for name in self.random.choices(list(weights), list(weights.values()), k=10):
            try:
                getattr(self, name)()
                self.lake.told[name] += 1
            except LakebedError as error:
                self.lake.told[type(error).__name__] += 1
            self.process.actor.runtime.sleep(self.random.random() ** 3 * DAY)
        self.lake.working.discard(self)


def expire(process: Process) -> None:
    lake, runtime = process.lake, process.actor.runtime
    for pause in lake.days(0.6):
        runtime.sleep(pause)
        with suppress(LakebedError):
            done = process.reclaim.expirer.run(lake.world.repository, max_share=1.0)
            lake.told.update({"marked": done.marked, "rescued": done.rescued})
            lake.told["ended"] += done.expired


def dump(process: Process) -> None:
    lake = process.lake
    for pause in lake.days(2):
        process.actor.runtime.sleep(pause)
        with suppress(LakebedError):
            lake.dumps.append(process.catalog.refs.dump(REPOSITORY))


class Collector:
    """Deletes what only expired commits name, after one look."""

    def __init__(self, lake: Lake, reclaim: Reclaim, block: BlockStore, runtime: Runtime) -> None:
        self.lake = lake
        self.world = lake.world
        self.gc = reclaim.preparation
        self.block = block
        self.runtime = runtime

    @classmethod
    def start(cls, process: Process) -> None:
        block = process.lake.world.block.handle(process.actor)
        collector = cls(process.lake, process.reclaim, block, process.actor.runtime)
        process.actor.start(collector.run)

    def run(self) -> None:
        for pause in self.lake.days(0.5):
            self.runtime.sleep(pause)
            with suppress(LakebedError):
                self.collect()
            self.lake.check()

    def collect(self) -> None:
        for address in sorted(self.dead()):
            self.block.delete(Address.parse(address))
            self.lake.told["deleted"] += 1

    def dead(self) -> set[str]:
        gc, repository = self.gc, self.world.repository
        prepared = gc.prepare_uncommitted(REPOSITORY)
        while prepared.continuation_token:
            prepared = gc.prepare_uncommitted(REPOSITORY, token=prepared.continuation_token)
        gc.prepare_commits(REPOSITORY, run_id=prepared.run_id)
        files = RunFiles(self.block, self.runtime, repository, prepared.run_id)
        manifest = files.find_manifest()
        assert manifest is not None
        live: set[str] = set()
        there: set[str] = set()
        for file in manifest.files:
            # What comes of the files is not tested here: it meets no faults.
            address = Address.parse(f"{files.location}{file.name}")
            table = decode_gc_table(self.world.block.inner.read(address), file, file=file.name)
            if file.kind is GCFileKind.COMMITS:
                there.update(table.column("id").to_pylist())
                for metarange in set(table.column("metarange_id").to_pylist()):
                    live |= self.named_by(MetaRangeID(metarange))
            else:
                live |= set(table.column("address").to_pylist())
        expired = read_expired(
            self.world.block.inner, repository.namespace, repository.unique_id, manifest.run.expired
        )
        assert not expired & there
        # After a restore, some that have expired are not there.
        commits = self.world.onlooker.commits.list(repository)
        metaranges = {commit.metarange_id for commit in commits if commit.id in expired}
        named = (self.named_by(metarange) for metarange in metaranges)
        exists = self.world.block.inner.exists
        return {each for each in set().union(*named) - live if exists(Address.parse(each))}

    def named_by(self, metarange: MetaRangeID) -> set[str]:
        repository = self.world.repository
        page = self.world.onlooker.committed(repository).list(metarange, EntryQuery())
        entries = (item for item in page.items if isinstance(item, Entry))
        return {str(physical_address(repository.namespace, entry)) for entry in entries}


@contextmanager
def modelled() -> Iterator[None]:
    """Committed entries are plain dicts; scans are read in small pages."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(engine_module, "committed_for", model_committed_for))
        stack.enter_context(patch.object(kv_store, "FIRST_PAGE", 2))
        yield


def begin(simulation: Simulation) -> Lake:
    world = CatalogWorld(simulation, CatalogSettings())
    world.store = SimulatedStore(
        simulation, world.store.inner, unbatched=simulation.random.random() < 0.5
    )
    lake = Lake(world)
    world.reclaim.rules.set(world.repository, RULES)
    lake.known.append(world.onlooker.branches.get(world.repository, MAIN).commit_id)
    return lake


def fence_holds(
    seed: int,
    weights: Mapping[str, int] = ALL,
    faults: Faults = FAULTS,
    *,
    restores: bool = False,
) -> Lake:
    with modelled():
        lake = begin(Days(seed, faults, steps_max=400_000))
        if restores:
            dumper = lake.process("dumper")
            dumper.actor.start(partial(dump, dumper))
        for number in range(3):
            process = lake.process(f"server{number}")
            for _ in range(2):
                user = User(process)
                lake.working.add(user)
                process.actor.start(partial(user.run, weights))
        for number in range(2):
            process = lake.process(f"expirer{number}")
            process.actor.start(partial(expire, process))
        Collector.start(lake.process("collector"))
        lake.world.simulation.run()
        lake.check()
        if lake.dumps:
            restore(lake)
    return lake


def kept_by_rules(engine: Engine, repository: Repository, runtime: Runtime) -> set[CommitID]:
    """From each head back by first parents: what is younger than the branch's period, and the next.

    Only while nobody else is at work: a branch may have been elsewhere a moment ago.
    """
    periods = {rule.pattern: rule.days for rule in RULES.branches}
    commits = {commit.id: commit for commit in engine.commits.list(repository)}
    kept: set[CommitID] = set()
    for branch in engine.branches.list(repository):
        days = periods.get(branch.id, RULES.default_days)
        oldest_us = (runtime.now() - days * DAY) * 1e6
        at: CommitID | None = branch.commit_id
        while at in commits:
            kept.add(at)
            commit = commits[at]
            at = commit.parents[0] if commit.parents and commit.stored_us > oldest_us else None
    return kept


def restore(lake: Lake) -> None:
    """Lose the refs, and bring back those of some dump: what they lead to must be there.

    And stay there, whatever expires and is collected afterwards.
    """
    world, dump_id = lake.world, lake.world.random.choice(lake.dumps)
    runtime, store, block = OnlookerRuntime(world.simulation), world.store.inner, world.block.inner
    world.onlooker = engine = new_engine(store, block, runtime=runtime, settings=ENGINE)
    catalog = Catalog(engine, store, block, runtime, CatalogSettings())
    reclaim = Reclaim(catalog, engine, store, block, runtime)
    catalog.repositories.delete(REPOSITORY)
    engine.repositories.create_bare(REPOSITORY, world.repository.namespace)
    world.repository = engine.repositories.get(REPOSITORY)
    with suppress(RefsLeftOut):
        catalog.refs.restore(REPOSITORY, dump_id)
    lake.check()
    lake.told["restored"] += len([*engine.branches.list(world.repository)])
    reclaim.rules.set(world.repository, RULES)
    collector = Collector(lake, reclaim, block, runtime)
    for _ in range(3):
        runtime.sleep(1.5 * DAY)
        kept = kept_by_rules(engine, world.repository, runtime)
        kept -= set(engine.marks.expired(world.repository))  # when the refs were lost
        done = reclaim.expirer.run(world.repository, max_share=1.0)
        lake.told["expired after a restore"] += done.expired
        marked = {
            CommitID(mark.name.decode()) for mark in engine.marks.records(world.repository).scan()
        }
        assert not kept & marked, f"{kept & marked} are kept by the rules, and marked"
        collector.collect()
        lake.check()


def fence(seed: int) -> None:
    """Everything at once."""
    fence_holds(seed)


def refs(seed: int) -> None:
    """Refs that come and go, by processes that sleep often."""
    fence_holds(seed, REFS, SLEEPY)


def content(seed: int) -> None:
    """Old content that is taken up again, by processes that sleep often."""
    fence_holds(seed, CONTENT, SLEEPY)


def restored(seed: int) -> None:
    """Refs are lost, and come back from a dump that was made while all this went on."""
    fence_holds(seed, restores=True)


SCENARIOS: Final = {"fence": fence, "refs": refs, "content": content, "restored": restored}
