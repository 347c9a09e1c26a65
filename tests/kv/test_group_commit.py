"""Group commit: which writes share a batch, their results, and interrupts of the main thread."""

import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from lakebed.base.runtime import call_before_waiting
from lakebed.kv import OutcomeUnknown, StoreClosed, StoreUnavailable, Version, group_commit
from lakebed.kv.drivers.postgresql import batches
from lakebed.kv.drivers.postgresql.batches import PostgresWrite, choose
from lakebed.kv.group_commit import Batch, GroupCommit

SECONDS = 30.0
WINDOW_SECONDS = 0.000123
BATCHES_MAX = 2


def write_of(key: bytes, value: bytes = b"") -> PostgresWrite:
    return PostgresWrite(b"p", key, value, Version(key * 16))


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = monotonic() + SECONDS
    while not condition():
        assert monotonic() < give_up_at
        sleep(0.001)


class World:
    """A group commit in front of a database that is busy until `may_run` is set."""

    def __init__(self, batches_max: int = BATCHES_MAX) -> None:
        self.may_run = threading.Event()
        self.held: dict[bytes, threading.Event] = {}
        """Those whose batches may run only when their own event says so."""
        self.ran: list[list[bytes]] = []
        self.outcome: Callable[[Sequence[PostgresWrite]], Sequence[bool]] = lambda batch: (
            [True] * len(batch)
        )
        self.group = GroupCommit(
            self._commit, choose, window_seconds=WINDOW_SECONDS, batches_max=batches_max
        )
        self._pool = ThreadPoolExecutor(100)

    def _commit(self, batch: Batch[PostgresWrite]) -> None:
        writes = batch.fill()
        self.ran.append([write.key for write in writes])
        assert self.may_run.wait(SECONDS)
        for write in writes:
            if write.key in self.held:
                assert self.held[write.key].wait(SECONDS)
        for write, applied in zip(writes, self.outcome(writes), strict=True):
            write.applied = applied

    def begin(self, *keys: bytes, value: bytes = b"") -> list["Future[bool]"]:
        """Begin writes, one after the other; each is under way or queued when this returns."""
        begun = []
        for key in keys:
            before = self._known()
            begun.append(self.submit(write_of(key, value)))
            wait_until(lambda before=before: self._known() > before)  # type: ignore[misc]
        return begun

    def submit(self, write: PostgresWrite) -> "Future[bool]":
        return self._pool.submit(lambda: self.group.run(write).applied)

    def _known(self) -> int:
        return sum(map(len, self.ran)) + len(self.group._queue)

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
    monkeypatch.setattr(group_commit, "LONG_SECONDS", SECONDS)


def test_a_write_that_finds_nobody_goes_alone(world: World) -> None:
    assert world.go_on(world.begin(b"a")) == [True]
    assert world.go_on(world.begin(b"b")) == [True]
    assert world.ran == [[b"a"], [b"b"]]


def test_waiting_writes_share_a_batch(world: World) -> None:
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


class SlowWrite(PostgresWrite):
    """A write whose thread wakes up only when `may_wake` is set."""

    def __init__(self, key: bytes) -> None:
        super().__init__(b"p", key, b"", Version(key.ljust(16)))
        self.was_woken = threading.Event()
        self.may_wake = threading.Event()

    def wait(self, seconds: float) -> bool:
        assert self.may_wake.wait(seconds)
        return True

    def wake(self) -> None:
        self.was_woken.set()


def test_writes_that_arrive_while_their_leader_wakes_up_join_its_batch(world: World) -> None:
    busy = world.keep_busy()
    leader = SlowWrite(b"leader")
    led = world.submit(leader)
    wait_until(lambda: leader in world.group._queue)
    world.go_on(busy)
    assert leader.was_woken.wait(SECONDS)
    late = world.begin(b"late")
    leader.may_wake.set()
    assert world.go_on([led, *late]) == [True, True]
    assert world.ran[1:] == [[b"leader", b"late"]]


def test_a_long_waiting_write_starts_a_parallel_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LONG_SECONDS", 0.01)
    under_way = world.begin(*(b"%d" % number for number in range(BATCHES_MAX)))
    wait_until(lambda: len(world.ran) == BATCHES_MAX)
    (late,) = world.begin(b"late")
    wait_until(lambda: world.group._queue[0].has_waited)
    assert world.ran == [[b"%d" % number] for number in range(BATCHES_MAX)]
    assert all(world.go_on([*under_way, late]))
    assert world.ran[BATCHES_MAX:] == [[b"late"]]


