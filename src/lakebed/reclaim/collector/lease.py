"""The lease of a run: of all runs of a repository, wherever they run, one works at a time.

It only saves work, and lets a long run end before another begins. Safety does not depend on it: a
run that sleeps may lose its lease unnoticed; the run that replaces the state first wins, see
`state`.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.errors import LakebedError
from lakebed.leases import RENEWALS, Lease, LeaseTable, heartbeat_thread
from lakebed.reclaim.collector.errors import Busy, Overtaken
from lakebed.runtime import Runtime

_LOGGER: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


class RunLeaseTable(LeaseTable, Protocol):
    """Access to the lease of runs; `server.Server` has it by HTTP."""

    def give_lease_back(self, holder: str, *, is_good: bool, next_us: int) -> None:
        """Give the lease back, and say how the run ended and when another is of use."""


@dataclass(slots=True)
class Ending:
    """What a run says when it ends."""

    is_good: bool = False
    """Whether it did all that it should."""
    next_us: int = 0
    """No run before this time would find anything to delete; 0: it might."""


class RunLease:
    """The lease of one repository, as one who makes runs of it sees it."""

    def __init__(
        self,
        table: RunLeaseTable,
        runtime: Runtime,
        *,
        is_patient: bool,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Prepare to take the lease.

        Args:
            table: Where it is kept.
            runtime: Its clock says for how long the lease of another run was seen.
            is_patient: Whether to wait for another run, for a while.
            say: Called when that begins.
        """
        self._table = table
        self._lease = Lease(table, runtime)
        self._runtime = runtime
        self._is_patient = is_patient
        self._say = say

    @contextmanager
    def held(self) -> Iterator[Ending]:
        """Hold the lease, and say at the end what became of the run.

        Raises:
            Busy: Another run is under way, or has died a moment ago: a later try finds out.
        """
        self._take()
        ending = Ending()
        try:
            with heartbeat_thread(self._beat, every_seconds=self._lease.seconds / RENEWALS):
                yield ending
        finally:
            with suppress(LakebedError):  # then it is taken over after a while
                self._table.give_lease_back(
                    self._lease.holder, is_good=ending.is_good, next_us=ending.next_us
                )

    def check(self) -> None:
        """Make sure that no other run took the lease over.

        Raises:
            Overtaken: One did.
        """
        if not self._lease.renew():
            raise Overtaken("another run took this one for dead, and works on: nothing was deleted")

    def _take(self) -> None:
        begun, has_waited = self._runtime.monotonic(), False
        while not self._lease.acquire():
            # Long enough to find a dead one out, and for a short run to end.
            waited = self._runtime.monotonic() - begun
            if not self._is_patient or waited >= 2 * self._lease.seconds:
                raise Busy
            if not has_waited:
                self._say("Another run has not ended: waiting for it.")
                has_waited = True
            self._runtime.sleep(_RETRY_SECONDS)

    def _beat(self) -> bool:
        try:
            return self._lease.renew()  # if it is lost, `check` sees that too
        except LakebedError as error:
            _LOGGER.warning("the lease of a run could not be renewed: %s", error)
            return True
