"""Scenarios of objects: links that race, and a garbage collector beside writers.

`links`: several processes link one address, with the same arguments and with others, while others
write to the path and commit; every call may fail, hang or kill its process. They may make
one entry at most, and every success that is reported must name that one.

`ended`: an operator ends the link that others are about to make, and collects garbage whatever
its age. Processes hang at every step. Whatever was acknowledged must have its bytes.

`first_reads`: several processes read and copy an object that was linked before it was there, while
the holder of its URL writes it again and again. All that anybody gets must be the same bytes.

`collected`: processes upload, copy, link, delete, reset and commit, while a collector looks, waits
and deletes by the rules (two looks, far enough apart; nothing young). Processes hang for longer
than garbage lives. Whatever was acknowledged and is still named must have its bytes.
`collected_on_conditions`: the same with writes on conditions, whose entries are only proposed at
first.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

import pyarrow as pa

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import ItemT, ResultT, Runtime, ThreadRuntime
from lakebed.block import Address, Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.model import BranchID, CommitID, RepositoryID
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.writer import Condition, if_absent
from lakebed.formats import Entry, MetaRangeID, entries_of
from lakebed.formats.gc_files import GCFile, GCFileKind, GCManifest, decode_gc_table
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.managed import ManagedStore
from lakebed.lake.catalog import Catalog
from lakebed.lake.errors import ChangedBytes, InvalidLink
from lakebed.lake.links import PhysicalAddress
from lakebed.lake.model import ObjectStats, physical_address
from lakebed.lake.settings import CatalogSettings, LinkSettings
from lakebed.reclaim.prepare import PageLimits
from lakebed.reclaim.runs import RunFiles
from lakebed.reclaim.service import Reclaim
from lakebed.testing.simulation.block import SimulatedBlock
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Faults, Simulation
from lakebed.testing.simulation.store import SimulatedStore
from tests.kit import staging
from tests.kit.engines import new_engine

REPOSITORY: Final = RepositoryID("lake")
MAIN: Final = BranchID("main")
DEV: Final = BranchID("dev")
PATHS: Final = [b"a", b"b", b"d/c"]
REQUEST: Final = CommitRequest(committer="", message="")

ENGINE: Final = EngineSettings(grace_seconds=10_000, scan_limit_seconds=7, sealed_tokens_max=3)
SETTINGS: Final = CatalogSettings(
    link_life_seconds=100,
    presign_life_seconds=10,
    longest_request_seconds=15,
    copy_window_seconds=80,
    partition_life_seconds=100,
    partition_objects_max=3,
    min_age_seconds=200,
    gap_seconds=15,
    skew_seconds=1,
)
SETTINGS.check(ENGINE)
LINKS: Final = LinkSettings(require_object=False)
"""In `first_reads` only, there is nothing at an address that is linked."""


class OnlookerRuntime(ThreadRuntime):
    """For an outside observer: it has the simulation's clock, and never waits for others."""

    def __init__(self, simulated: Runtime) -> None:
        self._simulated = simulated

    def now(self) -> float:
        return self._simulated.now()

    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 1
    ) -> list[ResultT]:
        return [function(item) for item in items]


