"""Leases: mutual exclusion between processes, as an optimization.

A lease is a record with its holder and a *version*, which changes with every heartbeat. Safety
never depends on a lease, because a suspended holder cannot know that its lease was taken over;
leases only save duplicate work. `lakebed.engine.leases` stores the records; jobs without access to
the record store use the REST API.

**Invariant.** Every write is a compare-and-swap on the record as read, and only a take changes the
holder. So if two processes take a lease, one succeeds, and a former holder can no longer write.

1. *Take.* The lease is free, or another process observed the same version for the lease duration,
measured on its own clock (clocks of two processes are never compared). After a lost reply, the
process reads the record and finds itself the holder. If the process dies, the version stops
changing, and another process continues with step 1.

2. *Renew*, three times per lease duration. If the holder is suspended for longer, another process
takes the lease; both work until the next renewal of the former holder, which fails.

3. *Release.* A lost release leaves a lease that is taken over like the lease of a dead process.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from lakebed.base.runtime import ResultT, Runtime

FORGOTTEN_SECONDS: Final = 3600.0
"""Age, by the wall clock, at which a lease is free for processes too short-lived to observe it."""

RENEWALS: Final = 3
"""Renewals per lease duration."""

_HOLDER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class LeaseState:
    """State of a lease as just read or written."""

    holder: str
    """Empty if the lease is free."""
    version: str
    """Changes whenever the lease is taken or renewed."""
    seconds: float
    """Lease duration: a lease whose version is unchanged for this long may be taken over."""


class LeaseTable(Protocol):
    """Access to the record of a lease."""

    def take_lease(self, holder: str, over: str) -> LeaseState:
        """Take the lease if it is free or its version is `over`; return its state."""

    def renew_lease(self, holder: str) -> LeaseState:
        """Renew the lease if `holder` holds it; return its state."""


class Observations:
    """Marks of leases as observed by this process, timed by its monotonic clock."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen: dict[bytes, tuple[object, float]] = {}

    def is_dead(self, name: bytes, version: object, *, seconds: float) -> bool:
        """Observe the version of a lease; return whether it has been unchanged for `seconds`."""
        now = self._runtime.monotonic()
        before, since = self._seen.get(name, (None, now))
        if before != version:
            self._seen[name] = version, now
            since = now
        return now - since >= seconds

    def forget(self, name: bytes) -> None:
        """Forget a lease: the next observation counts as the first."""
        self._seen.pop(name, None)

    def keep_only(self, names: Collection[bytes]) -> None:
        """Forget all leases except `names`."""
        for name in self._seen.keys() - names:
            self._seen.pop(name, None)


class Lease:
    """Handle for acquiring and renewing a lease."""

    def __init__(self, table: LeaseTable, runtime: Runtime) -> None:
        self._table = table
        self._runtime = runtime
        self._observed = Observations(runtime)
        self._renew_at = 0.0
        self.holder = runtime.random_bytes(_HOLDER_BYTES).hex()
        self.seconds = 0.0
        """Lease duration; 0 until the lease has been read."""

    def acquire(self) -> bool:
        """Take the lease; return whether this process holds it."""
        found = self._table.take_lease(self.holder, "")
        if found.holder != self.holder and self._observed.is_dead(
            b"", found.version, seconds=found.seconds
        ):
            found = self._table.take_lease(self.holder, found.version)
        return self._note(found)

    def keep(self) -> bool:
        """Renew the lease if a renewal is due; return whether this process still holds it."""
        return self._runtime.monotonic() < self._renew_at or self.renew()

    def renew(self) -> bool:
        """Renew the lease; return whether this process still holds it."""
        return self._note(self._table.renew_lease(self.holder))

    def _note(self, found: LeaseState) -> bool:
        self.seconds = found.seconds
        has_it = found.holder == self.holder
        self._renew_at = self._runtime.monotonic() + found.seconds / RENEWALS if has_it else 0.0
        return has_it


def with_heartbeat(
    runtime: Runtime,
    work: Callable[[], ResultT],
    heartbeat: Callable[[], bool],
    *,
    every_seconds: float,
    beside: Sequence[Callable[[Callable[[float], bool]], None]] = (),
) -> ResultT:
    """Run `work`, calling `heartbeat` until it ends; return its result.

    Args:
        runtime: Runs both.
        work: Called with the context variables of the caller.
        heartbeat: Returns False when no further call is needed.
        every_seconds: Interval between calls of `heartbeat`.
        beside: Functions to run concurrently with `work`. Each receives a function that waits for a
            number of seconds and returns whether `work` has ended.
    """
    over = runtime.event()
    results: list[ResultT] = []

    def do() -> None:
        try:
            results.append(work())
        finally:
            over.set()

    def repeat() -> None:
        while not over.wait(every_seconds) and heartbeat():
            pass

    tasks: list[Callable[[], None]] = [
        do,
        repeat,
        *(partial(each, over.wait) for each in beside),
    ]
    runtime.map_parallel(lambda each: each(), tasks, limit=len(tasks))
    return results[0]


@contextmanager
def heartbeat_thread(heartbeat: Callable[[], bool], *, every_seconds: float) -> Iterator[None]:
    """Call `heartbeat` in a thread during a ``with`` block, until it returns False.

    For jobs outside a server, whose work stays in the thread that started it.
    """
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_seconds) and heartbeat():
            pass

    thread = threading.Thread(target=repeat, name="lakebed-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
