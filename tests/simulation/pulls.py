"""Scenarios of pull requests: several processes merge, close, reopen and edit one of them.

Others commit to both branches, and Cleaners bring to an end what was cut off. Every call may fail,
hang or kill its process. The pull request may be merged once at most. Whoever was told that it is
merged finds the commit in the history of the destination, and so does its record in the end.
Whoever closed it finds it unmerged until somebody opens it again. No acknowledged commit is lost.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.model import BranchID, Commit, CommitID
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.commits import PULL_REQUEST_KEY
from lakebed.lake.errors import PullBusy, PullStatusRefused
from lakebed.lake.keys import PULLS, PULLS_MERGING
from lakebed.lake.pulls.model import IN_PROGRESS, PullID, PullStatus
from lakebed.lake.pulls.pulls import Pulls
from lakebed.lake.settings import CatalogSettings
from lakebed.testing.simulation.simulator import Faults, Simulation
from tests.simulation.objects import DEV, MAIN, REPOSITORY, REQUEST, CatalogWorld, Process

FAULTS: Final = Faults(
    fail_before=0.01,
    fail_after=0.03,
    kill=0.004,
    stall=0.02,
    stall_seconds=200,
    skew_seconds=20,
    until_step=3000,
)

DUEL_FAULTS: Final = Faults(
    fail_before=0.01, fail_after=0.02, stall=0.1, stall_seconds=2, kill=0.002, until_step=1000
)


@dataclass
class Pulling:
    """A pull request, and what actors were told."""

    world: CatalogWorld
    pull_id: PullID
    acknowledged: list[CommitID] = field(default_factory=list)
    """Commits on the destination."""
    told_merged: set[CommitID] = field(default_factory=set)
    reopeners: int = 0
    """How many may have opened it again."""
    told_closed: bool = False
    refused: int = 0
    busy: int = 0
    pace: float = 1.0
    """How long actors pause, to meet by chance or all the time."""

    def pause(self, process: Process, seconds: float) -> None:
        process.actor.runtime.sleep(process.world.random.random() * seconds * self.pace)

    @property
    def record(self) -> pb.PullRequest:
        records = Records(self.world.store.inner, PULLS, self.world.repository.partition)
        return records.get(self.pull_id.encode()).message

    def announced(self) -> int:
        partition = self.world.repository.partition
        return len(list(Records(self.world.store.inner, PULLS_MERGING, partition).scan()))

    def history(self) -> list[Commit]:
        """The first-parent history of the destination, newest first."""
        world, found = self.world, list[Commit]()
        left: CommitID | None = world.onlooker.branches.get(world.repository, MAIN).commit_id
        while left is not None:
            found.append(world.onlooker.commits.get(world.repository, left))
            left = found[-1].parents[0] if found[-1].parents else None
        return found

    def merges(self) -> list[Commit]:
        return [each for each in self.history() if PULL_REQUEST_KEY in each.metadata]


def begin(world: CatalogWorld) -> Pulling:
    put(world.process("first"), DEV, b"first", direct=True)
    pull_id = world.catalog.pulls.create(
        REPOSITORY, source=DEV, destination=MAIN, title="title", author="ann"
    )
    return Pulling(world, pull_id)


def put(process: Process, branch: BranchID, path: bytes, *, direct: bool = False) -> Commit:
    catalog = process.world.catalog if direct else process.catalog
    catalog.uploads.upload(REPOSITORY, branch, path, process.world.new_body())
    return catalog.commits.commit(REPOSITORY, branch, REQUEST).commit


# What actors do


def merge(pulling: Pulling, process: Process) -> None:
    for _ in range(5):
        pulling.pause(process, 40)
        try:
            request = MergeRequest(committer=process.actor.name, message="merge")
            merged = process.catalog.pulls.merge(REPOSITORY, pulling.pull_id, request)
        except PullStatusRefused:
            pulling.refused += 1
        except PullBusy:
            pulling.busy += 1
        except LakebedError:
            continue
        else:
            pulling.told_merged.add(merged)


def close(pulling: Pulling, process: Process) -> None:
    pulling.pause(process, 60)
    with suppress(LakebedError):
        process.catalog.pulls.update(REPOSITORY, pulling.pull_id, status=PullStatus.CLOSED)
        pulling.told_closed = True


def reopen(pulling: Pulling, process: Process) -> None:
    pulling.pause(process, 90)
    pulling.reopeners += 1
    with suppress(LakebedError):
        process.catalog.pulls.update(REPOSITORY, pulling.pull_id, status=PullStatus.OPEN)


def edit(pulling: Pulling, process: Process) -> None:
    for number in range(3):
        pulling.pause(process, 30)
        with suppress(LakebedError):
            process.catalog.pulls.update(REPOSITORY, pulling.pull_id, title=f"title {number}")


def commit_source(pulling: Pulling, process: Process) -> None:
    """Without new changes on the source, a second merge would have nothing to merge."""
    for number in range(4):
        pulling.pause(process, 30)
        with suppress(LakebedError):
            put(process, DEV, b"dev%d" % number)


def commit_destination(pulling: Pulling, process: Process) -> None:
    for number in range(3):
        pulling.pause(process, 30)
        with suppress(LakebedError):
            pulling.acknowledged.append(put(process, MAIN, b"main%d" % number).id)


def clean(pulling: Pulling, process: Process) -> None:
    for _ in range(15):
        pulling.pause(process, 60)
        with suppress(LakebedError):
            process.catalog.pulls.merger.recover_all(process.world.repository)


def start(pulling: Pulling, name: str, task: Callable[[Pulling, Process], None]) -> None:
    process = pulling.world.process(name)
    process.actor.start(partial(task, pulling, process))


# What must hold


def check(pulling: Pulling) -> None:
    history = {commit.id for commit in pulling.history()}
    lost = [commit_id for commit_id in pulling.acknowledged if commit_id not in history]
    assert not lost, f"acknowledged commits are lost: {lost}"
    merges = pulling.merges()
    assert len(merges) <= 1, "the pull request was merged twice"
    published = {commit.id for commit in merges}
    assert pulling.told_merged <= published, "told of a merge that is not there"
    record = pulling.record
    if record.state == pb.PULL_STATE_MERGED:
        assert published == {record.merged_commit_id}, "said to be merged, and is not there"
    if published and record.state not in IN_PROGRESS:
        assert record.state == pb.PULL_STATE_MERGED, "merged, and not said to be"
    if pulling.told_closed and not pulling.reopeners:
        assert not published, "closed and merged"
        assert record.state == pb.PULL_STATE_CLOSED, "told it was closed, and it is not"


def bring_to_end(pulling: Pulling) -> None:
    """Clean up what dead processes left, with nothing going wrong any more."""
    world = pulling.world
    settings = CatalogSettings(task_heartbeat_seconds=0)  # every merge counts as dead at once
    pulls = Pulls(world.onlooker, world.store.inner, world.onlooker_runtime, settings)
    for _ in range(2):
        pulls.merger.recover_all(world.repository)
    assert pulling.record.state not in IN_PROGRESS, "the pull request is never settled"
    assert not pulling.announced(), "an announcement is left"


# Scenarios


def pulls_hold(seed: int, faults: Faults = FAULTS) -> Pulling:
    settings = CatalogSettings(task_heartbeat_seconds=15)
    world = CatalogWorld(Simulation(seed, faults, steps_max=400_000), settings)
    pulling = begin(world)
    for number in range(2):
        start(pulling, f"merger{number}", merge)
    start(pulling, "source", commit_source)
    start(pulling, "destination", commit_destination)
    start(pulling, "cleaner", clean)
    start(pulling, "editor", edit)
    if world.random.random() < 0.4:
        start(pulling, "closer", close)
    if world.random.random() < 0.3:
        start(pulling, "reopener", reopen)
    world.simulation.run()
    check(pulling)
    bring_to_end(pulling)
    check(pulling)
    return pulling


def duels_hold(seed: int) -> Pulling:
    """Two merge, and two Cleaners take over whatever they meet: they wait for no sign of life."""
    settings = CatalogSettings(task_heartbeat_seconds=1e-6)
    world = CatalogWorld(Simulation(seed, DUEL_FAULTS, steps_max=400_000), settings)
    pulling = begin(world)
    pulling.pace = world.random.choice([0.0, 1e-4, 1e-3])
    start(pulling, "source", commit_source)
    for number in range(2):
        start(pulling, f"merger{number}", merge)
        start(pulling, f"cleaner{number}", clean)
    world.simulation.run()
    check(pulling)
    bring_to_end(pulling)
    check(pulling)
    return pulling


def pulls(seed: int) -> None:
    pulls_hold(seed)


def duels(seed: int) -> None:
    duels_hold(seed)


SCENARIOS: Final = {"pulls": pulls, "duels": duels}
