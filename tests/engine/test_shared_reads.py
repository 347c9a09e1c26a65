"""Callers share a read that begins after they asked, and never one that was under way by then."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.kv import StoreUnreachable
from lakebed.runtime import Event, ThreadRuntime
from tests.kit.served import eventually

PATIENCE_SECONDS = 60


class Scene(ThreadRuntime):
    """Reads that end when they are let go, and a count of the callers who wait for one."""

    def __init__(self) -> None:
        self.reads = 0
        self.waiting = 0
        self.gate = threading.Semaphore(0)
        self.failing: set[int] = set()
        self._lock = threading.Lock()
        self.shared: SharedReads[str, int] = SharedReads(self, self._read)

    def event(self) -> Event:
        scene = self

        class Watched(threading.Event):
            def wait(self, timeout: float | None = PATIENCE_SECONDS) -> bool:
                with scene._lock:
                    scene.waiting += 1
                return super().wait(timeout)

        return Watched()

    def _read(self, _key: str) -> int:
        with self._lock:
            self.reads += 1
            number = self.reads
        assert self.gate.acquire(timeout=PATIENCE_SECONDS)
        if number in self.failing:
            raise StoreUnreachable(f"read {number}")
        return number

    def ask_while_one_reads(
        self, pool: ThreadPoolExecutor, *, others: int
    ) -> tuple["Future[int]", list["Future[int]"]]:
        """Let one caller begin to read, and then others ask for the same."""
        first = pool.submit(self.shared.get, "key")
        eventually(lambda: self.reads == 1)
        rest = [pool.submit(self.shared.get, "key") for _ in range(others)]
        eventually(lambda: self.waiting == others)
        return first, rest


def test_who_asks_during_a_read_gets_what_the_next_one_finds() -> None:
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
