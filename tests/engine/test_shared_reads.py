"""Callers share a read that begins after their calls, never one already in progress."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from lakebed.base.runtime import Event, Lock, ThreadRuntime
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.kv import StoreUnreachable
from tests.kit.served import eventually

PATIENCE_SECONDS = 60


class Scene(ThreadRuntime):
    """Reads that end on command, and a count of waiting callers."""

    def __init__(self) -> None:
        self.reads = 0
        self.waiting = 0
        self.gate = threading.Semaphore(0)
        self.failing: set[int] = set()
        self.broken_off: set[int] = set()
        """Numbers of the waiting callers to interrupt when released, as by Ctrl-C."""
        self.break_off = threading.Event()
        self.breaks_off_at_lock = False
        """Whether the next caller to leave a lock is interrupted there."""
        self.interrupted: set[int] = set()
        """Reads to interrupt."""
        self._lock = threading.Lock()
        self.shared: SharedReads[str, int] = SharedReads(self, self._read)

    def event(self) -> Event:
        scene = self

        class Watched(threading.Event):
            def wait(self, timeout: float | None = PATIENCE_SECONDS) -> bool:
                with scene._lock:
                    scene.waiting += 1
                    number = scene.waiting
                if number in scene.broken_off:
                    assert scene.break_off.wait(PATIENCE_SECONDS)
                    raise KeyboardInterrupt
                assert super().wait(timeout)
                return True

        return Watched()

    def lock(self) -> Lock:
        scene = self

        class Watched:
            def __init__(self) -> None:
                self._lock = threading.Lock()

            def __enter__(self) -> None:
                self._lock.acquire()

            def __exit__(self, *_: object) -> None:
                self._lock.release()
                if scene.breaks_off_at_lock:
                    scene.breaks_off_at_lock = False
                    raise KeyboardInterrupt

        return Watched()

    def _read(self, _key: str) -> int:
        with self._lock:
            self.reads += 1
            number = self.reads
        assert self.gate.acquire(timeout=PATIENCE_SECONDS)
        if number in self.interrupted:
            raise KeyboardInterrupt
        if number in self.failing:
            raise StoreUnreachable(f"read {number}")
        return number

    def ask_while_one_reads(
        self, pool: ThreadPoolExecutor, *, others: int
    ) -> tuple["Future[int]", list["Future[int]"]]:
        """Let one caller begin to read, and more call for the same key."""
        first = pool.submit(self.shared.get, "key")
        eventually(lambda: self.reads == 1)
        rest = [pool.submit(self.shared.get, "key") for _ in range(others)]
        eventually(lambda: self.waiting == others)
        return first, rest


def test_callers_during_a_read_get_the_result_of_the_next() -> None:
    scene = Scene()
    with ThreadPoolExecutor(8) as pool:
        first, rest = scene.ask_while_one_reads(pool, others=3)
        scene.gate.release(2)
        assert first.result(PATIENCE_SECONDS) == 1
        assert [each.result(PATIENCE_SECONDS) for each in rest] == [2, 2, 2]
        scene.gate.release()
        assert scene.shared.get("key") == 3


def test_other_keys_are_not_waited_for() -> None:
    scene = Scene()
    with ThreadPoolExecutor(8) as pool:
        first, _ = scene.ask_while_one_reads(pool, others=0)
        other = pool.submit(scene.shared.get, "other key")
        eventually(lambda: scene.reads == 2)
        scene.gate.release(2)
        assert {first.result(PATIENCE_SECONDS), other.result(PATIENCE_SECONDS)} == {1, 2}


@pytest.mark.parametrize("failing", [1, 2])
def test_an_error_is_told_to_those_who_share_the_read_and_to_no_others(failing: int) -> None:
    scene = Scene()
    scene.failing = {failing}
    with ThreadPoolExecutor(8) as pool:
        first, rest = scene.ask_while_one_reads(pool, others=2)
        scene.gate.release(2)
        failed, fine = ([first], rest) if failing == 1 else (rest, [first])
        for each in failed:
            with pytest.raises(StoreUnreachable, match=f"read {failing}"):
                each.result(PATIENCE_SECONDS)
        assert {each.result(PATIENCE_SECONDS) for each in fine} == {3 - failing}
        scene.gate.release()
        assert scene.shared.get("key") == 3


def test_a_caller_interrupted_before_its_read_leaves_it_to_the_others() -> None:
    scene = Scene()
    scene.broken_off = {1}
    with ThreadPoolExecutor(8) as pool:
        first, [leader] = scene.ask_while_one_reads(pool, others=1)
        others = [pool.submit(scene.shared.get, "key") for _ in range(2)]
        eventually(lambda: scene.waiting == 3)
        scene.break_off.set()
        assert isinstance(leader.exception(PATIENCE_SECONDS), KeyboardInterrupt)
        eventually(lambda: scene.waiting == 5)  # for the read that one of them will make
        assert scene.reads == 1  # the one that was under way when they asked
        scene.gate.release(2)
        assert first.result(PATIENCE_SECONDS) == 1
        assert [each.result(PATIENCE_SECONDS) for each in others] == [2, 2]
        scene.gate.release()
        assert pool.submit(scene.shared.get, "key").result(PATIENCE_SECONDS) == 3


def test_an_interrupted_last_caller_leaves_no_pending_read() -> None:
    scene = Scene()
    scene.broken_off = {1}
    with ThreadPoolExecutor(8) as pool:
        first, [leader] = scene.ask_while_one_reads(pool, others=1)
        scene.break_off.set()
        assert isinstance(leader.exception(PATIENCE_SECONDS), KeyboardInterrupt)
        scene.gate.release(2)
        assert first.result(PATIENCE_SECONDS) == 1
        assert pool.submit(scene.shared.get, "key").result(PATIENCE_SECONDS) == 2


def test_a_caller_interrupted_when_its_read_may_start_passes_it_on() -> None:
    scene = Scene()
    scene.broken_off = {1}
    with ThreadPoolExecutor(8) as pool:
        first, [leader] = scene.ask_while_one_reads(pool, others=1)
        of_its_batch = pool.submit(scene.shared.get, "key")
        eventually(lambda: scene.waiting == 2)
        scene.gate.release()
        assert first.result(PATIENCE_SECONDS) == 1
        behind = pool.submit(scene.shared.get, "key")
        eventually(lambda: scene.waiting == 3)
        scene.break_off.set()
        assert isinstance(leader.exception(PATIENCE_SECONDS), KeyboardInterrupt)
        scene.gate.release(2)
        assert behind.result(PATIENCE_SECONDS) == 2
        assert of_its_batch.result(PATIENCE_SECONDS) == 3
        scene.gate.release()
        assert pool.submit(scene.shared.get, "key").result(PATIENCE_SECONDS) == 4


def test_a_caller_interrupted_during_its_read_leaves_it_to_the_others() -> None:
    scene = Scene()
    scene.interrupted = {2}
    with ThreadPoolExecutor(8) as pool:
        first, [leader] = scene.ask_while_one_reads(pool, others=1)
        others = [pool.submit(scene.shared.get, "key") for _ in range(2)]
        eventually(lambda: scene.waiting == 3)
        scene.gate.release(2)
        assert first.result(PATIENCE_SECONDS) == 1
        assert isinstance(leader.exception(PATIENCE_SECONDS), KeyboardInterrupt)
        eventually(lambda: (scene.reads, scene.waiting) == (3, 4))
        scene.gate.release(2)
        assert {each.result(PATIENCE_SECONDS) for each in others} == {3, 4}


@pytest.mark.parametrize("others", [0, 1])
def test_a_caller_interrupted_at_once_reads_nothing(others: int) -> None:
    """As the first caller, or during another's read."""
    scene = Scene()
    with ThreadPoolExecutor(8) as pool:
        begun = [pool.submit(scene.shared.get, "key") for _ in range(others)]
        eventually(lambda: scene.reads == others)
        scene.breaks_off_at_lock = True
        broken_off = pool.submit(scene.shared.get, "key")
        assert isinstance(broken_off.exception(PATIENCE_SECONDS), KeyboardInterrupt)
        scene.gate.release(2)
        assert [each.result(PATIENCE_SECONDS) for each in begun] == [1] * others
        last = pool.submit(scene.shared.get, "key")
        assert last.result(PATIENCE_SECONDS) == 1 + others
