"""When a call to a store is tried again: how often, for how long, and with which pauses.

Pauses between tries grow, with jitter. Bounds keep an outage from turning into a storm: the time
one call may take, and a budget of retries that all callers of the store share. A store that cannot
be reached at all gets less time: its callers should learn soon that it is away. Not so when the
outcome of a write is to be found out, for this answer is worth waiting for. A store that is full,
locked by another process, or halted is not asked again at all.

``lakebed_kv_retries_total`` counts repeated calls, by operation and by the kind of the error that
came before. The log has the calls that were given up.
"""

import logging
from typing import Final

from prometheus_client import Counter

from lakebed.base.runtime import Runtime
from lakebed.kv.errors import OutcomeUnknown, StoreFull, StoreHalted, StoreLocked, StoreUnreachable

PATIENCE_SECONDS: Final = 15.0
"""How long after its first failure a call may be repeated."""

UNREACHABLE_SECONDS: Final = 1.5
"""How long after it began a call may be repeated if no connection can be had. With the try that is
then under way, which takes a driver a second at most, that makes less than three seconds."""

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 1.0
RETRY_BURST: Final = 500.0
RETRIES_PER_SECOND: Final = 50.0

_LOGGER: Final = logging.getLogger(__name__)
_RETRIES: Final = Counter(
    "lakebed_kv_retries",
    "Calls to the key-value store that were repeated, by the kind of error that came before",
    ["operation", "reason"],
)


class Budget:
    """Retries that all callers share: a burst at once, then a steady rate."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._left = RETRY_BURST
        self._filled_at = runtime.monotonic()

    def take(self) -> bool:
        """Take one retry, if there is one left."""
        with self._lock:
            now = self._runtime.monotonic()
            earned = (now - self._filled_at) * RETRIES_PER_SECOND
            self._left = min(RETRY_BURST, self._left + earned)
            self._filled_at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Tries:
    """The tries of one call, after the first one failed."""

    def __init__(
        self, runtime: Runtime, budget: Budget, operation: str, begun: float, *, patient: bool
    ) -> None:
        self._runtime = runtime
        self._patient = patient
        self._budget = budget
        self._operation = operation
        self._begun = begun
        self._give_up_at = runtime.monotonic() + PATIENCE_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    def pause_or_raise(self, error: OutcomeUnknown) -> None:
        """Wait before the next try; raise the error of the last one if there is to be no next."""
        left = self._seconds_left(error)
        if left <= 0 or not self._budget.take():
            took = self._runtime.monotonic() - self._begun
            _LOGGER.warning("gave up %s after %.1f s: %s", self._operation, took, error)
            raise error
        _RETRIES.labels(self._operation, error.kind).inc()
        self._runtime.sleep(min(left, self._pause * (0.5 + self._runtime.random())))
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)

    def _seconds_left(self, error: OutcomeUnknown) -> float:
        now = self._runtime.monotonic()
        if isinstance(error, StoreFull | StoreLocked | StoreHalted):
            return 0.0  # waiting does not make room, and for the lock the driver has waited
        if isinstance(error, StoreUnreachable) and not self._patient:
            return self._begun + UNREACHABLE_SECONDS - now
        return self._give_up_at - now