class CatalogWorld:
    """What one run shares: the truth, and what actors were told."""

    def __init__(
        self,
        simulation: Simulation,
        settings: CatalogSettings = SETTINGS,
        inner: MemoryStore | None = None,
    ) -> None:
        self.simulation = simulation
        self.settings = settings
        self.random = self.simulation.random
        self.store = SimulatedStore(self.simulation, inner or MemoryStore(ThreadRuntime()))
        storage = self.simulation.actor("storage").runtime
        self.block = SimulatedBlock(self.simulation, MemoryBlockStore(storage))
        self.onlooker_runtime = runtime = OnlookerRuntime(storage)
        self.onlooker = new_engine(self.store.inner, self.block.inner, runtime=runtime)
        self.catalog = Catalog(
            self.onlooker, self.store.inner, self.block.inner, runtime, settings, links=LINKS
        )
        self.reclaim = Reclaim(
            self.catalog, self.onlooker, self.store.inner, self.block.inner, runtime, settings
        )
        namespace = Namespace.parse("mem://lake/x")
        self.onlooker.repositories.create(REPOSITORY, namespace, committer="")
        self.onlooker.refs.create_branch(REPOSITORY, DEV, MAIN)
        self.repository = self.onlooker.repositories.get(REPOSITORY)
        self.written = 0

    def process(self, name: str) -> "Process":
        actor = self.simulation.actor(name)
        store = self.store.handle(actor)
        # Without retries, lost replies reach the protocols more often.
        if self.random.random() < 0.5:
            store = ManagedStore(store, actor.runtime)
        block = self.block.handle(actor)
        engine = new_engine(store, block, runtime=actor.runtime, settings=ENGINE)
        catalog = Catalog(engine, store, block, actor.runtime, self.settings, links=LINKS)
        reclaim = Reclaim(catalog, engine, store, block, actor.runtime, self.settings)
        return Process(actor, catalog, reclaim, self)

    def new_body(self) -> list[bytes]:
        self.written += 1
        return [b"body %d" % self.written]

    def staged(self, branch: BranchID) -> list[Entry]:
        """What a branch shows."""
        page = staging.list_entries(self.onlooker, REPOSITORY, branch, EntryQuery())
        return [item for item in page.items if isinstance(item, Entry)]

    def committed(self) -> list[Entry]:
        """What the commits of branches hold, without commits that were never published."""
        found: dict[CommitID, list[Entry]] = {}
        left = [branch.commit_id for branch in self.onlooker.branches.list(self.repository)]
        while left:
            commit_id = left.pop()
            if commit_id not in found:
                left += self.onlooker.commits.get(self.repository, commit_id).parents
                page = staging.list_entries(self.onlooker, REPOSITORY, commit_id, EntryQuery())
                found[commit_id] = [item for item in page.items if isinstance(item, Entry)]
        return [entry for entries in found.values() for entry in entries]


@dataclass(frozen=True)
class Process:
    """A simulated server."""

    actor: SimulatedProcess
    catalog: Catalog
    reclaim: Reclaim
    world: CatalogWorld


# Links


@dataclass
class Race:
    """What several processes try to link, and what they are told."""

    given: PhysicalAddress
    told: list[ObjectStats] = field(default_factory=list)
    refused: int = 0
    overwritten: bool = False
    """Whether anyone tried to write something else to the path."""


def give_out(world: CatalogWorld) -> Race:
    given = world.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    world.block.inner.put(given.address, [b"linked"])
    return Race(given)


def link(race: Race, process: Process, checksum: str) -> None:
    """Link, and repeat it until there is an answer."""
    for _ in range(6):
        try:
            stats = process.catalog.links.link(
                REPOSITORY, MAIN, b"a", race.given.address, checksum=checksum
            )
        except InvalidLink:
            race.refused += 1
            return
        except LakebedError:
            continue
        race.told.append(stats)
        return


def overwrite(race: Race, process: Process) -> None:
    race.overwritten = True
    with suppress(LakebedError):
        process.catalog.uploads.upload(REPOSITORY, MAIN, b"a", process.world.new_body())


def commit(process: Process) -> None:
    with suppress(LakebedError):
        process.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)


LINK_FAULTS: Final = Faults(
    fail_before=0.03,
    fail_after=0.05,
    kill=0.01,
    stall=0.01,
    stall_seconds=100,
    skew_seconds=20,
    until_step=1500,
)


def links_hold(seed: int, faults: Faults = LINK_FAULTS) -> Race:
    world = CatalogWorld(Simulation(seed, faults, steps_max=200_000))
    race = give_out(world)
    for number, checksum in enumerate(["same", "same", "other"]):
        process = world.process(f"linker{number}")
        process.actor.start(partial(link, race, process, checksum))
    process = world.process("writer")
    if world.random.random() < 0.5:
        process.actor.start(partial(overwrite, race, process))
    process.actor.start(partial(commit, process))
    world.simulation.run()
    check_link(world, race)
    return race


def check_link(world: CatalogWorld, race: Race) -> None:
    entries = [*world.staged(MAIN), *world.staged(DEV), *world.committed()]
    relative = world.repository.namespace.relative(race.given.address)
    linked = [entry for entry in entries if entry.address == relative]
    assert len({(e.key, e.checksum, e.mtime) for e in linked}) <= 1, f"two entries: {linked}"
    assert len({stats.checksum for stats in race.told}) <= 1, f"two answers: {race.told}"
    if race.told and not race.overwritten:
        (shown,) = world.staged(MAIN)
        assert shown.address == relative, "the linked entry is not there"
    if linked and race.told:
        assert linked[0].checksum == race.told[0].checksum
    check_repeat(world, race)


def check_repeat(world: CatalogWorld, race: Race) -> None:
    """Once someone was told that it worked, a repeat says the same and changes nothing."""
    if not race.told:
        return
    before = world.staged(MAIN)
    again = world.catalog.links.link(
        REPOSITORY, MAIN, b"a", race.given.address, checksum=race.told[0].checksum
    )
    assert again == race.told[0]
    assert world.staged(MAIN) == before


