"""Threads that take turns: one looks for work and does it, the others sleep.

Only one thread runs Python at a time, and to pass that right on takes longer than a small request.
So the thread that has the turn does what it finds itself, one request after the other, and wakes
nobody. It would keep others from their work if it waited in the middle of a request. So whoever is
about to wait, for a disk, a database or a client, says so (`lakebed.runtime.about_to_wait`): then
the turn goes to another thread first. When its request is finished, it sleeps until the turn comes
back to it.

A thread that works for long, or waits and did not say so, loses its turn to another one after
`LONG_SECONDS`. So at times two threads look for work. That has to be safe; it is not the rule.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from lakebed.runtime import call_before_waiting

LONG_SECONDS: Final = 0.01
"""How long a piece of work may take before another thread looks for the next one, roughly."""
_LOOK_SECONDS_MAX: Final = 0.1
"""How long nobody looks at the thread that has the turn, while it has nothing to do."""
_SLEEP_SECONDS: Final = 30.0
"""How long a thread sleeps that is not needed, before it ends."""

_LOGGER: Final = logging.getLogger(__name__)


class Turns:
    """Some threads, of which one has the turn."""

    def __init__(
        self,
        find: Callable[[], int],
        work: Callable[[int], None],
        *,
        most: int,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare; `start` starts the first thread.

        Args:
            find: Waits for a piece of work and returns it.
            work: Does a piece of work. What it raises is logged, and the thread goes on.
            most: How many threads there may be.
            beat: Called several times a second while all threads are at work and no other can be
                started: no thread calls `find` then, but the process does not hang.
        """
        self._find = find
        self._work = work
        self._most = most
        self._beat = beat
        self._lock = threading.Lock()
        self._leader = 0
        """The thread that has the turn; 0 while it is on its way to another one, or is free."""
        self._is_free = False
        """Whether all threads that there may be are at work: the first that ends takes the turn."""
        self._count = 0
        self._sleeping: list[threading.Lock] = []
        """A bell for each thread that sleeps; the one that fell asleep last is woken first."""
        self._lacks_threads = False
        self._begun = 0
        """How many pieces of work were begun by those who had the turn."""
        self._working_on = 0
        """The number of the one that the leader works on; 0 if it looks for one."""

    @property
    def count(self) -> int:
        """How many threads there are."""
        return self._count

    def start(self) -> None:
        """Start the first thread, and the one that looks whether the turn has to go on.

        Raises:
            RuntimeError: The system gives no thread.
        """
        with self._lock:
            self._start_thread()
        threading.Thread(target=self._watch, name="lakebed-turns", daemon=True).start()

    def step_aside(self) -> None:
        """Give the turn to another thread, if this one has it."""
        me = threading.get_ident()
        if self._leader == me:
            with self._lock:
                if self._leader == me:  # it may have been taken away meanwhile
                    self._pass_on()

    def _pass_on(self) -> None:
        """Let another thread have the turn; the lock is held."""
        self._leader = self._working_on = 0
        if self._sleeping:
            self._sleeping.pop().release()
            return
        self._is_free = True
        if self._count < self._most:
            try:
                self._start_thread()
            except RuntimeError as error:
                if not self._lacks_threads:
                    _LOGGER.warning("there are %d threads and no more: %s", self._count, error)
                self._lacks_threads = True
            else:
                self._is_free = self._lacks_threads = False

    def _start_thread(self) -> None:
        """Start a thread that has the turn; the lock is held."""
        name = f"lakebed-{self._count + 1}"
        threading.Thread(target=self._run, name=name, daemon=True).start()
        self._count += 1

    def _run(self) -> None:
        """Work while this thread has the turn, and sleep until it comes back."""
        me = threading.get_ident()
        call_before_waiting(self.step_aside)
        while True:
            self._leader = me
            while self._leader == me:
                try:
                    found = self._find()
                    if self._leader == me:
                        self._begun += 1
                        self._working_on = self._begun
                    self._work(found)
                except BaseException:  # a thread that ends would take the turn along
                    _LOGGER.exception("a thread failed, and goes on")
                if self._leader == me:
                    self._working_on = 0
            if not self._sleep():
                return

    def _sleep(self) -> bool:
        """Wait for the turn; return whether it came. If it did not, this thread ends."""
        bell = threading.Lock()
        bell.acquire()
        with self._lock:
            if self._is_free:
                self._is_free = False
                return True
            self._sleeping.append(bell)
        if bell.acquire(timeout=_SLEEP_SECONDS):
            return True
        with self._lock:
            if bell not in self._sleeping:
                return True  # it came at the last moment
            self._sleeping.remove(bell)
            self._count -= 1
        return False

    def _watch(self) -> None:
        """Take the turn from a thread that works on one thing for long; beat while none has it."""
        pause, seen, begun = LONG_SECONDS, 0, 0
        while True:
            time.sleep(pause)
            working_on = self._working_on
            if working_on and working_on == seen:
                with self._lock:
                    if self._working_on == seen:
                        self._pass_on()
            if self._is_free:
                with self._lock:
                    if self._is_free:
                        self._pass_on()  # the system may give a thread by now
                        self._beat()
            is_busy = self._begun != begun
            pause = LONG_SECONDS if is_busy else min(2 * pause, _LOOK_SECONDS_MAX)
            seen, begun = working_on, self._begun
