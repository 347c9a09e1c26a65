"""The `Runtime` of a simulated process: simulated time, seeded randomness, greenlets as threads."""

from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar

from lakebed.base.runtime import Event, Lock, Runtime
from lakebed.testing.simulation.scheduler import Scheduler, SimulatedProcess

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

EPOCH: Final = 1_780_000_000.0
"""A day in 2026, so that times are plausible and skewed clocks stay positive."""


class SimulatedRuntime(Runtime):
    """Clock, randomness and concurrency of an actor."""

    def __init__(
        self, scheduler: Scheduler, actor: SimulatedProcess, *, skew_seconds: float
    ) -> None:
        self._scheduler = scheduler
        self._actor = actor
        self._skew = scheduler.random.uniform(-skew_seconds, skew_seconds)
        self._rate = scheduler.random.uniform(0.9, 1.1) if skew_seconds else 1.0

    def now(self) -> float:
        return EPOCH + self._skew + self._scheduler.seconds * self._rate

    def monotonic(self) -> float:
        return self._scheduler.seconds * self._rate

    def sleep(self, seconds: float) -> None:
        self._scheduler.pause(self._actor, seconds / self._rate)

    def random(self) -> float:
        return self._scheduler.random.random()

    def random_bytes(self, count: int) -> bytes:
        return self._scheduler.random.randbytes(count)

    def lock(self) -> Lock:
        return _SimulatedLock(self._scheduler, self._actor)

    def event(self) -> Event:
        return _SimulatedEvent(self._scheduler, self._actor, self._rate)

    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 16
    ) -> list[ResultT]:
        work = list(items)
        results: dict[int, ResultT] = {}
        errors: dict[int, Exception] = {}
        rest = deque(enumerate(work))
        workers = min(limit, len(work))
        ended: list[None] = []
        all_ended = self.event()

        def worker() -> None:
            while rest and not errors:
                index, item = rest.popleft()
                try:
                    results[index] = function(item)
                except Exception as error:  # noqa: BLE001 - raised in the caller, below
                    errors[index] = error
            ended.append(None)
            if len(ended) == workers:
                all_ended.set()

        if workers:
            for _ in range(workers):
                self._actor.start(partial(copy_context().run, worker))
            all_ended.wait()
        if errors:
            raise errors[min(errors)]
        return [results[index] for index in range(len(work))]


class _SimulatedLock:
    """Mutual exclusion among the tasks of an actor."""

    def __init__(self, scheduler: Scheduler, actor: SimulatedProcess) -> None:
        self._scheduler = scheduler
        self._actor = actor
        self._held = False
        self._queue: deque[Callable[[], None]] = deque()

    def __enter__(self) -> None:
        while self._held:
            self._scheduler.park(self._actor, self._queue.append)
        self._held = True

    def __exit__(self, *exc_info: object) -> None:
        self._held = False
        if self._queue:
            self._queue.popleft()()


class _SimulatedEvent:
    """Event for the tasks of an actor, whose clock has its own rate."""

    def __init__(self, scheduler: Scheduler, actor: SimulatedProcess, rate: float) -> None:
        self._rate = rate
        self._scheduler = scheduler
        self._actor = actor
        self._up = False
        self._waiters: list[Callable[[], None]] = []

    def set(self) -> None:
        self._up = True
        for wake in self._waiters:
            wake()
        self._waiters.clear()

    def is_set(self) -> bool:
        return self._up

    def wait(self, timeout: float | None = None) -> bool:
        if self._up:
            return True

        def ready(wake: Callable[[], None]) -> None:
            self._waiters.append(wake)
            if timeout is not None:
                self._scheduler.after(timeout / self._rate, wake)

        self._scheduler.park(self._actor, ready)
        return self._up
