"""The lease of a run: of all runs of a repository, wherever they run, one works at a time.

It only saves work, and lets a long run end before another begins. Safety does not depend on it: a
run that sleeps may lose its lease unnoticed; whoever replaces the state first wins, see
`lakebed.gc.state`.

A holder renews its lease, and each time the server draws another mark for it. Who sees the same
mark for as long as a lease lasts, by its own clock, may take the lease over.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.errors import LakebedError
from lakebed.formats.gc_files import GCLease
from lakebed.gc.errors import Busy, Overtaken
from lakebed.runtime import Runtime

_LOGGER: Final = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
_HOLDER_BYTES: Final = 8


class Leases(Protocol):
    """Where leases are kept; `lakebed.gc.server.Server` asks by HTTP."""

    def take_lease(self, holder: str, over: str) -> GCLease:
        """Take the lease if it is free, or has the mark `over`; return it as it is now."""

    def renew_lease(self, holder: str) -> GCLease:
        """Renew the lease if this holder has it; return it as it is now."""

    def give_lease_back(self, holder: str, *, is_good: bool, next_us: int) -> None:
        """Give the lease back, and say how the run ended and when another is of use."""


@dataclass(slots=True)
class Ending:
    """What a run says when it ends."""

    is_good: bool = False
    """Whether it did all that it should."""
    next_us: int = 0
    """No run before this time would find anything to delete; 0: it might."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A lease of somebody else."""

    mark: str
    seconds: float
    since: float
    """By our monotonic clock."""


class Lease:
    """The lease of one repository, as one who makes runs of it sees it."""

    def __init__(
        self,
        leases: Leases,
        runtime: Runtime,
        *,
        is_patient: bool,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Prepare to take the lease.

        Args:
            leases: Where it is kept.
            runtime: Its clock says how long a mark was seen.
            is_patient: Whether to wait for another run, for a while.
            say: Called when that begins.
        """
        self._leases = leases
        self._runtime = runtime
        self._is_patient = is_patient
        self._say = say
        self._holder = ""
        self._seen: _Seen | None = None

    @contextmanager
    def held(self) -> Iterator[Ending]:
        """Hold the lease, and say at the end what became of the run.

        Raises:
            Busy: Another run is under way, or has died a moment ago: a later try finds out.
        """
        self._holder = self._runtime.random_bytes(_HOLDER_BYTES).hex()
        taken = self._take()
        ending = Ending()
        try:
            with self._renewed(taken.seconds / 3):
                yield ending
        finally:
            with suppress(LakebedError):  # then it is taken over after a while
                self._leases.give_lease_back(
                    self._holder, is_good=ending.is_good, next_us=ending.next_us
                )

    def check(self) -> None:
        """Make sure that no other run took the lease over.

        Raises:
            Overtaken: One did.
        """
        if self._leases.renew_lease(self._holder).holder != self._holder:
            raise Overtaken("another run took this one for dead, and works on: nothing was deleted")

    def _take(self) -> GCLease:
        begun, has_waited = self._runtime.monotonic(), False
        while True:
            found = self._leases.take_lease(self._holder, self._dead_mark())
            if found.holder == self._holder:
                self._seen = None
                return found
            now = self._runtime.monotonic()
            if self._seen is None or self._seen.mark != found.mark:
                self._seen = _Seen(found.mark, found.seconds, now)
            # Long enough to find a dead one out, and for a short run to end.
            if not self._is_patient or now - begun >= 2 * found.seconds:
                raise Busy
            if not has_waited:
                self._say("Another run has not ended: waiting for it.")
                has_waited = True
            self._runtime.sleep(_LOOK_SECONDS)

    def _dead_mark(self) -> str:
        """The mark that was seen for too long, if there is one."""
        seen = self._seen
        is_dead = seen is not None and self._runtime.monotonic() - seen.since >= seen.seconds
        return seen.mark if seen is not None and is_dead else ""

    @contextmanager
    def _renewed(self, every_seconds: float) -> Iterator[None]:
        over = threading.Event()

        def renew() -> None:
            while not over.wait(every_seconds):
                try:
                    found = self._leases.renew_lease(self._holder)
                except LakebedError as error:
                    _LOGGER.warning("the lease of a run could not be renewed: %s", error)
                    continue
                if found.holder != self._holder:
                    return  # `check` will see that too

        thread = threading.Thread(target=renew, name="gc-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
