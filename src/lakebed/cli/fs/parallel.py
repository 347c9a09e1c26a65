"""Many transfers at once: a bounded number of them, and an end that comes soon."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import Final, Generic, TypeVar

from lakebed.cli.errors import CommandError

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

_WAITING_PER_WORKER: Final = 2
"""Jobs that are made ahead of time, so that no worker waits for a listing."""


class Stopped(Exception):  # noqa: N818
    """Raised inside transfers that nobody waits for any more."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[JobT, ResultT]):
    """What became of a job: a result or an error."""

    job: JobT
    result: ResultT | None
    error: str | None


class Parallel:
    """Runs jobs on a few threads."""

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism
        self._stopped = Event()

    def check(self) -> None:
        """Transfers call this between chunks.

        Raises:
            Stopped: Nobody waits for the result any more.
        """
        if self._stopped.is_set():
            raise Stopped

    def run(
        self, jobs: Iterable[JobT], work: Callable[[JobT], ResultT]
    ) -> Iterator[Outcome[JobT, ResultT]]:
        """Do the work on every job; outcomes come as they are ready.

        An error of one job is its outcome. If making jobs fails, or the caller goes away, the
        transfers under way end at their next chunk.
        """
        waiting: dict[Future[ResultT], JobT] = {}
        with ThreadPoolExecutor(self._parallelism, "transfer") as pool:
            try:
                for job in jobs:
                    waiting[pool.submit(work, job)] = job
                    if len(waiting) >= self._parallelism * _WAITING_PER_WORKER:
                        yield from _ready(waiting)
                while waiting:
                    yield from _ready(waiting)
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _ready(waiting: dict[Future[ResultT], JobT]) -> Iterator[Outcome[JobT, ResultT]]:
    """Wait for at least one, and take all that are done."""
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield _outcome(waiting.pop(future), future)


def _outcome(job: JobT, future: Future[ResultT]) -> Outcome[JobT, ResultT]:
    try:
        return Outcome(job, future.result(), None)
    except CommandError as error:
        return Outcome(job, None, str(error))
    except OSError as error:
        return Outcome(job, None, error.strerror or str(error))
