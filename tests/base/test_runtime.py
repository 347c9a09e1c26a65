import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest

from lakebed.base import runtime
from lakebed.base.runtime import ThreadRuntime


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
    """A machine that slept for an hour, during which its monotonic clock stood still."""
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


def test_parallel_work_runs_without_threads_if_none_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runtime, "_helpers", runtime._new_helpers())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert ThreadRuntime().map_parallel(str, range(3), limit=3) == ["0", "1", "2"]


def test_a_call_does_not_wait_for_helpers_that_others_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ThreadPoolExecutor(1) as helpers:
        monkeypatch.setattr(runtime, "_helpers", helpers)
        busy = threading.Event()
        held = helpers.submit(busy.wait, 30)
        assert ThreadRuntime().map_parallel(str, range(3), limit=3) == ["0", "1", "2"]
        assert not held.done()
        busy.set()


def test_parallel_work_can_be_nested() -> None:
    def count(depth: int) -> int:
        return 1 + sum(ThreadRuntime().map_parallel(count, [depth - 1] * 3)) if depth else 1

    assert count(4) == 1 + 3 + 9 + 27 + 81


def test_a_thread_that_waits_for_work_holds_nothing_of_the_last() -> None:
    class Item:
        pass

    items = [Item() for _ in range(3)]
    seen = [weakref.ref(item) for item in items]
    barrier = threading.Barrier(3)
    ThreadRuntime().map_parallel(lambda _item: barrier.wait(timeout=30), items, limit=3)
    items.clear()
    assert [item() for item in seen] == [None] * 3


def test_random_bytes_never_come_twice() -> None:
    draws = ThreadRuntime().map_parallel(
        lambda count: [ThreadRuntime().random_bytes(count) for _ in range(500)],
        [16, 8, 10, 16, 600, 3000],
        limit=6,
    )
    drawn = [each for of_thread in draws for each in of_thread]
    assert [len(each) for each in drawn[::500]] == [16, 8, 10, 16, 600, 3000]
    # In pieces, to show whether draws of different lengths share a beginning or end.
    pieces = [each[at : at + 8] for each in drawn for at in range(0, len(each) - 7, 8)]
    assert len(set(pieces)) == len(pieces)


def test_a_forked_process_draws_other_bytes() -> None:
    ThreadRuntime().random_bytes(16)
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.write(write_end, ThreadRuntime().random_bytes(16))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.read(read_end, 16) != ThreadRuntime().random_bytes(16)
    os.close(read_end)
    os.close(write_end)


def test_a_forked_process_has_threads_of_its_own() -> None:
    ThreadRuntime().map_parallel(str, range(3), limit=3)
    child = os.fork()
    if not child:
        done = ThreadRuntime().map_parallel(str, range(3), limit=3) == ["0", "1", "2"]
        os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
