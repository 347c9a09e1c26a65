"""Random histories of a repository, with garbage collection between and during operations.

Run one again:

    python -m lakebed.testing.simulation.explore tests.simulation.gc_histories:mixed --seed 7
"""

import heapq
import random
from collections.abc import Callable
from itertools import count

from lakebed.testing.simulation.explore import Scenario
from tests.simulation import gc_actors
from tests.simulation.gc_collector import Collector
from tests.simulation.gc_world import (
    GAP,
    MIN_AGE,
    MULTIPART_LIFE,
    PARTITION_OPEN,
    SCAN_LIMIT,
    GCWorld,
    Process,
    Steps,
)

BRANCHES = ("main", "dev", "dev-2")
KEYS = ("a", "b", "c")


class GarbageLeftError(AssertionError):
    """Objects that nothing names outlived two runs."""


class History:
    """Tasks that take turns, and wait a random time at each step."""

    def __init__(self, seed: int, *, naps: float, pace: int = 3) -> None:
        self.random = random.Random(seed)
        self.world = GCWorld(self.random)
        self.collector = Collector(self.world)
        self.deaths = 0.002
        self._naps = naps
        self._pace = pace
        self._due: list[tuple[int, int, Steps]] = []
        self._sequence = 0

    def start(self, steps: Steps, *, after: int = 0) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (self.world.now + after, self._sequence, steps))

    def finish(self) -> None:
        while self._due:
            at, _, steps = heapq.heappop(self._due)
            self.world.now = max(self.world.now, at)
            try:
                pause = next(steps)
            except StopIteration:
                continue
            if self.random.random() >= self.deaths:
                self.start(steps, after=self._pause() if pause is None else pause)

    def _pause(self) -> int:
        draw = self.random.random()
        if draw < self._naps:
            return self.random.choice((SLEEP_SHORT, SLEEP_LONG)) + self.random.randint(0, 60)
        return self.random.randint(0, self._pace)

    def process(self) -> Process:
        return self.random.choice(self.world.processes)

    def operation(self) -> Steps:
        """Return a random operation of a client or the Cleaner."""
        world, process, draw = self.world, self.process(), self.random.choice
        name, key = draw(BRANCHES), draw(KEYS)
        makers: list[tuple[int, Callable[[], Steps]]] = [
            (8, lambda: gc_actors.upload(world, process, name, key)),
            (
                4,
                lambda: gc_actors.copy(world, process, name, draw((name, "main")), key, draw(KEYS)),
            ),
            (3, lambda: gc_actors.move(world, process, name, key, draw(KEYS))),
            (3, lambda: gc_actors.remove(world, name, key)),
            (3, lambda: gc_actors.link(world, process, name, key)),
            (3, lambda: gc_actors.multipart(world, process, name, key)),
            (8, lambda: gc_actors.commit(world, process, name)),
            (2, lambda: gc_actors.merge(world, draw(BRANCHES), name)),
            (1, lambda: gc_actors.hard_reset(world, name, draw(self.published() or [0]))),
            (1, lambda: gc_actors.reset_all(world, name)),
            (2, lambda: gc_actors.reset_key(world, name, key)),
            (1, lambda: gc_actors.delete_branch(world, draw(BRANCHES[1:]))),
            (4, lambda: gc_actors.create_branch(world, draw(BRANCHES[1:]), "main")),
            (1, lambda: gc_actors.tag(world, draw("xy"), name)),
            (2, lambda: gc_actors.expire(world)),
            (6, lambda: self.collector.run(process)),
        ]
        weights = [weight for weight, _ in makers]
        return self.random.choices(makers, weights)[0][1]()

    def published(self) -> list[int]:
        return [number for number, commit in self.world.commits.items() if commit.published]

    def settle(self) -> None:
        """Let everything grow old, collect, and check that only named objects are left."""
        world, collector = self.world, self.collector
        collector.trouble = 0.0
        self._naps = self.deaths = 0.0
        if self.random.random() < QUIET:
            self.start(collector.run_quiet(world.processes[0]))
            self.finish()
            world.check()
        for _ in range(2):
            world.now += MIN_AGE + PARTITION_OPEN + MULTIPART_LIFE
            self.start(gc_actors.expire(world))
            self.finish()
            self.start(collector.run(world.processes[0]))
            self.finish()
            world.check()
        if world.repository_uid is not None and self.garbage():
            raise GarbageLeftError(f"{sorted(self.garbage())} outlived two runs")

    def garbage(self) -> set[str]:
        owned = {self.world.owner, *self.world.adopted}
        mine = {path for path in self.world.objects if path.split("/")[1] in owned}
        return mine - self.world.reachable()


SLEEP_SHORT, SLEEP_LONG = 40, 250
QUIET = 0.3
RESTORES = 0.7


def mixed(seed: int) -> None:
    """All operations, in turns and at the same time; some sleep longer than every limit."""
    history = History(seed, naps=0.04)
    for _ in range(history.random.randint(20, 60)):
        history.start(history.operation(), after=history.random.randint(0, 600))
    history.finish()
    history.world.check()
    history.settle()