def begin_two(world: World, monkeypatch: pytest.MonkeyPatch) -> list["Future[bool]"]:
    """Begin two batches, of which the first ends when it is let go on by itself."""
    world.held[b"slow"] = threading.Event()
    monkeypatch.setattr(group_commit, "LONG_SECONDS", 0.01)
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
    assert len(world.group._queue) == 2
    world.held[b"slow"].set()
    assert all(world.go_on([slow, *waiting]))
    assert world.ran[2:] == [[b"a", b"b"]]


def test_a_batch_beside_another_is_followed_by_those_who_have_waited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, beside = begin_two(world, monkeypatch)
    waiting = world.begin(b"a")
    wait_until(lambda: world.group._queue[0].has_waited)
    assert all(world.go_on([beside, *waiting]))
    assert not slow.done()
    world.held[b"slow"].set()
    assert world.go_on([slow]) == [True]


@pytest.mark.parametrize("kind", [StoreUnavailable, OutcomeUnknown])
def test_all_get_the_error_of_their_batch(world: World, kind: type[OutcomeUnknown]) -> None:
    busy = world.keep_busy()
    waiting = world.begin(b"a", b"b", b"c")

    def fail(batch: Sequence[PostgresWrite]) -> Sequence[bool]:
        if len(batch) > 1:
            raise kind("the disk is on fire")
        return [True]

    world.outcome = fail
    world.go_on(busy)
    errors = [write.exception(SECONDS) for write in waiting]
    assert [type(error) for error in errors] == [kind] * 3
    assert len(set(map(id, errors))) == 3
    assert world.go_on(world.begin(b"d")) == [True]


def test_an_unexpected_error_is_an_unknown_outcome_of_all(world: World) -> None:
    busy = world.keep_busy()
    waiting = world.begin(b"a", b"b")

    def fail(batch: Sequence[PostgresWrite]) -> Sequence[bool]:
        if len(batch) > 1:
            raise ZeroDivisionError("surprise")
        return [True]

    world.outcome = fail
    world.go_on(busy)
    for write in waiting:
        error = write.exception(SECONDS)
        assert type(error) is OutcomeUnknown
        assert "surprise" in str(error)
    assert world.go_on(world.begin(b"c")) == [True]


class NotedWrite(PostgresWrite):
    """A write that notes when it is answered."""

    answered: ClassVar[list[bytes]] = []

    @property
    def is_answered(self) -> bool:
        return self.key in self.answered

    @is_answered.setter
    def is_answered(self, value: bool) -> None:
        if value:
            self.answered.append(self.key)


def test_a_write_is_answered_before_those_that_wake_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that wakes up by its timeout, and finds its result, wakes the next one."""
    monkeypatch.setattr(NotedWrite, "answered", [])
    busy = world.keep_busy()
    writes = []
    for key in (b"a", b"b", b"c"):
        write = NotedWrite(b"p", key, b"", Version(key * 16))
        writes.append(world.submit(write))
        wait_until(lambda write=write: write in world.group._queue)  # type: ignore[misc]
    assert world.go_on(busy + writes) == [True] * 4
    assert NotedWrite.answered == [b"c", b"b", b"a"]


def test_a_write_that_waits_for_too_long_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LONG_SECONDS", "QUEUE_SECONDS"):
        monkeypatch.setattr(group_commit, name, 0.01)
    world = World(batches_max=1)
    busy = world.keep_busy()
    (late,) = world.begin(b"late")
    assert isinstance(late.exception(SECONDS), StoreUnavailable)
    world.go_on(busy)
    assert [b"late"] not in world.ran


def test_closing_waits_for_the_queue(world: World) -> None:
    writes = [*world.keep_busy(), *world.begin(b"a")]
    with ThreadPoolExecutor(1) as pool:
        closed = pool.submit(world.group.close)
        wait_until(lambda: world.group._is_closed)
        with pytest.raises(StoreClosed):
            world.group.run(write_of(b"late"))
        assert not closed.done()
        assert world.go_on(writes) == [True, True]
        assert closed.result(SECONDS)
    assert world.ran == [[b"busy"], [b"a"]]


# The main thread


class Interrupt(Exception):
    """Raised by a signal handler."""


def interrupt(*_: object) -> None:
    raise Interrupt


def test_a_write_of_the_main_thread_is_applied(world: World) -> None:
    world.may_run.set()
    assert world.group.run(write_of(b"a")).applied
    assert world.group.run(write_of(b"b")).applied
    assert world.group.close()


def test_an_error_of_a_write_of_the_main_thread_is_raised(world: World) -> None:
    def fail(_batch: Sequence[PostgresWrite]) -> Sequence[bool]:
        raise StoreUnavailable("the disk is on fire")

    world.may_run.set()
    world.outcome = fail
    with pytest.raises(StoreUnavailable, match="on fire"):
        world.group.run(write_of(b"a"))


class Interrupts:
    """Does what another object does, and interrupts the main thread after it, once."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self) -> None:
        self._inner()
        self._interrupt()

    def put(self, item: object) -> None:
        self._inner.put(item)
        self._interrupt()

    def __enter__(self) -> None:
        self._inner.acquire()

    def __exit__(self, *_: object) -> None:
        self._inner.release()
        self._interrupt()

    def _interrupt(self) -> None:
        if not self._is_over and threading.current_thread() is threading.main_thread():
            self._is_over = True
            interrupt()


