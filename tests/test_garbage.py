"""What tests rely on when they drop connections that are closed only when they are collected."""

import gc
import socket
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kit.garbage import collect_garbage


class Holder:
    """Garbage as soon as nobody else knows it, but only a collection finds that out."""

    def __init__(self, held: socket.socket) -> None:
        self.held = held
        self.itself = self


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_garbage_of_each_thread_is_collected_while_others_collect() -> None:
    def count_left(_number: int) -> int:
        left = 0
        for _ in range(10):
            one, other = socket.socketpair()
            dropped = weakref.ref(Holder(one))
            del one
            collect_garbage()
            left += dropped() is not None
            other.close()
        return left

    # Else each of forty collections looks through all that the tests before have left: a minute.
    gc.freeze()
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(count_left, range(4))) == [0] * 4
    finally:
        gc.unfreeze()
