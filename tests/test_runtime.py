import threading
import time
from typing import NoReturn

import pytest

from lakebed.runtime import ThreadRuntime


def test_map_parallel_keeps_order_and_bounds() -> None:
    running: list[int] = []
    most: list[int] = []
    barrier = threading.Barrier(3)

    def work(item: int) -> int:
        running.append(item)
        barrier.wait(timeout=30)  # only passes if three run at the same time
        most.append(len(running))
        running.remove(item)
        return item * 2

    assert ThreadRuntime().map_parallel(work, range(9), limit=3) == [n * 2 for n in range(9)]
    assert max(most) <= 3
    assert ThreadRuntime().map_parallel(work, []) == []


def test_map_parallel_raises_the_first_error_and_starts_no_more() -> None:
    begun: list[int] = []

    def fail(item: int) -> None:
        begun.append(item)
        if item >= 1:
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 1"):
        ThreadRuntime().map_parallel(fail, range(1000), limit=2)
    assert len(begun) < 1000


def test_the_clock_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept for an hour: its monotonic clock stood still meanwhile."""
    runtime = ThreadRuntime()
    begun = runtime.monotonic()
    clock_gettime = time.clock_gettime
    slept_seconds = {time.CLOCK_BOOTTIME: 3600.0, time.CLOCK_REALTIME: 3600.0}
    monkeypatch.setattr(
        time, "clock_gettime", lambda clock: clock_gettime(clock) + slept_seconds.get(clock, 0.0)
    )
    assert 3600 <= runtime.monotonic() - begun < 3700


def test_a_system_without_such_a_clock_has_the_ordinary_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert time.monotonic() <= ThreadRuntime().monotonic() <= time.monotonic()


def test_what_runs_side_by_side_is_done_without_threads_if_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert ThreadRuntime().map_parallel(str, range(3), limit=3) == ["0", "1", "2"]
