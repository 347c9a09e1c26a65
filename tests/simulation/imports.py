"""Scenarios of imports: several processes run two imports, beside commits, merges and cancels.

Every call may fail, hang or kill its process; whoever lives takes over. An import may be published
once at most: exactly once if it is said to be completed, and not at all if it was canceled. Its
commit holds what it was to import in the intervals of its destinations, and the content of its
parent everywhere else. No commit that was acknowledged is lost.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.block import Namespace
from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.model import Commit, CommitID
from lakebed.formats import Entry
from lakebed.lake.errors import ImportOver
from lakebed.lake.imports.imports import CANCELED, ImportID, ImportProgress, Imports
from lakebed.lake.imports.runner import ImportRunner
from lakebed.lake.imports.sources import ImportSource
from lakebed.testing.simulation.simulator import Faults, Simulation
from tests.kit import staging
from tests.simulation.objects import DEV, MAIN, REPOSITORY, REQUEST, SETTINGS, CatalogWorld, Process

PLACE: Final = Namespace.parse("mem://data/outside")
PATHS: Final = [b"1", b"2", b"x/3", b"x/4", b"y/5"]
BEFORE: Final = [b"key", b"key\x00", b"key1", b"to", b"to/old", b"to/x/3", b"to0", b"to0/x"]
PREFIX, KEY = b"to/", b"key"

FAULTS: Final = Faults(
    fail_before=0.01,
    fail_after=0.02,
    kill=0.006,
    stall=0.01,
    stall_seconds=200,
    skew_seconds=20,
    until_step=3000,
)
DUEL_FAULTS: Final = Faults(
    fail_after=0.005, stall=0.1, stall_seconds=10, kill=0.001, until_step=3000
)


@dataclass
class Importing:
    """Two imports, and what actors were told."""

    world: CatalogWorld
    imports: Imports
    ids: dict[str, ImportID] = field(default_factory=dict)
    """By the message of the commit that each is to make."""
    canceled: set[str] = field(default_factory=set)
    too_late: int = 0
    pace: float = 60.0
    """For about so many seconds at most, processes do nothing between two looks at imports."""
    acknowledged: list[CommitID] = field(default_factory=list)

    def status(self, message: str) -> ImportProgress:
        return self.imports.status(REPOSITORY, MAIN, self.ids[message])

    def history(self) -> list[Commit]:
        """The first-parent history of main, newest first."""
        world, found = self.world, list[Commit]()
        left: CommitID | None = world.onlooker.branches.get(world.repository, MAIN).commit_id
        while left is not None:
            found.append(world.onlooker.commits.get(world.repository, left))
            left = found[-1].parents[0] if found[-1].parents else None
        return found

    def content(self, commit_id: CommitID) -> dict[bytes, str]:
        page = staging.list_entries(self.world.onlooker, REPOSITORY, commit_id, EntryQuery())
        return {item.key: item.address for item in page.items if isinstance(item, Entry)}


def begin(world: CatalogWorld) -> Importing:
    """Objects here and there, and two imports that wait."""
    for path in BEFORE:
        world.catalog.uploads.upload(REPOSITORY, MAIN, path, [path])
    world.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)
    for path in PATHS:
        world.block.inner.put(PLACE.address(path.decode()), [path])
    engine, store = world.onlooker, world.store.inner
    runtime = world.process("clock").actor.runtime
    imports = Imports(
        engine, store, world.block.inner, runtime, world.settings, on_start=lambda: None
    )
    found = Importing(world, imports)
    sources = {
        "prefix": ImportSource.of_prefix(PLACE, PREFIX),
        "object": ImportSource(PLACE.address("1"), KEY),
    }
    for message, source in sources.items():
        found.ids[message] = imports.start(
            REPOSITORY, MAIN, [source], committer="", message=message
        )
    return found


# What actors do


def run_imports(importing: Importing, process: Process) -> None:
    for _ in range(12):
        with suppress(LakebedError):
            process.catalog.import_runner.run_waiting()
        process.actor.runtime.sleep(process.world.random.random() * importing.pace)


def cancel(importing: Importing, process: Process) -> None:
    random = process.world.random
    process.actor.runtime.sleep(random.random() * random.choice([1, 10, 100]))
    message = random.choice(list(importing.ids))
    try:
        process.catalog.imports.cancel(REPOSITORY, MAIN, importing.ids[message])
    except ImportOver:
        importing.too_late += 1
    except LakebedError:
        return
    else:
        importing.canceled.add(message)


def commit(importing: Importing, process: Process) -> None:
    """Delete what an import brings or put something beside it, and commit that."""
    random = process.world.random
    for _ in range(4):
        process.actor.runtime.sleep(random.random() * 40)
        with suppress(LakebedError):
            path = random.choice([b"to/1", b"to/x/4", b"key", b"beside"])
            if random.random() < 0.6:
                process.catalog.objects.delete(REPOSITORY, MAIN, path)
            else:
                process.catalog.uploads.upload(REPOSITORY, MAIN, path, process.world.new_body())
            result = process.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)
            importing.acknowledged.append(result.commit.id)


def merge(importing: Importing, process: Process) -> None:
    with suppress(LakebedError):
        process.catalog.uploads.upload(REPOSITORY, DEV, b"merged", process.world.new_body())
        process.catalog.commits.commit(REPOSITORY, DEV, REQUEST)
        request = MergeRequest(committer="", message="merge")
        merged = process.catalog.commits.merge(REPOSITORY, DEV, MAIN, request)
        importing.acknowledged.append(merged.id)


def start(importing: Importing, name: str, task: Callable[[Importing, Process], None]) -> None:
    process = importing.world.process(name)
    process.actor.start(partial(task, importing, process))


# What must hold


def check(importing: Importing) -> None:
    history = importing.history()
    names = {commit.id for commit in history}
    lost = [commit_id for commit_id in importing.acknowledged if commit_id not in names]
    assert not lost, f"acknowledged commits are lost: {lost}"
    for message in importing.ids:
        published = [commit for commit in history if commit.message == message]
        assert len(published) <= 1, f"import {message} was published twice"
        status = importing.status(message)
        if status.completed:
            assert published, f"import {message} is said to be completed, and is not there"
            assert status.commit is not None
            assert status.commit.id == published[0].id
        if message in importing.canceled:
            assert not published, f"import {message} was canceled and published"
            assert status.error == CANCELED
        for commit in published:
            check_content(importing, commit)


def check_content(importing: Importing, commit: Commit) -> None:
    expected = importing.content(commit.parents[0])
    if commit.message == "prefix":
        expected = {key: each for key, each in expected.items() if not key.startswith(PREFIX)}
        expected |= {PREFIX + path: str(PLACE.address(path.decode())) for path in PATHS}
    else:
        expected[KEY] = str(PLACE.address("1"))
    assert importing.content(commit.id) == expected, f"import {commit.message} holds other things"


def bring_to_end(importing: Importing) -> None:
    """Take over what dead processes left, with nothing going wrong any more."""
    world = importing.world
    # To whoever looks twice, every process that does nothing meanwhile has died.
    settings = replace(world.settings, task_heartbeat_seconds=1e-9)
    runner = ImportRunner(
        world.onlooker,
        world.store.inner,
        world.block.inner,
        world.onlooker_runtime,
        settings,
        importing.imports,
    )
    with suppress(LakebedError):
        world.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)
    for _ in range(3):
        runner.run_waiting()
    for message in importing.ids:
        status = importing.status(message)
        assert status.completed or status.error, f"import {message} never ends"


# Scenarios


def imports_hold(seed: int, faults: Faults = FAULTS) -> Importing:
    world = CatalogWorld(Simulation(seed, faults, steps_max=400_000))
    importing = begin(world)
    for number in range(3):
        start(importing, f"runner{number}", run_imports)
    start(importing, "committer", commit)
    if world.random.random() < 0.5:
        start(importing, "merger", merge)
    if world.random.random() < 0.4:
        start(importing, "canceler", cancel)
    world.simulation.run()
    check(importing)
    bring_to_end(importing)
    check(importing)
    return importing


def duels_hold(seed: int) -> Importing:
    """Three processes take over whatever import they meet: they wait for no sign of life."""
    settings = replace(SETTINGS, task_heartbeat_seconds=1e-6)
    world = CatalogWorld(Simulation(seed, DUEL_FAULTS, steps_max=400_000), settings)
    importing = begin(world)
    importing.pace = world.random.choice([1e-3, 1e-2, 0.1])
    for number in range(3):
        start(importing, f"runner{number}", run_imports)
    world.simulation.run()
    check(importing)
    bring_to_end(importing)
    check(importing)
    return importing


def imports(seed: int) -> None:
    imports_hold(seed)


def duels(seed: int) -> None:
    duels_hold(seed)


SCENARIOS: Final = {"imports": imports, "duels": duels}