# Links that an operator ends


@dataclass
class Ended:
    """An operator who ends a link, and then collects as from a quiet repository."""

    race: Race
    process: Process
    ended: bool = False
    deleted: int = 0

    def run(self) -> None:
        world, runtime = self.process.world, self.process.actor.runtime
        runtime.sleep(world.random.random() * 0.5)
        upload_id = self.race.given.address.path.rpartition("/")[2]
        if world.random.random() < 0.7:
            with suppress(LakebedError):
                self.process.reclaim.unfinished.end(REPOSITORY, upload_id)
                self.ended = True
        runtime.sleep(world.random.random() * 0.5)
        with suppress(LakebedError):
            self.collect()

    def collect(self) -> None:
        collector = Collector(self.process, lambda: None)
        manifest = collector.prepare()
        if any(row["open"] for row in collector.uploads(manifest)):
            return
        quiet = replace(manifest, run=replace(manifest.run, cutoff_us=1 << 62))
        for text in collector.garbage(quiet, collector.live(quiet)):
            collector.block.delete(Address.parse(text))
            self.deleted += 1


ENDED_FAULTS: Final = Faults(
    fail_before=0.01, fail_after=0.03, kill=0.01, stall=0.05, stall_seconds=5, until_step=1500
)


def ended_hold(seed: int) -> Ended:
    world = CatalogWorld(Simulation(seed, ENDED_FAULTS, steps_max=200_000))
    race = give_out(world)
    for number in range(2):
        process = world.process(f"linker{number}")
        process.actor.start(partial(link, race, process, "same"))
    operator = Ended(race, world.process("operator"))
    operator.process.actor.start(operator.run)
    world.simulation.run()
    check_link(world, race)
    if race.told:
        assert world.block.inner.exists(race.given.address), "an acknowledged link lost its bytes"
    return operator


# First reads


@dataclass
class FirstReads:
    """An object that was linked before it was there, and what anybody got of it."""

    address: Address
    got: set[bytes] = field(default_factory=set)
    changed: int = 0
    """How often somebody was told that it is another object by now."""


def read_first(reads: FirstReads, process: Process) -> None:
    objects = process.catalog.objects
    for _ in range(3):
        with suppress(LakebedError):
            try:
                with objects.read(objects.stat(REPOSITORY, MAIN, b"a")) as stream:
                    reads.got.add(b"".join(stream))
            except ChangedBytes:
                reads.changed += 1


def copy_first(reads: FirstReads, process: Process) -> None:
    with suppress(LakebedError):
        copied = process.catalog.copies.copy(
            REPOSITORY, DEV, b"b", source_ref=MAIN, source_path=b"a"
        )
        reads.got.add(process.world.block.inner.read(copied.address))


def write_again(reads: FirstReads, process: Process) -> None:
    runtime, random = process.actor.runtime, process.world.random
    for number in range(4):
        runtime.sleep(random.random() * 0.05)
        process.world.block.inner.put(reads.address, [b"body %d" % number])


def first_reads_hold(seed: int) -> FirstReads:
    world = CatalogWorld(Simulation(seed, LINK_FAULTS, steps_max=200_000))
    given = world.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    world.catalog.links.link(REPOSITORY, MAIN, b"a", given.address, checksum="c", size=6)
    reads = FirstReads(given.address)
    for name, act in [
        ("reader0", read_first),
        ("reader1", read_first),
        ("copier", copy_first),
        ("writer", write_again),
    ]:
        process = world.process(name)
        process.actor.start(partial(act, reads, process))
    world.simulation.run()
    objects = world.catalog.objects
    with (
        suppress(ChangedBytes),
        objects.read(objects.stat(REPOSITORY, MAIN, b"a")) as stream,
    ):
        reads.got.add(b"".join(stream))
    assert len(reads.got) <= 1, f"different bytes of one object: {reads.got}"
    return reads


# A collector beside writers

Acknowledged = set[tuple[bytes, Address, datetime]]


