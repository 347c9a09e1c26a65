"""Retry policy for store calls: exponential backoff with jitter, a time limit and a retry budget.

The time limit per call and the budget shared by all callers of the store prevent retry storms
during an outage. The limit is shorter while the store is unreachable, so that callers fail fast;
except when reading back the outcome of a write, which is worth waiting for. Calls to a store that
is full, locked by another process, or halted are not retried.

``lakebed_kv_retries_total`` counts retries, by operation and by the kind of the preceding error.
Calls that exhaust their retries are logged.
"""

import logging
from typing import Final

from prometheus_client import Counter

from lakebed.base.runtime import Runtime
from lakebed.kv.errors import OutcomeUnknown, StoreFull, StoreHalted, StoreLocked, StoreUnreachable

PATIENCE_SECONDS: Final = 15.0
"""Time limit for retries, from the first failure of a call."""

UNREACHABLE_SECONDS: Final = 1.5
"""Time limit for retries while no connection can be made, from the start of the call. With the
attempt then in progress, which takes a driver at most a second, less than three seconds."""

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 1.0
RETRY_BURST: Final = 500.0
RETRIES_PER_SECOND: Final = 50.0

_LOGGER: Final = logging.getLogger(__name__)
_RETRIES: Final = Counter(
    "lakebed_kv_retries",
    "Retries of calls to the key-value store, by the kind of the preceding error",
    ["operation", "reason"],
)


class Budget:
    """Token bucket of retries shared by all callers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._left = RETRY_BURST
        self._filled_at = runtime.monotonic()

    def take(self) -> bool:
        """Take one retry; return False if the budget is exhausted."""
        with self._lock:
            now = self._runtime.monotonic()
            earned = (now - self._filled_at) * RETRIES_PER_SECOND
            self._left = min(RETRY_BURST, self._left + earned)
            self._filled_at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Retries:
    """Retries of one call, created after its first failure."""

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
        """Sleep before the next attempt, or raise `error` if no attempt is left."""
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
            return 0.0  # waiting frees no space, and the driver has already waited for the lock
        if isinstance(error, StoreUnreachable) and not self._patient:
            return self._begun + UNREACHABLE_SECONDS - now
        return self._give_up_at - now
