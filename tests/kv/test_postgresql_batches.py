"""Which writes share a batch, and that each of them gets its own answer."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, sleep
from types import SimpleNamespace

import pytest

from lakebed.kv import OutcomeUnknown, StoreUnavailable, Version
from lakebed.kv.drivers.postgresql import batches
from lakebed.kv.drivers.postgresql.batches import AT_ONCE, BATCHED_BYTES, Batches, Write

SECONDS = 30.0


def write_of(key: bytes, value: bytes = b"") -> Write:
    return Write(b"p", key, value, Version(key * 16))


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = monotonic() + SECONDS
    while not condition():
        assert monotonic() < give_up_at
        sleep(0.001)


class World:
    """Batches over a database that is busy until it is let go on."""

    def __init__(self) -> None:
        self.may_run = threading.Event()
        self.held: dict[bytes, threading.Event] = {}
        """Those whose batches may run only when their own event says so."""
        self.ran: list[list[bytes]] = []
        self.outcome: Callable[[Sequence[Write]], Sequence[bool]] = lambda batch: (
            [True] * len(batch)
        )
        self.batches = Batches(self._run)
        self._pool = ThreadPoolExecutor(100)

    def _run(self, batch: Sequence[Write]) -> Sequence[bool]:
        self.ran.append([write.key for write in batch])
        assert self.may_run.wait(SECONDS)
        for write in batch:
            if write.key in self.held:
                assert self.held[write.key].wait(SECONDS)
        return self.outcome(batch)

    def begin(self, *keys: bytes, value: bytes = b"") -> list["Future[bool]"]:
        """Begin writes, one after the other; each is under way or queued when this returns."""
        begun = []
        for key in keys:
            before = self._known()
            begun.append(self.submit(write_of(key, value)))
            wait_until(lambda before=before: self._known() > before)  # type: ignore[misc]
        return begun

    def submit(self, write: Write) -> "Future[bool]":
        return self._pool.submit(self.batches.write, write)

    def _known(self) -> int:
        return sum(map(len, self.ran)) + len(self.batches._queue)

    def keep_busy(self) -> list["Future[bool]"]:
        """Begin the batch that all others wait for."""
        return self.begin(b"busy")

    def go_on(self, writes: list["Future[bool]"]) -> list[bool]:
        self.may_run.set()
        return [write.result(SECONDS) for write in writes]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    wait_for_ever(monkeypatch)
    return World()


def wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever waits from now on wait for the batch under way, however long it takes."""
    monkeypatch.setattr(batches, "LONG_SECONDS", SECONDS)


def test_a_write_that_finds_nobody_goes_alone(world: World) -> None:
    assert world.go_on(world.begin(b"a")) == [True]
    assert world.go_on(world.begin(b"b")) == [True]
    assert world.ran == [[b"a"], [b"b"]]


def test_those_who_wait_share_a_batch(world: World) -> None:
    busy = world.keep_busy()
    waiting = world.begin(b"a", b"b", b"c")
    assert len(world.ran) == 1
    assert all(world.go_on(busy + waiting))
    assert world.ran[1:] == [[b"a", b"b", b"c"]]


def test_each_gets_its_own_answer(world: World) -> None:
    busy = world.keep_busy()
    waiting = world.begin(b"a", b"b", b"c")
    world.outcome = lambda batch: [write.key != b"b" for write in batch]
    world.go_on(busy)
    assert world.go_on(waiting) == [True, False, True]


def test_a_key_is_in_a_batch_once(world: World) -> None:
    busy = world.keep_busy()
    waiting = world.begin(b"a", b"a", b"b", b"a")
    world.go_on(busy + waiting)
    shared = world.ran[1:]
    assert shared == [[b"a", b"b"], [b"a"], [b"a"]]


def test_a_batch_takes_only_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_WRITES", 3)
    busy = world.keep_busy()
    waiting = world.begin(*(b"%d" % number for number in range(7)))
    assert all(world.go_on(busy + waiting))
    assert max(map(len, world.ran)) == 3
    assert sum(map(len, world.ran)) == 1 + 7


def test_a_large_value_goes_alone(world: World) -> None:
    busy = world.keep_busy()
    large = world.begin(b"large", value=b"x" * (BATCHED_BYTES + 1))
    assert len(world.ran) == 2
    world.go_on(busy + large)


class SlowBell:
    """A bell that wakes its writer only when the writer is let go on."""

    def __init__(self) -> None:
        self.rung = threading.Event()
        self.may_wake = threading.Event()

    def acquire(self, timeout: float) -> bool:
        assert self.may_wake.wait(timeout)
        return True

    def release(self) -> None:
        self.rung.set()


