"""A purge beside those who copy what it deletes.

Processes copy an object from branch to branch, on and on, and commit, while another purges it by
its checksum. Every call may fail, hang or kill its process. When the purge has ended well, nothing
that is staged or published names an object that has the purged bytes, and whatever has lost its
bytes has a mark that says why.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import md5
from typing import Any, Final

from lakebed.base.errors import LakebedError
from lakebed.block import Address
from lakebed.engine.committed import EntryQuery
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import CommitID
from lakebed.engine.staging.cells import decode
from lakebed.formats import Entry
from lakebed.lake.model import physical_address
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.reclaim.references import PurgeQuery
from lakebed.testing.simulation.simulator import Faults, Simulation
from tests.kit import staging
from tests.simulation.objects import DEV, MAIN, PATHS, REPOSITORY, REQUEST, CatalogWorld, Process

SECRET: Final = b"secret"
QUERY: Final = PurgeQuery("checksum", md5(SECRET, usedforsecurity=False).hexdigest().encode())
FAULTS: Final = Faults(
    fail_before=0.005, fail_after=0.01, kill=0.002, stall=0.03, stall_seconds=2, until_step=4000
)
SLEEPERS: Final = Faults(
    fail_before=0.002, fail_after=0.004, kill=0.001, stall=0.06, stall_seconds=60, until_step=4000
)
"""Longer than any request should last: copies must hold even so. (What such a process puts back is
found by the next purge only; that is rarer than these seeds are many.)"""


@dataclass
class Purger:
    process: Process
    deleted: int = 0
    done: bool = False
    searched: set[CommitID] = field(default_factory=set)
    """The commit records that were there when its last search began, published or not."""

    def run(self) -> None:
        self.note_searches()
        runtime, random = self.process.actor.runtime, self.process.world.random
        runtime.sleep(random.random() * 0.5)
        for _ in range(4):
            with suppress(LakebedError):
                report = self.process.reclaim.purges.purge(
                    REPOSITORY, QUERY, reason="r", username="u"
                )
                self.deleted += report.deleted
                self.done = not report.failed.count
                return

    def note_searches(self) -> None:
        world, purges = self.process.world, self.process.reclaim.purges
        look = purges._search

        def look_and_note(*arguments: Any, **options: Any) -> Any:
            commits = world.onlooker.commits.list(world.repository)
            self.searched = {commit.id for commit in commits}
            return look(*arguments, **options)

        purges._search = look_and_note  # type: ignore[method-assign]


def copy(process: Process) -> None:
    random, copies = process.world.random, process.catalog.copies
    for _ in range(5):
        ref, branch = random.choice([(MAIN, DEV), (DEV, MAIN)])
        source, path = random.choice(PATHS), random.choice(PATHS)
        with suppress(LakebedError):
            copies.copy(REPOSITORY, branch, path, source_ref=ref, source_path=source)
        process.actor.runtime.sleep(random.random() * 0.2)


def commit(process: Process) -> None:
    random = process.world.random
    for _ in range(3):
        process.actor.runtime.sleep(random.random() * 0.5)
        with suppress(LakebedError):
            process.catalog.commits.commit(REPOSITORY, random.choice([MAIN, DEV]), REQUEST)


def all_entries(world: CatalogWorld, purger: Purger) -> Iterator[Entry]:
    """All that any token of a branch names, any commit that was published, or was there in time.

    A committer that hangs for too long may store, after the last search, the record of a commit
    that it does not publish. What only that names is found by the next purge.
    """
    for branch in world.onlooker.branches.list(world.repository):
        for token in branch.tokens:
            for item in world.store.inner.scan(token.encode(), STAGED_PREFIX):
                entry = decode(item.key[len(STAGED_PREFIX) :], item.value)
                if entry is not None:
                    yield entry
    yield from world.committed()
    for commit in world.onlooker.commits.list(world.repository):
        if commit.id in purger.searched:
            page = staging.list_entries(world.onlooker, REPOSITORY, commit.id, EntryQuery())
            yield from (item for item in page.items if isinstance(item, Entry))


def check(world: CatalogWorld, purger: Purger) -> None:
    marks = PurgeMarks(world.store.inner)
    for entry in all_entries(world, purger):
        address: Address = physical_address(world.repository.namespace, entry)
        there = world.block.inner.exists(address)
        if not there:
            assert marks.find(address) is not None, f"{address} is gone, and nobody knows why"
        elif purger.done:
            assert world.block.inner.read(address) != SECRET, f"{address} was not purged"


def purged_hold(seed: int, faults: Faults = FAULTS) -> Purger:
    world = CatalogWorld(Simulation(seed, faults, steps_max=400_000))
    for path in PATHS[:2]:
        world.catalog.uploads.upload(REPOSITORY, MAIN, path, [SECRET])
    for number in range(3):
        process = world.process(f"copier{number}")
        process.actor.start(partial(copy, process))
    process = world.process("committer")
    process.actor.start(partial(commit, process))
    purger = Purger(world.process("purger"))
    purger.process.actor.start(purger.run)
    world.simulation.run()
    check(world, purger)
    return purger


def purged(seed: int) -> None:
    purged_hold(seed)


SCENARIOS: Final = {"purged": purged}
