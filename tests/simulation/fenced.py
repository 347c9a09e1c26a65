"""Scenarios of the fence: a database that applies lost requests late, and the store above it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from lakebed.base.runtime import Runtime
from lakebed.kv import (
    ABSENT,
    EXISTS,
    OutcomeUnknown,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.fenced import FencedStore
from lakebed.kv.managed import ManagedStore
from lakebed.kv.store import new_version
from lakebed.testing.simulation.cells import TOMBSTONE_SECONDS, SimulatedDatabase
from lakebed.testing.simulation.scheduler import ActorKilledError, SimulatedProcess
from lakebed.testing.simulation.simulator import Faults, Simulation
from lakebed.testing.simulation.store import AppliedWrite
from tests.simulation.scenarios import (
    PARTITION,
    Answers,
    check_deletes,
    check_writes,
    delete_noting,
    read,
)

LATE = Faults(
    late=0.12,
    fail_before=0.05,
    fail_after=0.08,
    kill=0.005,
    stall=0.03,
    stall_seconds=300.0,
    until_step=4000,
)
KEYS = (b"one", b"two")
GRACE_SECONDS = 15.0
"""Longer than a simulated request can be late."""
STEADY = [b"060", b"090", b"120"]

Fence = Callable[..., Store]


@dataclass(slots=True)
class Refusal:
    """A predicate that was said not to hold."""

    key: bytes
    predicate: Version
    step: int


@dataclass(slots=True)
class Told(Answers):
    """What callers were told."""

    refusals: list[Refusal] = field(default_factory=list)


def open_fenced(
    database: SimulatedDatabase, actor: SimulatedProcess, fence: Fence, tombstone_seconds: float
) -> Store:
    def give_up() -> NoReturn:
        actor.kill()
        raise ActorKilledError(actor.name)

    cells = database.handle(actor, tombstone_seconds=tombstone_seconds)
    return fence(cells, actor.runtime, give_up=give_up)


def outcomes_hold(
    seed: int,
    fence: Fence = FencedStore,
    *,
    tombstone_seconds: float = TOMBSTONE_SECONDS,
    retrying: bool = False,
) -> None:
    """Writers with fresh and old predicates; what they are told stays true."""
    simulation = Simulation(seed, LATE)
    database = SimulatedDatabase(simulation)
    told = Told()
    known: list[tuple[bytes, Version]] = []
    actors = [simulation.actor(name) for name in ("ann", "bob", "cay")]

    def work(store: Store, runtime: Runtime) -> None:
        for _ in range(5):
            write_somehow(simulation, store, runtime, told, known)

    for actor in actors:
        store = open_fenced(database, actor, fence, tombstone_seconds)
        store = ManagedStore(store, actor.runtime) if retrying else store
        for _ in range(2):
            actor.start(partial(work, store, actor.runtime))
    simulation.run()
    check_writes(database.applied, told)
    check_deletes(database.applied, told, everyone_lives=all(actor.alive for actor in actors))
    check_refusals(database.applied, told)


def write_somehow(
    simulation: Simulation,
    store: Store,
    runtime: Runtime,
    told: Told,
    known: list[tuple[bytes, Version]],
) -> None:
    """Do one of the writes; `known` holds the versions that anybody heard of, as a trail would."""
    key = simulation.random.choice(KEYS)
    version = new_version(runtime)
    predicate: Predicate | None = None
    try:
        there = read(store, key)
        choices: list[Predicate | None] = [None, ABSENT, ABSENT, EXISTS]
        choices += [there.predicate] * 4 if there is not None else []
        choices += [mark for of, mark in known[-3:] if of == key]
        predicate = simulation.random.choice(choices)
        if isinstance(predicate, bytes) and simulation.random.random() < 0.4:
            delete_noting(store, key, predicate, told)
            return
        if predicate is None:
            store.set(PARTITION, key, b"value", version=version)
        else:
            store.set(PARTITION, key, b"value", predicate, version=version)
        told.succeeded.add(version)
        known.append((key, version))
    except PredicateFailed:
        told.refused.add(version)
        if isinstance(predicate, bytes):
            told.refusals.append(Refusal(key, predicate, simulation.step))
    except StoreUnavailable:
        told.refused.add(version)
    except OutcomeUnknown:
        told.raised_at[version] = simulation.step


def check_refusals(log: list[AppliedWrite], told: Told) -> None:
    """A version that was read or acknowledged fails as a predicate only if it was replaced."""
    for refusal in told.refusals:
        of_key = [write for write in log if write.key == refusal.key]
        written = next(
            place
            for place, write in enumerate(of_key)
            if write.operation == "set" and write.version == refusal.predicate
        )
        assert any(write.step <= refusal.step for write in of_key[written + 1 :]), (
            "a predicate was said to have failed, but nobody wrote the key since"
        )


def scans_see_steady_keys(seed: int, fence: Fence = FencedStore) -> None:
    """While others come and go, and leave tombstones, a scan shows each steady key once."""
    simulation = Simulation(seed, LATE)
    database = SimulatedDatabase(simulation)
    prepared = simulation.actor("preparer")
    faults, simulation.faults = simulation.faults, Faults()

    def begin(name: str, work: Callable[[Store], None]) -> None:
        actor = simulation.actor(name)
        actor.start(partial(work, open_fenced(database, actor, fence, TOMBSTONE_SECONDS)))

    def prepare() -> None:
        store = open_fenced(database, prepared, fence, TOMBSTONE_SECONDS)
        for number in range(150):
            store.set(PARTITION, b"%03d" % number, b"value")
        for number in range(150):
            key = b"%03d" % number
            if key not in STEADY and simulation.random.random() < 0.9:
                store.delete(PARTITION, key)
        simulation.faults = faults
        begin("looker", look_for_steady_keys)
        begin("churner", come_and_go)

    prepared.start(prepare)
    simulation.run()


def look_for_steady_keys(store: Store) -> None:
    for _ in range(3):
        try:
            seen = [item.key for item in store.scan(PARTITION)]
        except StoreUnavailable:
            continue
        assert seen == sorted(set(seen))
        assert [key for key in seen if key in STEADY] == STEADY, f"a scan shows only {seen}"


def come_and_go(store: Store) -> None:
    for number in range(30):
        key = b"%03d" % (number * 4 + 1)
        try:
            store.set(PARTITION, key, b"passing")
            store.delete(PARTITION, key)
        except OutcomeUnknown:
            continue


def erased_keys_stay_erased(
    seed: int, fence: Fence = FencedStore, *, grace_seconds: float = GRACE_SECONDS
) -> None:
    """A partition is dropped: a grace period after its last write it is emptied for good.

    Requests that are late by less than that leave nothing there, and none is applied to a key whose
    tombstone was erased.
    """
    simulation = Simulation(seed, LATE)
    database = SimulatedDatabase(simulation)
    writers = [simulation.actor(name) for name in ("ann", "bob")]
    cleaner = simulation.actor("cleaner")
    working = len(writers)

    def write(actor: SimulatedProcess, store: Store) -> None:
        nonlocal working
        told, known = Told(), list[tuple[bytes, Version]]()
        try:
            for _ in range(4):
                write_somehow(simulation, store, actor.runtime, told, known)
        finally:
            working -= 1

    def clean(store: Store) -> None:
        while working:  # as long as a branch may name the token
            cleaner.runtime.sleep(1)
        cleaner.runtime.sleep(grace_seconds)
        while not empty(store):
            cleaner.runtime.sleep(1)

    for actor in writers:
        actor.start(partial(write, actor, open_fenced(database, actor, fence, 1e6)))
    cleaner.start(partial(clean, open_fenced(database, cleaner, fence, 1e6)))
    simulation.run()
    for erased in database.erased:
        later = [each for each in database.applied if each.key == erased.key]
        assert all(each.step < erased.step for each in later), "a key was written after its erasure"
    if cleaner.alive:
        assert database.page(PARTITION, b"", 10) == ([], None), "a dropped partition is not empty"


def empty(store: Store) -> bool:
    """Delete all keys of a partition, and their tombstones; return whether nothing is left."""
    try:
        left = [store.delete(PARTITION, item.key) for item in store.scan(PARTITION)]
        store.drop_tombstones(PARTITION, b"", 10)
    except OutcomeUnknown:
        return False
    return not left


def only_tombstones_go(seed: int, fence: Fence = FencedStore) -> None:
    """While tombstones are erased, keys that live stay."""
    simulation = Simulation(seed)
    database = SimulatedDatabase(simulation)

    def come_and_stay(key: bytes, store: Store) -> None:
        for _ in range(4):
            version = store.set(PARTITION, key, b"value")
            there = read(store, key)
            assert there is not None, "a key was erased that lived"
            assert there.predicate == version
            store.delete(PARTITION, key)
        store.set(PARTITION, key, b"value")

    def erase(store: Store) -> None:
        for _ in range(12):
            store.drop_tombstones(PARTITION, b"", 10)

    tasks = [partial(come_and_stay, key) for key in KEYS] + [erase]
    for number, task in enumerate(tasks):
        actor = simulation.actor(f"actor{number}")
        actor.start(partial(task, open_fenced(database, actor, fence, TOMBSTONE_SECONDS)))
    simulation.run()
    page, _ = database.page(PARTITION, b"", 10)
    assert [key for key, cell in page if cell.value] == sorted(KEYS), "a key was erased that lived"


SCENARIOS = {
    "fenced_outcomes": outcomes_hold,
    "fenced_and_retried": partial(outcomes_hold, retrying=True),
    "fenced_scans": scans_see_steady_keys,
    "fenced_dropped": erased_keys_stay_erased,
    "fenced_erased": only_tombstones_go,
}
SHARES = {"fenced_outcomes": 3}
