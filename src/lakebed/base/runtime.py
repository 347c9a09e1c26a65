"""The one door to the clock, to chance and to concurrency.

Code that takes part in a protocol (the engine, the catalog, the wrappers around a store) gets a
`Runtime` and uses nothing else for time, randomness, locks, waiting and parallel work. In
production that is `ThreadRuntime`; under the simulator it is a deterministic one that runs the same
code one step at a time from a seed. A direct ``import threading`` or ``import time`` in such code
would be invisible to the simulator, so import-linter forbids it.

Records and files keep moments as microseconds since 1970, in UTC: `now_us`, `to_us`.
"""

import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Final, Protocol, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Lock = AbstractContextManager[object]
"""Mutual exclusion by ``with``; not re-entrant."""


_of_thread = threading.local()


def about_to_wait() -> None:
    """Say that this thread is about to wait for something slow: a disk, a database, a client.

    A thread that does the work of others meanwhile gives it to another thread first; see
    `call_before_waiting`. Drivers and whoever waits outside of a `Runtime` call this.
    """
    action: Callable[[], None] | None = getattr(_of_thread, "before_waiting", None)
    if action is not None:
        action()


def call_before_waiting(action: Callable[[], None]) -> None:
    """Have something called each time that this thread is `about_to_wait`."""
    _of_thread.before_waiting = action


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

        Every call sees the context variables of the caller. All calls have ended when this returns
        or raises. If some raise, no further call is
        started, and the exception of the first such item is raised.
        """


_HELPERS_MAX: Final = 128


def _new_helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_HELPERS_MAX, "lakebed-helper")


_helpers = _new_helpers()
"""Threads for `map_parallel`; they start as they are needed."""


_RANDOM_BYTES: Final = 1024
"""How many are drawn at a time: for each draw the interpreter goes to another thread, if one waits
for it, and to get it back takes many times as long."""


def _begin_anew() -> None:
    """Replace the threads and the drawn bytes of the parent after a fork."""
    global _helpers  # noqa: PLW0603 - one for each process
    _helpers = _new_helpers()
    _of_thread.drawn = None


os.register_at_fork(after_in_child=_begin_anew)


# Linux stops its monotonic clock while the machine sleeps.
_MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ThreadRuntime(Runtime):
    """The real thing: system clocks, the system's randomness, threads."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)

    def sleep(self, seconds: float) -> None:
        about_to_wait()
        time.sleep(seconds)

    def random(self) -> float:
        return random.random()

    def random_bytes(self, count: int) -> bytes:
        # Each thread has its own, and takes from it in one step: nobody gets the same.
        drawn: BytesIO | None = getattr(_of_thread, "drawn", None)
        taken = b"" if drawn is None else drawn.read(count)
        if len(taken) < count:
            drawn = _of_thread.drawn = BytesIO(os.urandom(_RANDOM_BYTES + count))
            taken = drawn.read(count)
        return taken

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
        rest = deque(enumerate(work))
        results: dict[int, ResultT] = {}
        errors: dict[int, BaseException] = {}

        def work_off() -> None:
            while rest and not errors:
                try:
                    index, item = rest.popleft()
                except IndexError:
                    return  # another thread took the last one
                try:
                    results[index] = function(item)
                except BaseException as error:  # noqa: BLE001 - raised in the caller, below
                    errors[index] = error

        about_to_wait()  # for the other threads
        # The caller takes part: two small calls need one thread more, not two.
        helped: list[Future[None]] = []
        try:
            with suppress(RuntimeError):  # no more threads: those that run do all the work
                for _ in range(min(limit, len(work)) - 1):
                    run = copy_context().run
                    helped.append(_helpers.submit(run, work_off))
            work_off()
        finally:
            # A helper that has not started by now is not needed, and may wait for one that waits
            # for this call.
            wait([each for each in helped if not each.cancel()])
        if errors:
            raise errors[min(errors)]
        return [results[index] for index in range(len(work))]


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_us(seconds: float) -> int:
    """Return seconds (since 1970, or of a duration) as whole microseconds."""
    return int(seconds * 1e6)


def now_us(runtime: Runtime) -> int:
    """Return the time on the wall clock, in microseconds since 1970."""
    return to_us(runtime.now())


def from_datetime(moment: datetime) -> int:
    """Return a moment with a time zone as microseconds since 1970; nothing is rounded."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(microseconds: int) -> datetime:
    """Return microseconds since 1970 as a moment in UTC; nothing is rounded."""
    return _EPOCH + microseconds * _MICROSECOND
