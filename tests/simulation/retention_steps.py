"""Commits that expire at every single step of everything that can make them reachable.

Each history has one operation, and lets others happen between two of its calls to the store: days
pass, a commit is marked, it expires, and what only expired commits name is deleted at once. All
places are tried, and all pairs of places for the two passes. Then the same the other way round:
operations at every step of a pass, and of the preparation of a run. And while a merge is under way,
its branch goes elsewhere and comes back, at every step.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, TypeVar

from lakebed.base.errors import LakebedError
from lakebed.block import Address, Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import EntryQuery, Strategy
from lakebed.engine.engine import Engine
from lakebed.engine.errors import NotUnique
from lakebed.engine.hooks import Hooks, Proposal
from lakebed.engine.model import BranchID, CommitID
from lakebed.formats import Entry, MetaRangeID
from lakebed.formats.gc_files import GCFileKind, GCManifest, GCRunID, decode_gc_table
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.catalog import Catalog
from lakebed.lake.model import physical_address
from lakebed.reclaim.retention import RetentionRules
from lakebed.reclaim.runs import RunFiles
from lakebed.reclaim.service import Reclaim
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.kit.lake import DEV, MAIN, REPOSITORY, TurnableClock

ResultT = TypeVar("ResultT")
DAY: Final = 86_400.0
REQUEST: Final = CommitRequest(committer="", message="", allow_empty=True)
MERGE: Final = MergeRequest(
    committer="", message="", allow_empty=True, strategy=Strategy.SOURCE_WINS
)
NEW: Final = BranchID("new")
SPARE: Final = BranchID("spare")
STEPS_MAX: Final = 60


class Telling(Hooks):
    """Tells somebody the id of each commit that is offered."""

    def __init__(self) -> None:
        self.tell: Callable[[CommitID], object] = lambda _commit_id: None

    def before_commit(self, proposal: Proposal) -> None:
        self.tell(proposal.commit.id)


class Lake:
    """Two processes over one store: calls of the first are interrupted, those of the other not."""

    def __init__(self) -> None:
        self.clock = TurnableClock()
        self.store = MemoryStore(self.clock)
        self.block = MemoryBlockStore(self.clock)
        self.at: dict[int, Callable[[], object]] = {}
        """What happens before which call of the first process."""
        self.calls: Iterator[int] | None = None
        self.hooks = Telling()
        self.first = self.process(interrupted=True)
        self.other = self.process(interrupted=False)
        engine = self.other.engine
        engine.repositories.create(REPOSITORY, Namespace.parse("mem://lake/x"), committer="")
        self.repository = engine.repositories.get(REPOSITORY)
        for branch in (DEV, SPARE):
            engine.refs.create_branch(REPOSITORY, branch, MAIN)
        self.other.reclaim.rules.set(self.repository, RetentionRules(2))
        self.old = self.make_old()

    def process(self, *, interrupted: bool) -> "Process":
        store = FaultyStore(self.store, self.intercept) if interrupted else self.store
        engine = new_engine(store, self.block, runtime=self.clock, hooks=self.hooks)
        catalog = Catalog(engine, store, self.block, self.clock)
        reclaim = Reclaim(catalog, engine, store, self.block, self.clock)
        return Process(engine, catalog, reclaim, self)

    def intercept(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        del call
        if self.calls is not None:
            happens = self.at.pop(next(self.calls), None)
            if happens is not None:
                happens()
        return apply()

    def make_old(self) -> CommitID:
        """A commit that no branch leads to, and that is a day old; only it holds an object."""
        catalog = self.other.catalog
        catalog.ref_changes.create_branch(REPOSITORY, "tmp", MAIN)
        catalog.uploads.upload(REPOSITORY, BranchID("tmp"), b"old", [b"old"])
        made = catalog.commits.commit(REPOSITORY, BranchID("tmp"), REQUEST).commit.id
        catalog.ref_changes.delete_branch(REPOSITORY, BranchID("tmp"))
        self.pass_days(0.5)
        return made

    def pass_days(self, days: float) -> None:
        self.clock.ahead_seconds += days * DAY

    def expire(self) -> None:
        self.pass_days(3)
        self.other.reclaim.expirer.run(self.repository, max_share=1.0)

    def collect(self) -> None:
        """Delete what only expired commits name, by one look."""
        self.delete_dead(self.other.prepare())

    def delete_dead(self, manifest: GCManifest) -> None:
        files = RunFiles(self.block, self.clock, self.repository, manifest.run.run_id)
        live: set[str] = set()
        there: set[str] = set()
        for file in manifest.files:
            data = self.block.read(Address.parse(f"{files.location}{file.name}"))
            table = decode_gc_table(data, file, file=file.name)
            if file.kind is GCFileKind.COMMITS:
                there.update(table.column("id").to_pylist())
                live.update(*map(self.named_by, table.column("metarange_id").to_pylist()))
            else:
                live.update(table.column("address").to_pylist())
        commits = self.other.engine.commits.list(self.repository)
        dead = (self.named_by(commit.metarange_id) for commit in commits if commit.id not in there)
        for address in set().union(*dead) - live:
            self.block.delete(Address.parse(address))

    def named_by(self, metarange_id: MetaRangeID) -> set[str]:
        page = self.other.engine.committed(self.repository).list(metarange_id, EntryQuery())
        return {self.address(item) for item in page.items if isinstance(item, Entry)}

    def address(self, entry: Entry) -> str:
        return str(physical_address(self.repository.namespace, entry))

    def check(self) -> None:
        """All that refs lead to is there."""
        engine = self.other.engine
        names = [branch.id for branch in engine.branches.list(self.repository)]
        names += [BranchID(tag.id) for tag in engine.tags.list(self.repository)]
        for name in names:
            for item in staging.list_entries(engine, REPOSITORY, name, EntryQuery()).items:
                if isinstance(item, Entry):
                    exists = self.block.exists(Address.parse(self.address(item)))
                    assert exists, f"{item.key!r} of {name} is gone"


@dataclass
class Process:
    engine: Engine
    catalog: Catalog
    reclaim: Reclaim
    lake: Lake

    def prepare(self) -> GCManifest:
        gc = self.reclaim.preparation
        run_id: GCRunID = gc.prepare_uncommitted(REPOSITORY).run_id
        gc.prepare_commits(REPOSITORY, run_id=run_id)
        lake = self.lake
        manifest = RunFiles(lake.block, lake.clock, lake.repository, run_id).find_manifest()
        assert manifest is not None
        return manifest


# What makes an old commit reachable


def create_branch(process: Process) -> object:
    return process.catalog.ref_changes.create_branch(REPOSITORY, NEW, process.lake.old)


def create_tag(process: Process) -> object:
    return process.catalog.ref_changes.create_tag(REPOSITORY, "t", process.lake.old)


def hard_reset(process: Process) -> object:
    return process.catalog.commits.hard_reset(REPOSITORY, SPARE, process.lake.old)


def merge(process: Process) -> object:
    return process.catalog.commits.merge(REPOSITORY, process.lake.old, DEV, MERGE)


def cherry_pick(process: Process) -> object:
    return process.catalog.commits.cherry_pick(REPOSITORY, DEV, process.lake.old, committer="")


def cherry_pick_with_a_hook(process: Process) -> object:
    """Whoever hears of the new commit makes a tag there."""
    refs = process.lake.other.catalog.ref_changes

    def take_up(commit_id: CommitID) -> None:
        with suppress(NotUnique):
            refs.create_tag(REPOSITORY, "told", commit_id)

    process.lake.hooks.tell = take_up
    return cherry_pick(process)


def commit_metarange(process: Process) -> object:
    metarange_id = process.engine.commits.get(
        process.lake.repository, process.lake.old
    ).metarange_id
    return process.catalog.commits.commit(REPOSITORY, DEV, REQUEST, source_metarange=metarange_id)


def copy(process: Process) -> object:
    return process.catalog.copies.copy(
        REPOSITORY, DEV, b"copied", source_ref=process.lake.old, source_path=b"old"
    )


NAMES: Final = (create_branch, create_tag, hard_reset)
TAKES: Final = (merge, cherry_pick, cherry_pick_with_a_hook, commit_metarange, copy)
Operation = Callable[[Process], object]


# Histories


def run(lake: Lake, body: Callable[[], object]) -> int:
    """Let the first process do something; return how many calls it made to the store."""
    lake.calls = count()
    with suppress(LakebedError):
        body()
    made = next(lake.calls)
    lake.calls = None
    return made


def expire_within(operation: Operation, first: int, second: int) -> int:
    """A pass before one call of an operation, and another with a collection before a later one.

    Returns how many calls the operation made; a place behind the last happens after it.
    """
    lake = Lake()
    if first < 0:
        lake.expire()

    def end() -> None:
        if first == second:
            lake.expire()
        lake.expire()
        lake.collect()

    lake.at = {second: end}
    if 0 <= first < second:
        lake.at[first] = lake.expire
    made = run(lake, partial(operation, lake.first))
    for happens in list(lake.at.values()):
        happens()
    lake.check()
    lake.expire()
    lake.expire()
    lake.collect()
    lake.check()
    return made


def every_place(operation: Operation) -> None:
    """All pairs of places; a pass before the operation counts as place -1."""
    calls = expire_within(operation, -1, STEPS_MAX)
    assert calls < STEPS_MAX
    for second in range(calls + 1):
        for first in range(-1, second + 1):
            expire_within(operation, first, second)


def operate_within_a_pass(operation: Operation, at: int, *, passes_before: int) -> int:
    """An operation at one step of a pass; a stale plan of another pass is carried out after it."""
    lake = Lake()
    lake.pass_days(3)
    other = lake.other.reclaim.expirer
    stale = other._plan(lake.repository)
    assert stale is not None
    for _ in range(passes_before):
        lake.expire()
    lake.pass_days(3)

    def happens() -> None:
        with suppress(LakebedError):
            operation(lake.other)
            other._apply(lake.repository, stale)

    lake.at = {at: happens}
    made = run(lake, partial(lake.first.reclaim.expirer.run, lake.repository, max_share=1.0))
    lake.collect()
    lake.check()
    lake.expire()
    lake.collect()
    lake.check()
    return made


def every_step_of_a_pass(operation: Operation) -> None:
    for passes_before in (0, 1):
        for at in count():
            if at > operate_within_a_pass(operation, at, passes_before=passes_before):
                break


def operate_within_a_look(operation: Operation, at: int, *, expires: bool) -> int:
    """An operation at one step of a preparation, of a commit that is about to expire."""
    lake = Lake()
    lake.expire()
    prepared: list[GCManifest] = []

    def happens() -> None:
        with suppress(LakebedError):
            operation(lake.other)
        if expires:
            lake.expire()
            lake.expire()

    lake.at = {at: happens}
    made = run(lake, lambda: prepared.append(lake.first.prepare()))
    for manifest in prepared:
        lake.delete_dead(manifest)
    lake.check()
    return made


def every_step_of_a_look(operation: Operation) -> None:
    for expires in (False, True):
        for at in count():
            if at > operate_within_a_look(operation, at, expires=expires):
                break


def leave_within(operation: Operation, at: int) -> int:
    """The branch is elsewhere at one call of an operation, while all that it left expires."""
    lake = Lake()
    commits = lake.other.catalog.commits
    head = lake.other.engine.branches.get(lake.repository, DEV).commit_id
    elsewhere = commits.commit(REPOSITORY, SPARE, REQUEST).commit.id

    def happens() -> None:
        commits.hard_reset(REPOSITORY, DEV, elsewhere)
        lake.expire()
        lake.expire()
        lake.collect()
        commits.hard_reset(REPOSITORY, DEV, head)

    lake.at = {at: happens}
    made = run(lake, partial(operation, lake.first))
    lake.check()
    return made


def every_time_to_leave(operation: Operation) -> None:
    for at in count():
        if at > leave_within(operation, at):
            break
