"""Scenarios of the key-value store: what must hold for every seed.

`SCENARIOS` holds those that are right, `BROKEN` those that are wrong on purpose: the simulator must
find them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv import (
    ABSENT,
    EXISTS,
    Item,
    KeyNotFound,
    OutcomeUnknown,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.managed import ManagedStore
from lakebed.kv.store import ANY, Put, new_version
from lakebed.testing.simulation.simulator import Faults, Simulation
from lakebed.testing.simulation.store import AppliedWrite, SimulatedStore

PARTITION = b"partition"
KEY = b"key"
ALL_FAULTS = Faults(
    fail_before=0.05, fail_after=0.08, kill=0.01, stall=0.02, skew_seconds=100.0, until_step=2000
)


def new_simulation(seed: int, faults: Faults) -> tuple[Simulation, SimulatedStore]:
    simulation = Simulation(seed, faults)
    # Without a simulated runtime: the test looks into the store when no task runs any more.
    store = SimulatedStore(simulation, MemoryStore(ThreadRuntime()), unbatched=True)
    return simulation, store


# A counter


def count(seed: int, add_one: Callable[[Store], None]) -> None:
    """Three actors add one three times each; nothing fails, only the order varies."""
    simulation, shared = new_simulation(seed, Faults())
    shared.inner.set(PARTITION, KEY, b"0")

    def add_three(store: Store) -> None:
        for _ in range(3):
            add_one(store)

    for name in ("ann", "bob", "cay"):
        actor = simulation.actor(name)
        actor.start(partial(add_three, shared.handle(actor)))
    simulation.run()
    value = shared.inner.get(PARTITION, KEY).value
    assert value == b"9", f"nine increments gave {value!r}"


def read_then_write(store: Store) -> None:
    value = store.get(PARTITION, KEY).value
    store.set(PARTITION, KEY, b"%d" % (int(value) + 1))


def compare_and_swap(store: Store) -> None:
    while True:
        entry = store.get(PARTITION, KEY)
        try:
            store.set(PARTITION, KEY, b"%d" % (int(entry.value) + 1), entry.predicate)
        except PredicateFailed:
            continue
        return


# A list of names, under every fault: after a lost reply, an actor looks for its own name


def append_under_faults(seed: int) -> None:
    """What was acknowledged is there once; what was not is there at most once."""
    simulation, shared = new_simulation(seed, ALL_FAULTS)
    shared.inner.set(PARTITION, KEY, b"")
    acknowledged: list[bytes] = []

    def append(store: Store, name: bytes) -> None:
        while True:
            try:
                entry = store.get(PARTITION, KEY)
                if name in entry.value.split():
                    break
                store.set(PARTITION, KEY, entry.value + b" " + name, entry.predicate)
                break
            except (PredicateFailed, OutcomeUnknown):
                continue
        acknowledged.append(name)

    for actor_name in ("ann", "bob", "cay"):
        actor = simulation.actor(actor_name)
        store = ManagedStore(shared.handle(actor), actor.runtime)
        for number in range(3):
            name = f"{actor_name}{number}".encode()
            actor.start(partial(append, store, name))
    simulation.run()
    names = shared.inner.get(PARTITION, KEY).value.split()
    assert len(names) == len(set(names)), f"applied twice: {names}"
    assert set(acknowledged) <= set(names), f"acknowledged {acknowledged}, found {names}"


# Blind retries of a plain write, over a store that may apply a call after it failed


def set_again_blindly(seed: int) -> None:
    """A writer repeats each write until it is acknowledged; the last one must stay."""
    late = Faults(late=0.2, until_step=200)
    simulation, shared = new_simulation(seed, late)

    def write(store: Store) -> None:
        for number in range(5):
            while True:
                try:
                    store.set(PARTITION, KEY, b"%d" % number)
                    break
                except OutcomeUnknown:
                    continue

    actor = simulation.actor("ann")
    actor.start(lambda: write(shared.handle(actor)))
    simulation.run()
    value = shared.inner.get(PARTITION, KEY).value
    assert value == b"4", f"the last acknowledged write was 4, but {value!r} is there"


# The three outcomes, through the wrapper that retries


@dataclass(slots=True)
class Answers:
    """What the callers of writes were told, by the version of the write."""

    succeeded: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    raised_at: dict[bytes, int] = field(default_factory=dict)
    deleted: Counter[bytes] = field(default_factory=Counter)
    perhaps_deleted: set[bytes] = field(default_factory=set)


def three_outcomes(seed: int) -> None:
    """Success is applied once; a failed predicate, never; an error, at most once and not later."""
    outcomes_hold(seed, ManagedStore)


def outcomes_hold(seed: int, wrap: Callable[[Store, Runtime], Store]) -> None:
    simulation, shared = new_simulation(seed, ALL_FAULTS)
    answers = Answers()
    actors = [simulation.actor(name) for name in ("ann", "bob", "cay")]

    def work(store: Store, runtime: Runtime) -> None:
        for _ in range(4):
            write_somehow(simulation, store, runtime, answers)

    for actor in actors:
        store = wrap(shared.handle(actor), actor.runtime)

        for _ in range(2):
            actor.start(partial(work, store, actor.runtime))
    simulation.run()

    everyone_lives = all(actor.alive for actor in actors)
    check_writes(shared.applied, answers)
    check_deletes(shared.applied, answers, everyone_lives=everyone_lives)


def check_writes(log: list[AppliedWrite], answers: Answers) -> None:
    writes = [each for each in log if each.operation != "delete_if"]
    applied = Counter(write.version for write in writes)
    last = {write.version: write.step for write in writes}
    assert all(times == 1 for times in applied.values()), f"applied more than once: {applied}"
    assert answers.succeeded <= set(applied), "acknowledged, but not applied"
    assert not answers.refused & set(applied), "refused, but applied"
    for version, step in answers.raised_at.items():
        assert last.get(Version(version), 0) <= step, "applied after the caller heard of a failure"


def check_deletes(log: list[AppliedWrite], answers: Answers, *, everyone_lives: bool) -> None:
    applied = Counter(write.version for write in log if write.operation == "delete_if")
    for version, times in answers.deleted.items():
        assert times == applied[Version(version)] == 1, "not deleted and reported exactly once"
    if everyone_lives:
        heard = set(answers.deleted) | answers.perhaps_deleted
        assert set(applied) <= heard, "deleted, but its caller was told that the predicate failed"


def write_somehow(simulation: Simulation, store: Store, runtime: Runtime, answers: Answers) -> None:
    """Do one of the writes to one or two keys, and note what the caller was told."""
    keys = [b"one", b"two"]
    simulation.random.shuffle(keys)
    way = simulation.random.random()
    versions = [new_version(runtime)]
    try:
        if way < 0.2:
            versions.append(new_version(runtime))
            puts = zip(keys, versions, strict=True)
            store.write([Put(PARTITION, key, b"value", ANY, version) for key, version in puts])
        else:
            key = keys[0]
            predicate = choose_predicate(simulation, read(store, key))
            if isinstance(predicate, bytes) and simulation.random.random() < 0.3:
                delete_noting(store, key, predicate, answers)
                return
            if way < 0.6:
                store.set(PARTITION, key, b"value", predicate, version=versions[0])
            else:
                put = Put(PARTITION, key, b"value", predicate, versions[0])
                store.write([put], [(PARTITION, key)])
        answers.succeeded.update(versions)
    except (PredicateFailed, StoreUnavailable):
        answers.refused.update(versions)
    except OutcomeUnknown:
        answers.raised_at.update(dict.fromkeys(versions, simulation.step))


def delete_noting(store: Store, key: bytes, predicate: Version, answers: Answers) -> None:
    try:
        store.delete(PARTITION, key, predicate)
        answers.deleted[predicate] += 1
    except (PredicateFailed, StoreUnavailable):
        pass
    except OutcomeUnknown:
        answers.perhaps_deleted.add(predicate)


def read(store: Store, key: bytes) -> Item | None:
    try:
        return store.get(PARTITION, key)
    except KeyNotFound:
        return None


def choose_predicate(simulation: Simulation, entry: Item | None) -> Predicate:
    choices: list[Predicate] = [ANY, ABSENT, EXISTS]
    if entry is not None:
        choices += [entry.predicate] * 3
    return simulation.random.choice(choices)


SCENARIOS = {
    "set_if_counter": lambda seed: count(seed, compare_and_swap),
    "append_under_faults": append_under_faults,
    "three_outcomes": three_outcomes,
}

BROKEN = {
    "naive_counter": lambda seed: count(seed, read_then_write),
    "set_again_blindly": set_again_blindly,
}
