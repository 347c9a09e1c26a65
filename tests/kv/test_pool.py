"""The pool of connections: who waits how long, and what becomes of a late connection."""

import threading
import time
from collections.abc import Callable

import pytest

from lakebed.kv import InvalidArgument, StoreClosed, StoreUnavailable, StoreUnreachable, open_store
from lakebed.kv import pool as module
from lakebed.kv.pool import Pool
from lakebed.testing.conformance.kv_concurrency import in_threads


class FakeLink:
    """A connection to nowhere."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def is_usable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed.set()


class Server:
    """Lets connections come when it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked = 0
        self.made: list[FakeLink] = []

    def connect(self) -> FakeLink:
        self.asked += 1
        assert self.answers.wait(60)
        self.made.append(FakeLink())
        return self.made[-1]


def make_pool(connect: Callable[[], FakeLink]) -> Pool[FakeLink]:
    return Pool(connect, 1, database="it", explain=lambda error: " ".join(str(error).split()))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long."""
    monkeypatch.setattr(module, "TAKE_SECONDS", 0.05)
    monkeypatch.setattr(module, "RETAKE_SECONDS", 0.01)


@pytest.mark.usefixtures("hasty")
def test_a_connection_that_comes_late_is_for_the_next_call(server: Server) -> None:
    pool = make_pool(server.connect)
    with pytest.raises(StoreUnreachable, match="timed out"):
        pool.take()
    # The attempt still counts: there is no second one beside it.
    with pytest.raises(StoreUnreachable, match="timed out"):
        pool.take()
    server.answers.set()
    assert pool.take(60) is server.made[0]
    assert server.asked == 1


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_a_busy_pool_is_waited_for_longer_than_a_server_that_is_away(server: Server) -> None:
    server.answers.set()
    pool = make_pool(server.connect)
    link = pool.take(60)
    waiting: list[object] = []
    thread = threading.Thread(target=lambda: waiting.append(pool.take()))
    thread.start()
    thread.join(10 * module.TAKE_SECONDS)
    assert thread.is_alive()
    pool.give_back(link, link)
    thread.join(60)
    assert waiting == [link]


def test_a_connection_given_back_right_after_nobody_found_one_is_not_overlooked(
    server: Server,
) -> None:
    server.answers.set()
    pool = make_pool(server.connect)
    link = pool.take(60)
    giver = threading.Thread(target=lambda: pool.give_back(link, link))

    class Idle(list[FakeLink]):
        looks = 0

        def pop(self, *_: object) -> FakeLink:
            try:
                return super().pop()
            except IndexError:
                self.looks += 1
                if self.looks == 2:  # the first look is without the lock, the second behind it
                    giver.start()
                    giver.join(0.2)  # it ends now, or waits for the lock that is held here
                raise

    pool._idle = Idle()
    assert pool.take(60) is link
    giver.join(60)


def test_threads_share_few_connections(server: Server) -> None:
    server.answers.set()
    pool = Pool(server.connect, 2, database="it", explain=str)
    at_once = threading.BoundedSemaphore(2)

    def use() -> None:
        for _ in range(500):
            link = pool.take(60)
            assert at_once.acquire(blocking=False), "more connections are in use than there may be"
            time.sleep(0)  # others run
            at_once.release()
            pool.give_back(link, link)

    in_threads([use] * 8)
    assert len(server.made) <= 2
    pool.close()
    assert all(link.closed.is_set() for link in server.made)


def test_a_connection_that_comes_back_after_the_end_is_closed(server: Server) -> None:
    server.answers.set()
    pool = make_pool(server.connect)
    link = pool.take(60)
    pool.close()
    assert not link.closed.is_set()
    pool.give_back(link, link)
    assert link.closed.is_set()


@pytest.mark.usefixtures("hasty")
def test_a_pool_that_stays_busy_is_not_called_unreachable(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    server.answers.set()
    pool = make_pool(server.connect)
    pool.take(60)
    with pytest.raises(StoreUnavailable, match="all 1 connections to it were busy") as busy:
        pool.take()
    assert not isinstance(busy.value, StoreUnreachable)


@pytest.mark.usefixtures("hasty")
def test_callers_do_not_queue_for_an_unreachable_server(server: Server) -> None:
    pool = make_pool(server.connect)
    errors: list[Exception] = []

    def take() -> None:
        try:
            pool.take()
        except StoreUnreachable as error:
            errors.append(error)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(errors) == 3, "who waited for a turn got another error"
    server.answers.set()


@pytest.mark.usefixtures("hasty")
def test_a_connection_that_comes_after_the_end_is_closed(server: Server) -> None:
    pool = make_pool(server.connect)
    with pytest.raises(StoreUnreachable):
        pool.take()
    pool.close()
    server.answers.set()
    while not server.made:
        pass
    assert server.made[0].closed.wait(60)
    with pytest.raises(StoreClosed):
        pool.take()


def test_an_attempt_that_fails_says_why_and_makes_room() -> None:
    def refuse() -> FakeLink:
        raise OSError("connection refused\n  by nobody")

    pool = make_pool(refuse)
    for _ in range(3):
        with pytest.raises(StoreUnreachable, match=r"to it: connection refused by nobody$"):
            pool.take(60)


def test_without_a_thread_there_is_no_connection_but_the_turn_comes_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = make_pool(server.connect)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StoreUnreachable, match="can't start new thread"):
            pool.take()
    server.answers.set()
    assert pool.take(60) is server.made[0]


def test_after_a_failure_there_is_less_patience(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKE_SECONDS", 100.0)
    monkeypatch.setattr(module, "RETAKE_SECONDS", 0.01)
    pool = make_pool(server.connect)
    with pytest.raises(StoreUnreachable):
        pool.take(0.01)
    with pytest.raises(StoreUnreachable):
        pool.take()
    server.answers.set()
    pool.give_back(pool.take(60), None)
    # A success restores it: this call has to wait for a connection, and does.
    server.answers.clear()
    threading.Timer(0.1, server.answers.set).start()
    assert pool.take() is server.made[1]


@pytest.mark.parametrize("size", ["0", "-1", "many", "", "1001", "1e2", "²"])
def test_a_pool_of_no_sensible_size_is_refused(size: str) -> None:
    with pytest.raises(InvalidArgument, match=f"pool_size must be .* from 1 to 1000, not '{size}'"):
        open_store(f"postgresql://user:s3cret@127.0.0.1:1/db?sslmode=disable&pool_size={size}")