def test_those_who_come_while_their_leader_wakes_up_go_with_it(world: World) -> None:
    busy = world.keep_busy()
    leader = write_of(b"leader")
    bell = SlowBell()
    leader.bell = bell  # type: ignore[assignment]
    led = world.submit(leader)
    wait_until(lambda: leader in world.batches._queue)
    world.go_on(busy)
    assert bell.rung.wait(SECONDS)
    late = world.begin(b"late")
    bell.may_wake.set()
    assert world.go_on([led, *late]) == [True, True]
    assert world.ran[1:] == [[b"leader", b"late"]]


def test_who_has_waited_for_long_goes_beside_the_batch_under_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LONG_SECONDS", 0.01)
    under_way = world.begin(*(b"%d" % number for number in range(AT_ONCE)))
    wait_until(lambda: len(world.ran) == AT_ONCE)
    (late,) = world.begin(b"late")
    wait_until(lambda: world.batches._queue[0].has_waited)
    assert world.ran == [[b"%d" % number] for number in range(AT_ONCE)]
    assert all(world.go_on([*under_way, late]))
    assert world.ran[AT_ONCE:] == [[b"late"]]


def begin_two(world: World, monkeypatch: pytest.MonkeyPatch) -> list["Future[bool]"]:
    """Begin two batches, of which the first ends when it is let go on by itself."""
    world.held[b"slow"] = threading.Event()
    monkeypatch.setattr(batches, "LONG_SECONDS", 0.01)
    under_way = world.begin(b"slow", b"beside")
    wait_until(lambda: len(world.ran) == 2)
    return under_way


def test_a_batch_beside_another_is_not_followed_by_those_who_have_just_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, beside = begin_two(world, monkeypatch)
    wait_for_ever(monkeypatch)
    waiting = world.begin(b"a", b"b")
    world.go_on([beside])
    assert len(world.batches._queue) == 2
    world.held[b"slow"].set()
    assert all(world.go_on([slow, *waiting]))
    assert world.ran[2:] == [[b"a", b"b"]]


def test_a_batch_beside_another_is_followed_by_those_who_have_waited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, beside = begin_two(world, monkeypatch)
    waiting = world.begin(b"a")
    wait_until(lambda: world.batches._queue[0].has_waited)
    assert all(world.go_on([beside, *waiting]))
    assert not slow.done()
    world.held[b"slow"].set()
    assert world.go_on([slow]) == [True]


@pytest.mark.parametrize("kind", [StoreUnavailable, OutcomeUnknown])
def test_all_get_the_error_of_their_batch(world: World, kind: type[OutcomeUnknown]) -> None:
    busy = world.keep_busy()
    waiting = world.begin(b"a", b"b", b"c")

    def fail(batch: Sequence[Write]) -> Sequence[bool]:
        if len(batch) > 1:
            raise kind("the disk is on fire")
        return [True]

    world.outcome = fail
    world.go_on(busy)
    errors = [write.exception(SECONDS) for write in waiting]
    assert [type(error) for error in errors] == [kind] * 3
    assert len(set(map(id, errors))) == 3
    assert world.go_on(world.begin(b"d")) == [True]


def test_others_do_not_know_what_became_of_a_batch_that_was_broken_off(world: World) -> None:
    busy = world.keep_busy()
    waiting = world.begin(b"a", b"b")

    def break_off(batch: Sequence[Write]) -> Sequence[bool]:
        if len(batch) > 1:
            raise KeyboardInterrupt
        return [True]

    world.outcome = break_off
    world.go_on(busy)
    errors = {type(write.exception(SECONDS)) for write in waiting}
    assert errors == {KeyboardInterrupt, OutcomeUnknown}
    assert world.go_on(world.begin(b"c")) == [True]


def test_a_write_that_waits_for_too_long_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"AT_ONCE": 1, "LONG_SECONDS": 0.01, "QUEUE_SECONDS": 0.01}.items():
        monkeypatch.setattr(batches, name, value)
    busy = world.keep_busy()
    (late,) = world.begin(b"late")
    assert isinstance(late.exception(SECONDS), StoreUnavailable)
    world.go_on(busy)
    assert [b"late"] not in world.ran


class InterruptedBell:
    """A bell that Ctrl-C is heard instead of."""

    def acquire(self, timeout: float) -> bool:
        raise KeyboardInterrupt

    def release(self) -> None:
        """Nobody listens."""


def test_a_write_that_is_broken_off_in_the_queue_is_never_applied(world: World) -> None:
    busy = world.keep_busy()
    write = write_of(b"broken off")
    write.bell = InterruptedBell()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        world.batches.write(write)
    assert not world.batches._queue
    world.go_on(busy)
    assert [b"broken off"] not in world.ran


