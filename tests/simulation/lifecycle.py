"""The whole life of objects: retention, purges, the real job of garbage collection, and a restore.

Processes take up old commits in every way, as in `retention`, while servers make whole runs of the
job (`job` on `on_arrow`: expire, prepare, judge, two marks, delete) on the
simulated storage. Another process purges paths. An operator takes the rules away for a while. In
the end the refs are lost, and come back from a dump. Every call may fail, hang for days, or kill
its process.

- Whatever a branch or a tag leads to, or is staged and was acknowledged, has its bytes, or a mark
  of a purge says why not.
- No branch or tag names a commit that has expired, and none expired that was younger than every
  rule. While there are no rules, none expires.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore, MemorySettings
from lakebed.engine.expiry_marks import EXPIRED
from lakebed.engine.model import CommitID
from lakebed.kv import store as kv_store
from lakebed.lake.model import physical_address
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.reclaim.collector import job as gc_job
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.storage import Storage
from lakebed.reclaim.references import PurgeQuery
from lakebed.reclaim.retention import RetentionRules
from lakebed.reclaim.service import OwnServer
from tests.simulation import retention
from tests.simulation.objects import REPOSITORY, OnlookerRuntime
from tests.simulation.retention import DAY, FAULTS, RULES, SKEW_SECONDS, Days, Lake, Process, User

WEIGHTS: Final = {**retention.ALL, "stage": 8, "delete_branch": 1}
LEAST_DAYS: Final = min(RULES.default_days, *(rule.days for rule in RULES.branches))


@dataclass(frozen=True)
class SimulatedStorage(Storage):
    """The storage of the lake, as one process sees it."""

    process: Process | None = None

    @property
    def block(self) -> BlockStore:
        assert self.process is not None
        return self.process.lake.world.block.handle(self.process.actor)

    @property
    def runtime(self) -> Runtime:
        assert self.process is not None
        return self.process.actor.runtime


class Uploader(User):
    """Also leaves uploads staged, for days."""

    def stage(self) -> None:
        self.upload(self.branch())


class Life(Lake):
    """What one run shares, and what must hold."""

    def check_ref(self, ref: str, what: str) -> None:
        marks = PurgeMarks(self.world.store.inner)
        for entry in self.entries(ref):
            address = physical_address(self.world.repository.namespace, entry)
            there = self.world.block.inner.exists(address)
            if entry.key in self.acknowledged and not there:
                assert marks.find(address) is not None, f"{what}: {entry.key!r} is gone"

    def check(self) -> None:
        super().check()
        engine, repository = self.world.onlooker, self.world.repository
        stored = {commit.id: commit.stored_us for commit in engine.commits.list(repository)}
        least_us = (LEAST_DAYS * DAY - 2 * SKEW_SECONDS) * 1e6
        for mark in engine.marks.records(repository).scan():
            commit_id = CommitID(mark.name.decode())
            # Marks that a restore brought back do not say when they were made.
            if mark.message.state == EXPIRED and mark.message.marked_us and commit_id in stored:
                age_us = mark.message.marked_us - stored[commit_id]
                assert age_us >= least_us, f"{commit_id} expired {age_us / 1e6:.0f} s old"
        expired = set(engine.marks.expired(repository))
        named = {branch.commit_id for branch in engine.branches.list(repository)}
        named |= {tag.commit_id for tag in engine.tags.list(repository)}
        assert not named & expired, "a ref names a commit that has expired"


def collect(process: Process) -> None:
    """Make run after run, as a server does."""
    lake, runtime = process.lake, process.actor.runtime
    repository = lake.world.repository
    storage = SimulatedStorage(
        MemorySettings(), repository.namespace, repository.unique_id, process=process
    )
    server = OwnServer(process.reclaim, repository)
    executor = ArrowExecutor(storage, runtime)
    job = CollectorJob(executor, server, storage, runtime=runtime, is_patient=False)
    for pause in lake.days(0.6):
        runtime.sleep(pause)
        try:
            summary = job.run(CollectorOptions(max_share=1.0))
        except LakebedError as error:
            lake.told[f"refused: {type(error).__name__}"] += 1
        else:
            lake.told["runs"] += 1
            lake.told["deleted"] += summary.deleted
            lake.told["ended"] += summary.commits["expired"]
        lake.check()


def purge(process: Process) -> None:
    lake, runtime = process.lake, process.actor.runtime
    for pause in lake.days(1.5):
        runtime.sleep(pause)
        if not lake.acknowledged:
            continue
        path = lake.world.random.choice(sorted(lake.acknowledged))
        with suppress(LakebedError):
            report = process.reclaim.purges.purge(
                REPOSITORY, PurgeQuery("path", path), reason="r", username="u"
            )
            lake.told["purged"] += report.deleted
            if report.failed.count:
                continue
            for ref in lake.world.onlooker.branches.list(lake.world.repository):
                for entry in lake.entries(ref.id):
                    address = physical_address(lake.world.repository.namespace, entry)
                    gone = not lake.world.block.inner.exists(address)
                    assert gone or entry.key != path, f"{path!r} was not purged"


def rule(process: Process) -> None:
    """Take the rules away for a while, and set them again."""
    lake, runtime = process.lake, process.actor.runtime
    engine, repository = lake.world.onlooker, lake.world.repository
    for pause in lake.days(8):
        runtime.sleep(pause)
        with suppress(LakebedError):
            process.reclaim.retention.delete_rules(REPOSITORY)
            before = set(engine.marks.expired(repository))
            runtime.sleep(lake.world.random.random() * 2 * DAY)
            new = set(engine.marks.expired(repository)) - before
            assert not new, f"{new} expired by rules that were deleted"
            lake.told["rules were off"] += 1
            process.reclaim.retention.set_rules(
                REPOSITORY, RetentionRules(RULES.default_days, RULES.branches)
            )


@contextmanager
def simulated() -> Iterator[None]:
    """No thread renews leases, scans are read in small pages, and ids follow from the seed."""

    def no_thread(_beat: object, *, every_seconds: float) -> Any:
        return nullcontext()

    def random_bytes(runtime: OnlookerRuntime, count: int) -> bytes:
        return runtime._simulated.random_bytes(count)

    with (
        patch.object(gc_job, "heartbeat_thread", no_thread),
        patch.object(OnlookerRuntime, "random_bytes", random_bytes),
        patch.object(kv_store, "FIRST_PAGE", 2),
    ):
        yield


def life_holds(seed: int) -> Lake:
    with simulated():
        begun = retention.begin(Days(seed, FAULTS, steps_max=600_000))
        lake = Life(begun.world, begun.known)
        # Servers differ from the storage by no more than the setting allows.
        storage: Any = lake.world.onlooker_runtime._simulated
        storage._skew = 0
        for number in range(2):
            process = lake.process(f"server{number}")
            for _ in range(2):
                user = Uploader(process)
                lake.working.add(user)
                process.actor.start(partial(user.run, WEIGHTS))
        for name, act in (
            ("collector0", collect),
            ("collector1", collect),
            ("purger", purge),
            ("operator", rule),
            ("expirer", retention.expire),
            ("dumper", retention.dump),
        ):
            process = lake.process(name)
            process.actor.start(partial(act, process))
        lake.world.simulation.run()
        lake.check()
        if lake.dumps:
            retention.restore(lake)
    return lake


def life(seed: int) -> None:
    """All of it."""
    life_holds(seed)


SCENARIOS: Final = {"life": life}
