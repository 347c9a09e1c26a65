"""Which processors the threads of this process run on.

Threads of one process pass the interpreter on to each other all the time. Where they run on
several processors, the one that is next sleeps on another processor, has to be woken there, and
finds nothing of what it needs in the cache of that one: requests that write took a quarter longer
for it. So where there are as many workers as processors, the threads of a worker that answer
requests stay on one. What works without the interpreter may run anywhere: helpers that read and
decode files, and other processes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

# Not every system can tell.
_ALL: Final = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
_some_stay = False
"""Whether threads of this process were told to stay. If not, it is for others to say where it
runs: the library is a part of any program."""


def processor_of(worker: int, workers: int) -> int | None:
    """Return the processor of one of some workers; None if there is not one for each."""
    return sorted(_ALL)[worker] if workers == len(_ALL) else None


def stay_on(processor: int) -> None:
    """Have this thread run on one processor, and those that it starts."""
    global _some_stay  # noqa: PLW0603 - it is the process that is asked about
    _some_stay = True
    _run_on({processor})


def run_anywhere() -> None:
    """Let this thread run on all processors, although the one that started it stays on one."""
    if _some_stay:
        _run_on(_ALL)


@contextmanager
def running_anywhere() -> Iterator[None]:
    """Let this thread run on all processors for a while, in which it starts a process."""
    if not _some_stay:
        yield
        return
    before = os.sched_getaffinity(0)
    _run_on(_ALL)
    try:
        yield
    finally:
        _run_on(before)


def _run_on(processors: set[int]) -> None:
    # They may have been taken from this process meanwhile: then it goes on where it may.
    with suppress(OSError):
        os.sched_setaffinity(0, processors)