def test_a_write_that_is_broken_off_in_a_batch_is_seen_through(world: World) -> None:
    """It must not be applied after the call has ended."""
    write = write_of(b"broken off")
    busy = world.keep_busy()
    (leader,) = world.begin(b"leader")
    entered = threading.Event()

    class Bell(InterruptedBell):
        def acquire(self, timeout: float) -> bool:
            # Only when the batch of the write is under way.
            entered.set()
            while write.batch is None:
                sleep(0.001)
            raise KeyboardInterrupt

    write.bell = Bell()  # type: ignore[assignment]
    ended_at: list[float] = []

    def call() -> None:
        with pytest.raises(KeyboardInterrupt):
            world.batches.write(write)
        ended_at.append(monotonic())

    caller = threading.Thread(target=call)
    caller.start()
    assert entered.wait(SECONDS)
    applied_at: list[float] = []

    def apply(batch: Sequence[Write]) -> Sequence[bool]:
        if write in batch:
            sleep(0.05)
            applied_at.append(monotonic())
        return [True] * len(batch)

    world.outcome = apply
    world.go_on([*busy, leader])
    caller.join(SECONDS)
    assert ended_at[0] >= applied_at[0]


def test_a_leader_that_is_broken_off_before_it_begins_serves_its_batch(world: World) -> None:
    """Nobody else would: the others wait for it."""

    class Bell(SlowBell):
        def acquire(self, timeout: float) -> bool:
            assert self.may_wake.wait(timeout)
            raise KeyboardInterrupt

    busy = world.keep_busy()
    leader, bell = write_of(b"leader"), Bell()
    leader.bell = bell  # type: ignore[assignment]
    led = world.submit(leader)
    wait_until(lambda: leader in world.batches._queue)
    waiting = world.begin(b"a")
    world.go_on(busy)
    assert bell.rung.wait(SECONDS)
    bell.may_wake.set()
    assert isinstance(led.exception(SECONDS), KeyboardInterrupt)
    assert world.go_on([*waiting, *world.begin(b"b")]) == [True, True]
    assert world.ran[1:] == [[b"leader", b"a"], [b"b"]]


@pytest.mark.parametrize("step", ["_pass_on", "_answer"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_batch_is_not_run_again_if_its_leader_is_broken_off_behind_it(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    """What was applied would not be applied again, and would be called refused."""
    busy = world.keep_busy()
    led, other = world.begin(b"leader", b"other")
    stored: set[bytes] = set()

    def create(batch: Sequence[Write]) -> Sequence[bool]:
        created = [write.key not in stored for write in batch]
        stored.update(write.key for write in batch)
        return created

    world.outcome = create
    where = batches if step == "_answer" else Batches
    real = getattr(where, step)
    calls: list[int] = []

    def broken_off(*args: object) -> None:
        calls.append(1)
        if len(calls) == 2 and when == "before":
            raise KeyboardInterrupt
        real(*args)
        if len(calls) == 2 and when == "after":
            raise KeyboardInterrupt

    monkeypatch.setattr(where, step, broken_off)
    assert world.go_on(busy) == [True]
    assert isinstance(led.exception(SECONDS), KeyboardInterrupt)
    assert other.result(SECONDS) is True
    assert world.ran[1:] == [[b"leader", b"other"]]
    assert world.go_on(world.begin(b"next")) == [True]
    assert world.batches._under_way == 0


def test_all_are_answered_if_their_leader_is_broken_off_among_them(world: World) -> None:
    busy = world.keep_busy()
    leader, between = write_of(b"leader"), write_of(b"between")

    class Bell(SlowBell):
        def acquire(self, timeout: float) -> bool:
            return self.rung.wait(timeout)

        def release(self) -> None:
            super().release()
            raise KeyboardInterrupt

    between.bell = Bell()  # type: ignore[assignment]
    led = world.submit(leader)
    wait_until(lambda: leader in world.batches._queue)
    answered = world.submit(between)
    wait_until(lambda: between in world.batches._queue)
    waiting = world.begin(b"last")
    world.go_on(busy)
    assert isinstance(led.exception(SECONDS), KeyboardInterrupt)
    assert world.go_on([answered, *waiting]) == [True, True]


def test_only_who_had_company_waits_for_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(batches, "time", SimpleNamespace(sleep=slept.append))
    writes = [*world.keep_busy(), *world.begin(b"a", b"b")]
    world.go_on(writes)
    assert world.ran == [[b"busy"], [b"a", b"b"]]
    assert slept == [], "the first was alone"
    world.go_on(world.begin(b"c"))
    assert slept == [batches._COMPANY_SECONDS]
    world.go_on(world.begin(b"d"))
    assert slept == [batches._COMPANY_SECONDS], "the last one was alone"
