"""The one door to the clock, to chance and to concurrency.

Code that takes part in a protocol (the engine, the catalog, the wrappers around a store) gets a
`Runtime` and uses nothing else for time, randomness, locks, waiting and parallel work. In
production that is `ThreadRuntime`; under the simulator it is a deterministic one that runs the same
code one step at a time from a seed. A direct ``import threading`` or ``import time`` in such code
would be invisible to the simulator, so import-linter forbids it.
"""

import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Lock = AbstractContextManager[object]
"""Mutual exclusion by ``with``; not re-entrant."""


class Event(Protocol):
    """A flag that is set once and that others wait for."""

    def set(self) -> None:
        """Raise the flag and wake everyone who waits."""

    def is_set(self) -> bool:
        """Whether the flag is up."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag, at most `timeout` seconds; return whether it is up."""


class Runtime(ABC):
    """Clock, chance and concurrency."""

    @abstractmethod
    def now(self) -> float:
        """Wall clock, in seconds since 1970. It may jump and differ between processes."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything.

        It goes on while the machine sleeps: for everybody else time has passed, so leases, caches,
        and what was read before are older by then.
        """

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""

    @abstractmethod
    def random(self) -> float:
        """A number from 0 (included) to 1 (excluded), for jitter; not for secrets."""

    @abstractmethod
    def random_bytes(self, count: int) -> bytes:
        """Bytes nobody else will draw: the source of every unique id."""

    @abstractmethod
    def lock(self) -> Lock:
        """A new lock."""

    @abstractmethod
    def event(self) -> Event:
        """A new event, not set."""

    @abstractmethod
    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 16
    ) -> list[ResultT]:
        """Call `function` on every item, at most `limit` at a time; results in order of the items.

        All calls have ended when this returns or raises. If some raise, no further call is
        started, and the exception of the first such item is raised.
        """


class ThreadRuntime(Runtime):
    """The real thing: system clocks, the system's randomness, threads."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return _seconds_since_boot()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def random(self) -> float:
        return random.random()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def lock(self) -> Lock:
        return threading.Lock()

    def event(self) -> Event:
        return threading.Event()

    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 16
    ) -> list[ResultT]:
        work = list(items)
        if len(work) <= 1 or limit == 1:
            return [function(item) for item in work]
        failed = threading.Event()

        def guarded(item: ItemT) -> ResultT | None:
            if failed.is_set():
                return None
            try:
                return function(item)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(max_workers=min(limit, len(work))) as pool:
            futures = [pool.submit(guarded, item) for item in work]
        # A call that found `failed` set returned None, but then an earlier result raises here.
        return [future.result() for future in futures]  # type: ignore[misc]


def _seconds_since_boot() -> float:
    # Linux stops its monotonic clock while the machine sleeps.
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
