"""A counter by conditional uploads whose clients repeat them, as SDKs do.

`counted`: clients read a number, add one and write the new number on the condition that the object
is the one that was read. After an error they repeat the request with the same id; after a refusal
they begin again. Others commit meanwhile. Calls are lost, held up, or kill their
process. Each number may be acknowledged once, and the last one counts the acknowledged increments;
beside them only those of clients that gave up or died.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.engine.errors import PreconditionFailed
from lakebed.formats import Entry
from lakebed.lake.repeats import Invocation
from lakebed.testing.simulation.simulator import Faults, Simulation
from tests.simulation.objects import MAIN, REPOSITORY, REQUEST, CatalogWorld, Process

PATH: Final = b"counter"
SERVERS: Final = 3
CLIENTS_OF_EACH: Final = 2
INCREMENTS: Final = 4
ATTEMPTS: Final = 6
FAULTS: Final = Faults(
    fail_before=0.02, fail_after=0.06, kill=0.001, stall=0.01, stall_seconds=10, until_step=4000
)


@dataclass
class Counted:
    """What clients were told."""

    acknowledged: list[int] = field(default_factory=list)
    repeated: int = 0
    """How many acknowledged requests were repeats."""
    begun: int = 0
    """Requests whose client does not know what became of them, or has not asked yet."""


class Client:
    """Increments the counter."""

    def __init__(self, process: Process, counted: Counted) -> None:
        self.process = process
        self.random = process.world.random
        self.counted = counted

    def run(self) -> None:
        for _ in range(INCREMENTS):
            with suppress(LakebedError):
                self.increment()

    def increment(self) -> None:
        catalog = self.process.catalog
        read = catalog.objects.stat(REPOSITORY, MAIN, PATH)
        with catalog.objects.read(read) as stream:
            number = int(b"".join(stream))

        def is_same(found: Entry | None) -> bool:
            return found is not None and found.checksum == read.checksum

        identifier = uuid.UUID(int=self.random.getrandbits(128))
        invocation = Invocation("ann", str(identifier))
        self.counted.begun += 1
        for attempt in range(ATTEMPTS):
            try:
                catalog.uploads.upload(
                    REPOSITORY,
                    MAIN,
                    PATH,
                    [b"%d" % (number + 1)],
                    condition=is_same,
                    invocation=invocation,
                )
            except PreconditionFailed:
                self.counted.begun -= 1
                return
            except LakebedError:
                self.process.actor.runtime.sleep(self.random.random())
                continue
            self.counted.begun -= 1
            self.counted.repeated += attempt > 0
            self.counted.acknowledged.append(number + 1)
            return


class Committer:
    """Commits the branch, again and again."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def run(self) -> None:
        for _ in range(6):
            with suppress(LakebedError):
                self.process.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)
            self.process.actor.runtime.sleep(self.process.world.random.random() * 5)


def counted_holds(seed: int, faults: Faults = FAULTS) -> Counted:
    """Run it; return what clients were told."""
    world = CatalogWorld(Simulation(seed, faults, steps_max=200_000))
    world.catalog.uploads.upload(REPOSITORY, MAIN, PATH, [b"0"])
    counted = Counted()
    for number in range(SERVERS):
        process = world.process(f"server{number}")
        for _ in range(CLIENTS_OF_EACH):
            process.actor.start(Client(process, counted).run)
        process.actor.start(Committer(process).run)
    world.simulation.run()
    stats = world.catalog.objects.stat(REPOSITORY, MAIN, PATH)
    with world.catalog.objects.read(stats) as stream:
        last = int(b"".join(stream))
    told = counted.acknowledged
    assert len(told) == len(set(told)), f"a number was acknowledged twice: {sorted(told)}"
    assert len(told) <= last <= len(told) + counted.begun, (last, sorted(told), counted.begun)
    return counted


def counted(seed: int) -> None:
    counted_holds(seed)


SCENARIOS: Final = {"counted": counted}
