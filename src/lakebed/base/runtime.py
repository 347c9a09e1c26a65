"""The interface to clock, randomness and concurrency.

Code that takes part in a protocol (the engine, the catalog, the wrappers around a store) uses a
`Runtime` for time, randomness, locks, waiting and parallel work, and nothing else. Production uses
`ThreadRuntime`; the simulator uses a deterministic runtime that runs the same code one step at a
time from a seed. The simulator could not see a direct ``import threading`` or ``import time``, so
import-linter forbids both.

Records and files store times as microseconds since 1970, in UTC: `now_us`, `to_us`.
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
from typing import Final, NewType, Protocol, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Lock = AbstractContextManager[object]
"""Mutual exclusion by ``with``; not re-entrant."""


_of_thread = threading.local()


def about_to_wait() -> None:
    """Announce that this thread is about to wait for a disk, a database or a client.

    A leader thread releases leadership first; see `call_before_waiting`. Drivers, and other code
    that waits outside a `Runtime`, call this function.
    """
    action: Callable[[], None] | None = getattr(_of_thread, "before_waiting", None)
    if action is not None:
        action()


def call_before_waiting(action: Callable[[], None]) -> None:
    """Register the action that `about_to_wait` calls in this thread."""
    _of_thread.before_waiting = action


class Event(Protocol):
    """Flag that is set once; threads can wait for it."""

    def set(self) -> None:
        """Set the flag and wake all waiting threads."""

    def is_set(self) -> bool:
        """Return whether the flag is set."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag, at most `timeout` seconds; return whether it is set."""


class Runtime(ABC):
    """Clock, randomness and concurrency."""

    @abstractmethod
    def now(self) -> float:
        """Return the wall clock in seconds since 1970; it may jump and differ between processes."""

    @abstractmethod
    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; only differences are meaningful.

        The clock advances while the machine sleeps: leases, caches and earlier reads age meanwhile.
        """

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`."""

    @abstractmethod
    def random(self) -> float:
        """Return a number in [0, 1), for jitter; not for secrets."""

    @abstractmethod
    def random_bytes(self, count: int) -> bytes:
        """Return random bytes; the source of every unique id."""

    @abstractmethod
    def lock(self) -> Lock:
        """Return a new lock."""

    @abstractmethod
    def event(self) -> Event:
        """Return a new event, not set."""

    @abstractmethod
    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 16
    ) -> list[ResultT]:
        """Call `function` on every item, at most `limit` at a time; return the results in order.

        Every call sees the context variables of the caller. All calls have ended when this returns
        or raises. After an exception no further call is started, and the exception of the first
        item that failed is raised.
        """


_HELPERS_MAX: Final = 128


def _new_helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_HELPERS_MAX, "lakebed-helper")


_helpers = _new_helpers()
"""Threads for `map_parallel`, started on demand."""


_RANDOM_BYTES: Final = 1024
"""Bytes drawn at a time: each draw releases the GIL, which is slow to reacquire."""


def _reset_after_fork() -> None:
    """Replace the threads and the random bytes inherited from the parent after a fork."""
    global _helpers  # noqa: PLW0603 - one for each process
    _helpers = _new_helpers()
    _of_thread.drawn = None


os.register_at_fork(after_in_child=_reset_after_fork)


# Linux stops CLOCK_MONOTONIC while the machine sleeps.
_MONOTONIC: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ThreadRuntime(Runtime):
    """Runtime of production: system clocks, system randomness, threads."""

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
        # Each thread has its own buffer and reads from it in one step, so no two draws share bytes.
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
                    return  # another thread took the last item
                try:
                    results[index] = function(item)
                except BaseException as error:  # noqa: BLE001 - raised in the caller, below
                    errors[index] = error

        about_to_wait()  # for the helper threads
        # The caller takes part: two small calls need only one extra thread.
        helped: list[Future[None]] = []
        try:
            with suppress(RuntimeError):  # no more threads: the running threads do all the work
                for _ in range(min(limit, len(work)) - 1):
                    run = copy_context().run
                    helped.append(_helpers.submit(run, work_off))
            work_off()
        finally:
            # Do not wait for helpers that have not started: they are not needed, and their thread
            # may be waiting for this call.
            wait([each for each in helped if not each.cancel()])
        if errors:
            raise errors[min(errors)]
        return [results[index] for index in range(len(work))]


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_us(seconds: float) -> int:
    """Return seconds (since 1970, or a duration) as whole microseconds."""
    return int(seconds * 1e6)


def now_us(runtime: Runtime) -> int:
    """Return the wall clock, in microseconds since 1970."""
    return to_us(runtime.now())


def from_datetime(moment: datetime) -> int:
    """Return a time-zone-aware datetime as microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(microseconds: int) -> datetime:
    """Return microseconds since 1970 as a datetime in UTC, exactly."""
    return _EPOCH + microseconds * _MICROSECOND


UniqueID = NewType("UniqueID", str)
"""Id drawn at each creation; distinguishes entities created under the same name."""


def new_unique_id(runtime: Runtime) -> UniqueID:
    """Return a new unique id."""
    return UniqueID(runtime.random_bytes(10).hex())