class Writer:
    """One task of a process: does one thing after another, and notes what was acknowledged."""

    def __init__(
        self, process: Process, acknowledged: Acknowledged, *, conditional: bool = False
    ) -> None:
        self.conditional = conditional
        self.process = process
        self.catalog = process.catalog
        self.random = process.world.random
        self.acknowledged = acknowledged

    def note(self, stats: ObjectStats) -> None:
        self.acknowledged.add((stats.path, stats.address, stats.mtime))

    def condition(self) -> Condition | None:
        """Draw a condition, of those that others often make false."""
        return self.random.choice([if_absent, bool, None]) if self.conditional else None

    def upload(self, branch: BranchID) -> None:
        path, body = self.random.choice(PATHS), self.process.world.new_body()
        upload = partial(self.catalog.uploads.upload, condition=self.condition())
        self.note(upload(REPOSITORY, branch, path, body))

    def copy(self, branch: BranchID) -> None:
        source, path = self.random.choice(PATHS), self.random.choice(PATHS)
        ref = self.random.choice([MAIN, DEV])
        copy = partial(self.catalog.copies.copy, condition=self.condition())
        self.note(copy(REPOSITORY, branch, path, source_ref=ref, source_path=source))

    def set_metadata(self, branch: BranchID) -> None:
        path = self.random.choice(PATHS)
        value = str(self.random.random())
        self.note(self.catalog.copies.set_metadata(REPOSITORY, branch, path, {"k": value}))

    def link(self, branch: BranchID) -> None:
        path = self.random.choice(PATHS)
        given = self.catalog.links.get_physical_address(REPOSITORY, branch, path)
        self.process.world.block.inner.put(given.address, self.process.world.new_body())
        self.process.actor.runtime.sleep(self.random.random() * SETTINGS.link_life_seconds * 1.5)
        link = partial(self.catalog.links.link, condition=self.condition())
        for _ in range(3):
            with suppress(LakebedError):
                checksum = given.address.path
                self.note(link(REPOSITORY, branch, path, given.address, checksum=checksum))
                return

    def delete(self, branch: BranchID) -> None:
        self.catalog.objects.delete(REPOSITORY, branch, self.random.choice(PATHS))

    def commit(self, branch: BranchID) -> None:
        self.catalog.commits.commit(REPOSITORY, branch, REQUEST)

    def reset(self, branch: BranchID) -> None:
        self.catalog.commits.reset(REPOSITORY, branch)

    def reset_key(self, branch: BranchID) -> None:
        self.catalog.commits.reset_object(REPOSITORY, branch, self.random.choice(PATHS))

    def wait(self, _branch: BranchID) -> None:
        self.process.actor.runtime.sleep(self.random.random() * SETTINGS.min_age_seconds)

    def run(self) -> None:
        names = ["upload", "copy", "set_metadata", "link", "delete", "commit", "reset", "reset_key"]
        for name in self.random.choices([*names, "wait"], [5, 4, 1, 2, 3, 3, 1, 1, 3], k=8):
            with suppress(LakebedError):
                getattr(self, name)(self.random.choice([MAIN, MAIN, DEV]))


