"""Scenarios of a store that is copied while servers use it, and copiers die, sleep and race."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv import KeyNotFound, OutcomeUnknown, Store, StoreHalted
from lakebed.kv.copying import CopyRefused, CopySide, StoreCopy
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.halt import SETTLE_SECONDS, Permit, check_not_halted, decode_halt, find_halt
from lakebed.kv.managed import HaltCheck, ManagedStore
from lakebed.kv.schema import check_schema
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Faults, Simulation
from lakebed.testing.simulation.store import SimulatedStore

# A stall is shorter than what a driver lets a call take: that is what the copy waits for.
FAULTS = Faults(
    fail_before=0.02,
    fail_after=0.03,
    kill=0.004,
    stall=0.03,
    stall_seconds=50.0,
    skew_seconds=100.0,
    until_step=3000,
)
PARTITIONS = (b"auth", b"token-1", b"token-2")
WRITES = 40

Halting = Callable[[Store, Runtime, Permit], HaltCheck]


@dataclass(slots=True)
class World:
    """Two databases, and what servers were told about their writes."""

    simulation: Simulation
    halting: Halting
    settle_seconds: float
    old: SimulatedStore = field(init=False)
    new: SimulatedStore = field(init=False)
    told: dict[tuple[bytes, bytes], bytes | None] = field(default_factory=dict)
    """What each key holds, None: nothing; keys whose state nobody knows are not in it."""

    def __post_init__(self) -> None:
        self.old = SimulatedStore(self.simulation, MemoryStore(ThreadRuntime()))
        self.new = SimulatedStore(self.simulation, MemoryStore(ThreadRuntime()))
        check_schema(self.old.inner)

    def open(self, shared: SimulatedStore, actor: SimulatedProcess, name: str) -> CopySide:
        permit = Permit()
        runtime = actor.runtime
        handle = shared.handle(actor)
        store = ManagedStore(handle, runtime, permit=permit)
        store._halt = self.halting(handle, runtime, permit)
        return CopySide(store, permit, name)

    def serve(self, actor: SimulatedProcess, shared: SimulatedStore) -> None:
        """Write and delete keys of this server's own, until it may not any more."""
        store = self.open(shared, actor, "").store
        random = self.simulation.random
        try:
            check_not_halted(store)
        except OutcomeUnknown:
            return
        for number in range(WRITES):
            actor.runtime.sleep(random.random() * 20)
            place = random.choice(PARTITIONS), f"{actor.name}-{random.randrange(3)}".encode()
            value = None if random.random() < 0.2 else b"%d" % number
            # Until it is answered, nobody knows.
            before = {place: self.told.pop(place)} if place in self.told else {}
            try:
                if value is None:
                    store.delete(*place)
                else:
                    store.set(*place, value)
            except StoreHalted:
                self.told |= before
                return
            except OutcomeUnknown:
                continue
            self.told[place] = value

    def copy(self, actor: SimulatedProcess, tries: int) -> None:
        """Copy, and try again if that did not work."""
        for _ in range(tries):
            actor.runtime.sleep(self.simulation.random.random() * 60)
            source = self.open(self.old, actor, "old")
            target = self.open(self.new, actor, "new")
            try:
                StoreCopy(source, target, actor.runtime, self.settle_seconds).run()
            except (CopyRefused, OutcomeUnknown):
                continue
            return

    def move(self, actor: SimulatedProcess) -> None:
        """Serve the new database as soon as it is complete."""
        for _ in range(400):
            actor.runtime.sleep(5)
            if self.finished():
                self.serve(actor, self.new)
                return

    def finished(self) -> bool:
        mark = find_halt(self.new.inner)
        return mark is not None and not decode_halt(mark.value).halts

    def check(self) -> None:
        assert self.finished(), "the copy never ended"
        for (partition, key), value in self.told.items():
            try:
                found = self.new.inner.get(partition, key).value
            except KeyNotFound:
                found = None
            assert found == value, f"{key!r} was {value!r} when answered, and is {found!r}"


def nothing_answered_is_lost(
    seed: int, halting: Halting = HaltCheck, *, settle_seconds: float = SETTLE_SECONDS / 0.9
) -> None:
    """Servers write to the old store, then to the new one; several copiers get into each other."""
    simulation = Simulation(seed, FAULTS)
    world = World(simulation, halting, settle_seconds)
    for name in ("ann", "bob"):
        actor = simulation.actor(name)
        actor.start(partial(world.serve, actor, world.old))
    for name in ("copy-1", "copy-2"):
        actor = simulation.actor(name)
        actor.start(partial(world.copy, actor, 4))
    last = simulation.actor("copy-3")
    last.start(partial(world.copy, last, 40))
    for name in ("cay", "dan"):
        actor = simulation.actor(name)
        actor.start(partial(world.move, actor))
    simulation.run()
    if last.alive:
        world.check()


SCENARIOS = {"nothing_answered_is_lost": nothing_answered_is_lost}
