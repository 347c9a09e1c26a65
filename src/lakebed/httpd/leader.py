"""A leader/followers thread pool: the leader polls and serves what it finds, followers sleep.

Only one thread runs Python at a time, and to hand a request to another thread takes longer than a
small request. So the leader serves what it finds itself, one request after the other, and wakes no
thread. It would hold up all others if it waited for a disk, a database or a client meanwhile. So a
thread that is about to wait calls `release` first: another thread becomes the leader. When its
request is finished, the thread sleeps until it is made the leader again.

A leader that works for long, or waits and did not say so, is replaced after `LONG_SECONDS`.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

LONG_SECONDS: Final = 0.01
"""How long a piece of work may take before another thread becomes the leader, roughly."""
_PAUSE_SECONDS_MAX: Final = 0.1
"""The longest time between two looks of the watcher, while there is nothing to do."""
_SLEEP_SECONDS: Final = 30.0
"""How long a follower sleeps before it ends."""

WorkT = TypeVar("WorkT")
_LOGGER: Final = logging.getLogger(__name__)


class LeaderPool(Generic[WorkT]):
    """Threads of which one is the leader."""

    def __init__(
        self,
        find: Callable[[], WorkT],
        work: Callable[[WorkT], None],
        *,
        threads_max: int,
        beat: Callable[[], object] = lambda: None,
        begin_thread: Callable[[Callable[[], None]], object] = lambda _release: None,
    ) -> None:
        """Prepare; `start` starts the first thread.

        Args:
            find: Waits for a piece of work and returns it.
            work: Does a piece of work. What it raises is logged, and the thread goes on.
            threads_max: How many threads there may be.
            beat: Called several times a second while all threads are at work and no other can be
                started: no thread calls `find` then, but the process does not hang.
            begin_thread: Called in each new thread with `release`.
        """
        self._find = find
        self._work = work
        self._threads_max = threads_max
        self._beat = beat
        self._begin_thread = begin_thread
        self._lock = threading.Lock()
        self._leader = 0
        """Identifier of the leader, or 0 while a new one is being woken or there is none."""
        self._is_vacant = False
        """Whether all threads that there may be are at work: the first that ends becomes leader."""
        self._count = 0
        self._followers: list[threading.Lock] = []
        """A latch for each follower; the one that fell asleep last is woken first."""
        self._lacks_threads = False
        self._begun = 0
        """How many pieces of work were begun by leaders."""
        self._working_on = 0
        """The number of the piece that the leader works on, or 0 if it polls."""

    @property
    def count(self) -> int:
        """How many threads there are."""
        return self._count

    def start(self) -> None:
        """Start the first thread, and the watcher that replaces leaders.

        Raises:
            RuntimeError: The system gives no thread.
        """
        with self._lock:
            self._start_thread()
        threading.Thread(target=self._watch, name="httpd-watcher", daemon=True).start()

    def release(self) -> None:
        """Make another thread the leader, if this one is."""
        me = threading.get_ident()
        if self._leader == me:
            with self._lock:
                if self._leader == me:  # the watcher may have replaced it meanwhile
                    self._promote()

    def _promote(self) -> None:
        """Make another thread the leader; the lock is held."""
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
                    _LOGGER.warning("there are %d threads and no more: %s", self._count, error)
                self._lacks_threads = True
            else:
                self._is_vacant = self._lacks_threads = False

    def _start_thread(self) -> None:
        """Start a thread as the leader; the lock is held."""
        name = f"httpd-{self._count + 1}"
        threading.Thread(target=self._run, name=name, daemon=True).start()
        self._count += 1

    def _run(self) -> None:
        """Work while this thread is the leader, and sleep until it is made the leader again."""
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
                except BaseException:  # a thread that ends would leave the pool without a leader
                    _LOGGER.exception("a thread failed, and goes on")
                if self._leader == me:
                    self._working_on = 0
            if not self._sleep():
                return

    def _sleep(self) -> bool:
        """Wait until this thread is made the leader; return False if it shall end instead."""
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
                return True  # it was made the leader at the last moment
            self._followers.remove(latch)
            self._count -= 1
        return False

    def _watch(self) -> None:
        """Replace a leader that works on one thing for long; beat while there is no leader."""
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
                        self._promote()  # the system may give a thread by now
                        self._beat()
            is_busy = self._begun != begun
            pause = LONG_SECONDS if is_busy else min(2 * pause, _PAUSE_SECONDS_MAX)
            seen, begun = working_on, self._begun
