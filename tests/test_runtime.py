import threading

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