class Collector:
    """Collects garbage by the rules, as the job will: on a server's files and on the storage."""

    def __init__(self, process: Process, check: Callable[[], None]) -> None:
        self.process = process
        self.runtime = process.actor.runtime
        self.block = process.world.block.handle(process.actor)
        self.repository = process.world.repository
        self.check = check
        self.candidates: dict[str, int] = {}
        """When the preparation that first found each object ended."""
        self.deleted = 0

    def run(self) -> None:
        for _ in range(40):
            with suppress(LakebedError):
                self.look()
            self.runtime.sleep(SETTINGS.gap_seconds * self.process.world.random.random() * 2)

    def look(self) -> None:
        manifest = self.prepare()
        live = self.live(manifest)
        found = self.garbage(manifest, live)
        self.candidates = {text: at for text, at in self.candidates.items() if text in found}
        for text, ended_us in list(self.candidates.items()):
            if manifest.run.began_us >= ended_us + manifest.run.gap_us:
                self.block.delete(Address.parse(text))
                self.deleted += 1
                del self.candidates[text]
                self.check()
        for text in found:
            self.candidates.setdefault(text, manifest.ended_us)

    def prepare(self) -> GCManifest:
        gc = self.process.reclaim.preparation
        one_by_one = self.process.world.random.random() < 0.2
        limits = PageLimits(objects=1, branches=1) if one_by_one else PageLimits()
        prepared = gc.prepare_uncommitted(REPOSITORY, limits=limits)
        while prepared.continuation_token:
            prepared = gc.prepare_uncommitted(
                REPOSITORY, token=prepared.continuation_token, limits=limits
            )
        gc.prepare_commits(REPOSITORY, run_id=prepared.run_id)
        files = RunFiles(self.block, self.runtime, self.repository, prepared.run_id)
        manifest = files.find_manifest()
        assert manifest is not None
        return manifest

    def live(self, manifest: GCManifest) -> set[str]:
        live: set[str] = set()
        for file in manifest.files:
            table = self.table(manifest, file)
            if file.kind is GCFileKind.COMMITS:
                for metarange in table.column("metarange_id").to_pylist():
                    live |= self.named_by(MetaRangeID(metarange))
            else:
                live |= set(table.column("address").to_pylist())
        return live

    def uploads(self, manifest: GCManifest) -> list[dict[str, object]]:
        """The uploads that a preparation found."""
        return [
            row
            for file in manifest.files
            if file.kind is GCFileKind.UPLOADS
            for row in self.table(manifest, file).to_pylist()
        ]

    def table(self, manifest: GCManifest, file: GCFile) -> pa.Table:
        folder = f"_lakebed/gc/{self.repository.unique_id}/runs/{manifest.run.run_id}"
        # The job's own reads are not tested here: they have no faults.
        address = self.repository.namespace.folder(folder).address(file.name)
        return decode_gc_table(self.process.world.block.inner.read(address), file, file=file.name)

    def named_by(self, metarange: MetaRangeID) -> set[str]:
        committed = self.process.world.onlooker._committed_in(self.repository.files_root)
        return {
            str(physical_address(self.repository.namespace, entry))
            for table in committed.scan(metarange)
            for entry in entries_of(table)
        }

    def garbage(self, manifest: GCManifest, live: set[str]) -> set[str]:
        namespace = self.repository.namespace
        place = namespace.folder(f"repos/{self.repository.unique_id}/branches")
        found: set[str] = set()
        for batch in self.block.list_objects(place):
            for row in batch.to_pylist():
                issued = ObjectPath.parse(namespace.relative(Address.parse(row["address"])))
                assert issued is not None
                written_us = max(issued.issued_us, row["mtime"].timestamp() * 1e6)
                if row["address"] not in live and written_us < manifest.run.cutoff_us:
                    found.add(row["address"])
        return found


COLLECT_FAULTS: Final = Faults(
    fail_before=0.01, fail_after=0.02, kill=0.002, stall=0.02, stall_seconds=400, until_step=6000
)


def nothing_acknowledged_is_gone(world: CatalogWorld, acknowledged: Acknowledged) -> None:
    """Every entry that is named, and was acknowledged in this form, has its bytes."""
    entries = [*world.staged(MAIN), *world.staged(DEV), *world.committed()]
    for entry in entries:
        address = physical_address(world.repository.namespace, entry)
        if (entry.key, address, entry.mtime) in acknowledged:
            assert world.block.inner.exists(address), f"{entry.key!r} lost its bytes at {address}"


class CollectorLives(Simulation):
    """Faults for all but the collector, which may only be slow: a failed one does no harm."""

    def call(
        self,
        actor: SimulatedProcess,
        label: tuple[object, ...],
        apply: Callable[[], ResultT],
        lost: Callable[[bool], Exception],
    ) -> ResultT:
        if actor.name != "collector":
            return super().call(actor, label, apply, lost)
        held_up = self.random.random() < 0.003
        self.pause(actor, self.random.random() * (100 if held_up else 0.01))
        result = apply()
        self.pause(actor, self.random.random() * 0.01)
        return result


def collected_hold(seed: int, faults: Faults = COLLECT_FAULTS, *, conditional: bool = False) -> int:
    """Run it; return how many objects were deleted."""
    world = CatalogWorld(CollectorLives(seed, faults, steps_max=200_000))
    acknowledged: Acknowledged = set()
    for number in range(3):
        process = world.process(f"server{number}")
        for _ in range(2):
            writer = Writer(process, acknowledged, conditional=conditional)
            process.actor.start(writer.run)
    check = partial(nothing_acknowledged_is_gone, world, acknowledged)
    collector = Collector(world.process("collector"), check)
    collector.process.actor.start(collector.run)
    world.simulation.run()
    check()
    return collector.deleted


def links(seed: int) -> None:
    links_hold(seed)


def ended(seed: int) -> None:
    ended_hold(seed)


def first_reads(seed: int) -> None:
    first_reads_hold(seed)


def collected(seed: int) -> None:
    collected_hold(seed)


def collected_on_conditions(seed: int) -> None:
    collected_hold(seed, conditional=True)


SCENARIOS: Final = {
    "collected_on_conditions": collected_on_conditions,
    "links": links,
    "ended": ended,
    "first_reads": first_reads,
    "collected": collected,
}