@pytest.mark.parametrize("where", ["_check_open", "_lock", "_handed_over"])
def test_an_interrupted_write_is_not_applied_after_its_call_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(world.group, where, Interrupts(getattr(world.group, where)))
    world.may_run.set()
    with pytest.raises(Interrupt):
        world.group.run(write_of(b"a"))
    ran = list(world.ran)
    world.group.close()  # after every write that was handed over
    assert world.ran == ran
    if where == "_check_open":  # later, the helper has it, and may have run it by the interrupt
        assert not ran


def test_a_write_interrupted_before_it_is_handed_over_is_not_applied(world: World) -> None:
    call_before_waiting(interrupt)
    try:
        with pytest.raises(Interrupt):
            world.group.run(write_of(b"a"))
    finally:
        call_before_waiting(lambda: None)
    world.group.close()
    assert not world.ran


class LateQueue:
    """A queue whose reader is late: it hands an item on only when `arrive` is called."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._items: list[object] = []

    def put(self, item: object) -> None:
        self._items.append(item)
        interrupt()

    def get(self) -> Any:
        return self._queue.get()

    def arrive(self) -> None:
        for item in self._items:
            self._queue.put(item)


def test_a_withdrawn_write_never_enters_the_queue(world: World) -> None:
    """The helper takes it after the main thread was interrupted and has gone on."""
    world.may_run.set()
    late: Any = LateQueue(world.group._handed_over)
    world.group._handed_over = late
    with pytest.raises(Interrupt):
        world.group.run(write_of(b"a"))
    late.arrive()
    world.group._handed_over = late._queue
    assert world.group.run(write_of(b"b")).applied  # the helper takes it after the first
    assert world.ran == [[b"b"]]


def test_an_interrupted_write_in_a_batch_is_completed_first(world: World) -> None:
    applied_at: list[float] = []

    def apply(batch: Sequence[PostgresWrite]) -> Sequence[bool]:
        sleep(0.05)
        applied_at.append(monotonic())
        return [True] * len(batch)

    world.outcome = apply
    before = signal.signal(signal.SIGUSR1, interrupt)

    def interrupt_main() -> None:
        wait_until(lambda: world.ran == [[b"a"]])
        for _ in range(5):  # a second interrupt changes nothing
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            sleep(0.01)
        world.may_run.set()

    try:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(interrupt_main)
            with pytest.raises(Interrupt):
                world.group.run(write_of(b"a"))
            assert monotonic() >= applied_at[0]
            done.result(SECONDS)
    finally:
        signal.signal(signal.SIGUSR1, before)


# The window


def test_a_leader_waits_for_more_writes_only_after_a_shared_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(group_commit, "time", SimpleNamespace(sleep=slept.append))
    writes = [*world.keep_busy(), *world.begin(b"a", b"b")]
    world.go_on(writes)
    assert world.ran == [[b"busy"], [b"a", b"b"]]
    assert slept == [], "the first was alone"
    world.go_on(world.begin(b"c"))
    assert slept == [WINDOW_SECONDS]
    world.go_on(world.begin(b"d"))
    assert slept == [WINDOW_SECONDS], "the last one was alone"
