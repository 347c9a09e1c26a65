"""Parallel transfers that end soon after Ctrl-C."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Annotated, Any, Final, Generic, TypeVar

import typer

from lakebed.base.errors import LakebedError
from lakebed.clients.http.errors import NeverReached
from lakebed.clients.http.http import CONNECTIONS_MAX

ParallelismOption = Annotated[
    int,
    typer.Option(
        "--parallelism", "-p", min=1, max=CONNECTIONS_MAX, help="Number of parallel transfers"
    ),
]

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

_WAITING_PER_WORKER: Final = 2
"""Jobs prefetched a worker, so that no worker waits for a listing."""
_SIGNAL_SECONDS: Final = 0.25
"""Longest wait that a signal may not interrupt; see `_next`."""
_JOIN_SECONDS: Final = 2.0
"""Time to wait for stopped transfers."""
_END: Final[object] = object()


class Stopped(Exception):
    """Raised inside transfers after a stop."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[JobT, ResultT]):
    """Outcome of a job: a result or an error."""

    job: JobT
    result: ResultT | None
    error: str | None


class Parallel:
    """Runner of jobs on a few threads."""

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism
        self._stopped = Event()

    def check(self) -> None:
        """Raise `Stopped` if the run has ended; transfers call this between chunks."""
        if self._stopped.is_set():
            raise Stopped

    def run(
        self, jobs: Iterable[JobT], work: Callable[[JobT], ResultT]
    ) -> Iterator[Outcome[JobT, ResultT]]:
        """Run all jobs; yield outcomes as they complete.

        An error of one job is its outcome. If producing jobs fails, or the caller stops iterating,
        active transfers end at their next chunk.
        """
        todo: SimpleQueue[JobT] = SimpleQueue()
        done: SimpleQueue[tuple[JobT, ResultT | Exception]] = SimpleQueue()
        # A standard pool's threads are joined at exit: Ctrl-C would hang while a server does not
        # respond.
        workers = [
            Thread(target=self._work, args=(todo, done, work), daemon=True)
            for _ in range(self._parallelism)
        ]
        for worker in workers:
            worker.start()
        try:
            under_way = 0
            for job in jobs:
                todo.put(job)
                under_way += 1
                if under_way == self._parallelism * _WAITING_PER_WORKER:
                    yield _outcome(*_next(done))
                    under_way -= 1
            for _ in range(under_way):
                yield _outcome(*_next(done))
        finally:
            self._stopped.set()
            _join_workers(workers, todo)

    def _work(
        self,
        todo: SimpleQueue[JobT],
        done: SimpleQueue[tuple[JobT, ResultT | Exception]],
        work: Callable[[JobT], ResultT],
    ) -> None:
        while (job := todo.get()) is not _END:
            try:
                self.check()
                result: ResultT | Exception = work(job)
            except Exception as error:  # noqa: BLE001 (handed to the caller)
                result = error
            done.put((job, result))


def _next(done: SimpleQueue[JobT]) -> JobT:
    """Return the next item of a queue.

    The wait has a limit and is repeated: a signal that arrives just before the thread blocks, or
    in another thread, does not end the wait, and Ctrl-C would have no effect until the next item.
    """
    while True:
        with suppress(Empty):
            return done.get(timeout=_SIGNAL_SECONDS)


def _join_workers(workers: list[Thread], todo: SimpleQueue[Any]) -> None:
    deadline = time.monotonic() + _JOIN_SECONDS
    for _ in workers:
        todo.put(_END)
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))


def _outcome(job: JobT, result: ResultT | Exception) -> Outcome[JobT, ResultT]:
    if isinstance(result, NeverReached):
        raise result  # all jobs would fail the same way
    if isinstance(result, LakebedError):
        return Outcome(job, None, str(result))
    if isinstance(result, OSError):
        return Outcome(job, None, result.strerror or str(result))
    if isinstance(result, Exception):
        raise result
    return Outcome(job, result, None)