def sleepers(seed: int) -> None:
    """A few clients that often sleep for long, one branch, and a run at every turn."""
    history = History(seed, naps=0.15)
    draw = history.random
    for _ in range(draw.randint(5, 15)):
        history.start(history.operation(), after=draw.randint(0, 900))
    for at in range(0, 1500, 70):
        history.start(history.collector.run(history.process()), after=at + draw.randint(0, 60))
    history.finish()
    history.world.check()
    history.settle()


def overwritten(seed: int) -> None:
    """Old entries are overwritten while a commit runs; collections follow each other closely."""
    history = History(seed, naps=0.08)
    world, draw = history.world, history.random
    for key in KEYS:
        history.start(
            gc_actors.upload(world, history.process(), "main", key), after=draw.randint(0, 9)
        )
    at = MIN_AGE + 20
    for _ in range(3):
        at += draw.randint(0, 15)
        history.start(gc_actors.commit(world, history.process(), "main"), after=at)
        for _ in range(3):
            upload = gc_actors.upload(world, history.process(), "main", draw.choice(KEYS))
            history.start(upload, after=at - draw.randint(-5, 25))
    for run in range(20):
        after = MIN_AGE + 20 + 14 * run + draw.randint(0, 9)
        history.start(history.collector.run(history.process()), after=after)
    history.finish()
    world.check()
    history.settle()


def strays(seed: int) -> None:
    """Slow writers overwrite an old entry, twice, under a token that a commit has sealed and read.

    Only the commit knows that entry then, and the commit is slow.
    """
    history = History(seed, naps=0.01, pace=seed % 2)
    world, draw = history.world, history.random
    history.start(gc_actors.upload(world, history.process(), "main", "a"))
    at = MIN_AGE + 50
    for _ in range(3):
        writer = gc_actors.upload(world, history.process(), "main", "a")
        history.start(delayed(writer, gc_actors.BRANCH_IS_READ, draw.randint(10, 30)), after=at)
    commit = gc_actors.commit(world, history.process(), "main")
    pause = draw.choice((draw.randint(0, 2 * SCAN_LIMIT), draw.randint(0, 4 * GAP)))
    history.start(delayed(commit, gc_actors.TOKENS_ARE_READ, pause), after=at + 5)
    for after in range(at, at + 5 * GAP, 4):
        history.start(history.collector.run(history.process()), after=after)
    history.finish()
    world.check()
    history.settle()


def regrets(seed: int) -> None:
    """A writer overwrites an old entry, finds much later that it was too slow, and puts it back."""
    history = History(seed, naps=0.01)
    world, draw = history.world, history.random
    history.start(gc_actors.upload(world, history.process(), "main", "a"))
    at = MIN_AGE + 50
    writer = gc_actors.upload(world, history.process(), "main", "a")
    history.start(delayed(writer, gc_actors.ENTRY_IS_WRITTEN, draw.randint(0, MIN_AGE)), after=at)
    for after in range(at, at + MIN_AGE + 2 * GAP, 20):
        history.start(history.collector.run(history.process()), after=after)
    history.finish()
    world.check()
    history.settle()


def delayed(steps: Steps, number: int, ticks: int) -> Steps:
    """Run the steps, but wait for `ticks` at step `number`."""
    for step in count(1):
        try:
            pause = next(steps)
        except StopIteration as end:
            return bool(end.value)
        yield ticks if step == number else pause
    raise AssertionError


def held_up(seed: int) -> None:
    """Uploads of all kinds with slow clients and servers, and one collection after another."""
    history = History(seed, naps=0.12)
    world, draw = history.world, history.random
    for _ in range(8):
        process, key = history.process(), draw.choice(KEYS)
        steps = draw.choice(
            (
                gc_actors.upload(world, process, "main", key),
                gc_actors.link(world, process, "main", key),
                gc_actors.multipart(world, process, "main", key),
                gc_actors.copy(world, process, "main", "main", key, draw.choice(KEYS)),
            )
        )
        history.start(steps, after=draw.randint(0, 200))
    for at in range(0, 900, 20):
        history.start(history.collector.run(history.process()), after=at + draw.randint(0, 9))
        if at % 100 == 0:
            history.start(gc_actors.expire(world), after=at)
    history.finish()
    world.check()
    history.settle()


def reborn(seed: int) -> None:
    """The repository is deleted and made again in its namespace, mostly with its refs restored."""
    history = History(seed, naps=0.03)
    draw = history.random
    for _ in range(30):
        history.start(history.operation(), after=draw.randint(0, 1200))
    for at in range(0, 1500, 70):
        history.start(history.collector.run(history.process()), after=at + draw.randint(0, 60))
    restores = draw.random() < RESTORES
    at = draw.randint(200, 900)
    history.start(gc_actors.repository(history.world, restores=restores), after=at)
    history.finish()
    history.world.check()
    history.settle()


SCENARIOS: dict[str, Scenario] = {
    "mixed": mixed,
    "sleepers": sleepers,
    "overwritten": overwritten,
    "strays": strays,
    "regrets": regrets,
    "held_up": held_up,
    "reborn": reborn,
}
