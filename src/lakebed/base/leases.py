"""Leases: work that one process does at a time, as the processes see it that want to do it.

A lease is a record with its holder and a *mark*, which changes with every heartbeat. A lease only
saves work: a holder that sleeps does not know that its lease was taken over, so that safety never
depends on it. The records themselves are in `lakebed.engine.leases`; a job without the record store
reaches one by the REST API.

**Invariant.** Every write is a compare-and-swap on the record as it was read, and only a take
changes the holder. So of two processes that take a lease, one does; a former holder writes nothing
any more.

1. *Take.* The lease is free, or another process observed the same mark for as long as a lease
   lasts, by its own clock (clocks of two processes are never compared). If the reply is lost, the
   process reads again and finds itself the holder. If it dies, the mark stays as it is, and step 1
   of another process follows.
2. *Renew*, three times in the life of a lease. If the holder sleeps for longer than that, another
   process takes the lease; until the next renewal of the first one, which fails, both work.
3. *Release.* If it is lost, the lease is taken over as that of a dead process.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from lakebed.base.runtime import ResultT, Runtime

FORGOTTEN_SECONDS: Final = 3600.0
"""A lease that was not renewed for so long, by the wall clock, is free: for processes that do not
run long enough to observe it."""

RENEWALS: Final = 3
"""How often a lease is renewed in its life."""

_HOLDER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease as it was just read or written."""

    holder: str
    """Empty: the lease is free."""
    mark: str
    """Changes each time that the lease is taken or renewed."""
    seconds: float
    """A lease whose mark stays the same for so long may be taken over."""


class LeaseTable(Protocol):
    """Access to the record of one lease."""

    def take_lease(self, holder: str, over: str) -> LeaseState:
        """Take the lease if it is free, or has the mark `over`; return it as it is now."""

    def renew_lease(self, holder: str) -> LeaseState:
        """Renew the lease if this holder has it; return it as it is now."""


class Observations:
    """For how long this process saw leases of others unchanged, by its monotonic clock."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen: dict[bytes, tuple[object, float]] = {}

    def is_dead(self, name: bytes, mark: object, *, seconds: float) -> bool:
        """Observe the mark of a lease; return whether it stayed the same for `seconds`."""
        now = self._runtime.monotonic()
        before, since = self._seen.get(name, (None, now))
        if before != mark:
            self._seen[name] = mark, now
            since = now
        return now - since >= seconds

    def forget(self, name: bytes) -> None:
        """Forget a lease: its next observation is the first one."""
        self._seen.pop(name, None)

    def keep_only(self, names: Collection[bytes]) -> None:
        """Forget all leases but these."""
        for name in self._seen.keys() - names:
            self._seen.pop(name, None)


class Lease:
    """One lease, for one process that wants it."""

    def __init__(self, table: LeaseTable, runtime: Runtime) -> None:
        self._table = table
        self._runtime = runtime
        self._observed = Observations(runtime)
        self._renew_at = 0.0
        self.holder = runtime.random_bytes(_HOLDER_BYTES).hex()
        self.seconds = 0.0
        """For how long a lease lasts, once it was read."""

    def acquire(self) -> bool:
        """Take the lease; return whether this process has it now."""
        found = self._table.take_lease(self.holder, "")
        if found.holder != self.holder and self._observed.is_dead(
            b"", found.mark, seconds=found.seconds
        ):
            found = self._table.take_lease(self.holder, found.mark)
        return self._note(found)

    def keep(self) -> bool:
        """Renew the lease if it is time to; return whether this process still has it."""
        return self._runtime.monotonic() < self._renew_at or self.renew()

    def renew(self) -> bool:
        """Renew the lease; return whether this process still has it."""
        return self._note(self._table.renew_lease(self.holder))

    def _note(self, found: LeaseState) -> bool:
        self.seconds = found.seconds
        has_it = found.holder == self.holder
        self._renew_at = self._runtime.monotonic() + found.seconds / RENEWALS if has_it else 0.0
        return has_it


def with_heartbeat(
    runtime: Runtime,
    work: Callable[[], ResultT],
    beat: Callable[[], bool],
    *,
    every_seconds: float,
    beside: Sequence[Callable[[Callable[[float], bool]], None]] = (),
) -> ResultT:
    """Do some work and call `beat` until it has ended; return the result of the work.

    Args:
        runtime: Runs both.
        work: Called with the context variables of the caller.
        beat: Returns False when it need not be called again.
        every_seconds: The time between two calls of `beat`.
        beside: Further work. Each call gets a function that waits for so many seconds, and returns
            whether the work has ended.
    """
    over = runtime.event()
    results: list[ResultT] = []

    def do() -> None:
        try:
            results.append(work())
        finally:
            over.set()

    def repeat() -> None:
        while not over.wait(every_seconds) and beat():
            pass

    tasks: list[Callable[[], None]] = [
        do,
        repeat,
        *(partial(each, over.wait) for each in beside),
    ]
    runtime.map_parallel(lambda each: each(), tasks, limit=len(tasks))
    return results[0]


@contextmanager
def heartbeat_thread(beat: Callable[[], bool], *, every_seconds: float) -> Iterator[None]:
    """Call `beat` in a thread while a ``with`` block runs, until it returns False.

    For jobs outside of a server, whose work stays in the thread that began it.
    """
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_seconds) and beat():
            pass

    thread = threading.Thread(target=repeat, name="lakebed-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
