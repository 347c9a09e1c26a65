"""Retry policies of requests."""

from dataclasses import dataclass
from typing import Final

from lakebed.base.runtime import Runtime

_PAUSE_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Conditions for retries. After the last attempt, its response or error is returned."""

    methods: frozenset[str]
    statuses: frozenset[int]
    """Statuses of a busy or restarting server."""
    seconds_max: float
    """Time limit of a request, including retries."""
    tries_max: int | None = None
    pause_seconds: float | None = None
    """First pause without a `Retry-After`, doubled after each attempt. None: retry only responses
    with `Retry-After`."""
    broken_connections: bool = False
    """Whether to retry when a server that has responded before does not respond."""


PATIENT_READS: Final = RetryPolicy(
    methods=frozenset({"GET"}), statuses=frozenset({429, 503}), seconds_max=30.0, tries_max=5
)
"""For interactive use: reads wait for a busy server. Writes are sent once, so that their number
is known."""

OUTLAST_RESTARTS: Final = RetryPolicy(
    methods=frozenset({"GET", "POST", "PUT"}),
    statuses=frozenset({429, 502, 503, 504}),
    seconds_max=60.0,
    pause_seconds=0.5,
    broken_connections=True,
)
"""For long jobs with idempotent requests: wait for a restarting server."""


class Retries:
    """The attempts of one request."""

    def __init__(self, policy: RetryPolicy, method: str, runtime: Runtime) -> None:
        self._policy = policy
        self._runtime = runtime
        self._may_repeat = method in policy.methods
        self._until = runtime.monotonic() + policy.seconds_max
        self._pause = policy.pause_seconds
        self.tries = 1

    def pause_after_answer(self, status: int, retry_after: str) -> float | None:
        """Return the pause before the next attempt, or None if this response is final."""
        if status not in self._policy.statuses:
            return None
        wanted = float(retry_after) if retry_after.isdecimal() else None
        if self._pause is None:
            return self._next_pause(wanted)
        return self._next_pause(max(self._pause, wanted or 0.0))

    def pause_after_break(self, *, has_responded: bool) -> float | None:
        """Return the pause before the next attempt, or None to give up.

        If the server has never responded, the address may be wrong.
        """
        if not (self._policy.broken_connections and has_responded):
            return None
        return self._next_pause(self._pause)

    def _next_pause(self, pause: float | None) -> float | None:
        is_last = self._policy.tries_max is not None and self.tries >= self._policy.tries_max
        if not self._may_repeat or pause is None or is_last:
            return None
        if self._runtime.monotonic() + pause > self._until:
            return None
        self.tries += 1
        if self._pause is not None:
            self._pause = min(2 * self._pause, _PAUSE_SECONDS_MAX)
        return pause
