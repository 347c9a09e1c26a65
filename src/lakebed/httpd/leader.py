"""A leader/followers thread pool: the leader polls and serves, followers sleep.

Only one thread runs Python at a time, and passing a request to another thread takes longer than a
small request. So the leader serves the events it finds itself, one after the other, without waking
a thread. Waiting for a disk, a database or a client would block all other requests. So a thread
calls `release` before it waits, and a follower becomes the leader; after its request the thread
sleeps until it is made the leader again.

A leader that works for long, or waits without calling `release`, is replaced after `LONG_SECONDS`.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

LONG_SECONDS: Final = 0.01
"""Approximate time after which a busy leader is replaced."""
_PAUSE_SECONDS_MAX: Final = 0.1
"""Maximum interval of the watcher while idle."""
_SLEEP_SECONDS: Final = 30.0
"""Time after which a sleeping follower ends."""

WorkT = TypeVar("WorkT")
_LOGGER: Final = logging.getLogger(__name__)


class LeaderPool(Generic[WorkT]):
    """A pool of threads with one leader."""

    def __init__(
        self,
        find: Callable[[], WorkT],
        work: Callable[[WorkT], None],
        *,
        threads_max: int,
        heartbeat: Callable[[], object] = lambda: None,
        begin_thread: Callable[[Callable[[], None]], object] = lambda _release: None,
    ) -> None:
        """Prepare the pool; `start` starts the first thread.

        Args:
            find: Waits for a piece of work and returns it.
            work: Does a piece of work; exceptions are logged.
            threads_max: Maximum number of threads.
            heartbeat: Called several times a second while all threads are busy and no other can be
                started: no thread calls `find` then, but the process does not hang.
            begin_thread: Called in each new thread with `release`.
        """
        self._find = find
        self._work = work
        self._threads_max = threads_max
        self._heartbeat = heartbeat
        self._begin_thread = begin_thread
        self._lock = threading.Lock()
        self._leader = 0
        """Identifier of the leader; 0 without a leader, or while a new one is woken."""
        self._is_vacant = False
        """Whether all possible threads are busy: the first to finish becomes the leader."""
        self._count = 0
        self._followers: list[threading.Lock] = []
        """A latch for each follower; the last to fall asleep is woken first."""
        self._lacks_threads = False
        self._begun = 0
        """Number of pieces of work begun by leaders."""
        self._working_on = 0
        """Number of the piece that the leader works on; 0 while polling."""

    @property
    def count(self) -> int:
        """Number of threads."""
        return self._count

    def start(self) -> None:
        """Start the first thread, and the watcher that replaces leaders.

        Raises:
            RuntimeError: The system cannot start a thread.
        """
        with self._lock:
            self._start_thread()
        threading.Thread(target=self._watch, name="httpd-watcher", daemon=True).start()

    def release(self) -> None:
        """Release leadership, if this thread is the leader."""
        me = threading.get_ident()
        if self._leader == me:
            with self._lock:
                if self._leader == me:  # the watcher may have released it
                    self._promote()

    def _promote(self) -> None:
        """Make another thread the leader; the caller holds the lock."""
        self._leader = self._working_on = 0
        if self._followers:
            self._followers.pop().release()
            return
        self._is_vacant = True
        if self._count < self._threads_max:
            try:
                self._start_thread()
            except RuntimeError as error:
                if not self._lacks_threads:
                    _LOGGER.warning("cannot start more than %d threads: %s", self._count, error)
                self._lacks_threads = True
            else:
                self._is_vacant = self._lacks_threads = False

    def _start_thread(self) -> None:
        """Start a thread as the leader; the caller holds the lock."""
        name = f"httpd-{self._count + 1}"
        threading.Thread(target=self._run, name=name, daemon=True).start()
        self._count += 1

    def _run(self) -> None:
        """Work while this thread is the leader; sleep until it is made the leader again."""
        me = threading.get_ident()
        self._begin_thread(self.release)
        while True:
            self._leader = me
            while self._leader == me:
                try:
                    found = self._find()
                    if self._leader == me:
                        self._begun += 1
                        self._working_on = self._begun
                    self._work(found)
                except BaseException:  # a dead thread would leave the pool without a leader
                    _LOGGER.exception("a thread failed and continues")
                if self._leader == me:
                    self._working_on = 0
            if not self._sleep():
                return

    def _sleep(self) -> bool:
        """Wait until this thread is made the leader; return False if it should end instead."""
        latch = threading.Lock()
        latch.acquire()
        with self._lock:
            if self._is_vacant:
                self._is_vacant = False
                return True
            self._followers.append(latch)
        if latch.acquire(timeout=_SLEEP_SECONDS):
            return True
        with self._lock:
            if latch not in self._followers:
                return True  # made the leader at the last moment
            self._followers.remove(latch)
            self._count -= 1
        return False

    def _watch(self) -> None:
        """Replace a leader busy for long; call `heartbeat` while no thread is the leader."""
        pause, seen, begun = LONG_SECONDS, 0, 0
        while True:
            time.sleep(pause)
            working_on = self._working_on
            if working_on and working_on == seen:
                with self._lock:
                    if self._working_on == seen:
                        self._promote()
            if self._is_vacant:
                with self._lock:
                    if self._is_vacant:
                        self._promote()  # the system may be able to start a thread by now
                        self._heartbeat()
            is_busy = self._begun != begun
            pause = LONG_SECONDS if is_busy else min(2 * pause, _PAUSE_SECONDS_MAX)
            seen, begun = working_on, self._begun
