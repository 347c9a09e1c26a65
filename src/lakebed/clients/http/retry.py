"""Which requests are sent again, and for how long."""

from dataclasses import dataclass
from typing import Final

from lakebed.base.runtime import Runtime

_PAUSE_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When to send a request again. The last answer is handed on, whatever it is."""

    methods: frozenset[str]
    """The methods that may be sent again."""
    statuses: frozenset[int]
    """The answers of a server that is busy or away."""
    seconds_max: float
    """How long one request may take with all its tries."""
    tries_max: int | None = None
    pause_seconds: float | None = None
    """How long to wait first where the server does not say; then twice as long each time. None:
    only a server that says when to come back is asked again."""
    broken_connections: bool = False
    """Whether to try again when there is no answer at all, if the server has answered before."""


PATIENT_READS: Final = RetryPolicy(
    methods=frozenset({"GET"}),
    statuses=frozenset({429, 503}),
    seconds_max=30.0,
    tries_max=5,
)
"""For people: reads wait for a busy server. A change is sent once, so that nobody has to guess how
often it was made."""

OUTLAST_RESTARTS: Final = RetryPolicy(
    methods=frozenset({"GET", "POST", "PUT"}),
    statuses=frozenset({429, 502, 503, 504}),
    seconds_max=60.0,
    pause_seconds=0.5,
    broken_connections=True,
)
"""For long jobs whose requests may all be repeated: they wait while a server starts again."""


class Retries:
    """The tries of one request."""

    def __init__(self, policy: RetryPolicy, method: str, runtime: Runtime) -> None:
        self._policy = policy
        self._runtime = runtime
        self._may_repeat = method in policy.methods
        self._until = runtime.monotonic() + policy.seconds_max
        self._pause = policy.pause_seconds
        self.tries = 1

    def pause_after_answer(self, status: int, retry_after: str) -> float | None:
        """Return how long to wait before the next try; None: this answer is the last one.

        Args:
            status: The status of the answer.
            retry_after: What its header ``Retry-After`` says, if anything.
        """
        if status not in self._policy.statuses:
            return None
        wanted = float(retry_after) if retry_after.isdecimal() else None
        if self._pause is None:
            return self._next_pause(wanted)
        return self._next_pause(max(self._pause, wanted or 0.0))

    def pause_after_break(self, *, was_there: bool) -> float | None:
        """Return how long to wait when there was no answer; None: do not try again.

        Args:
            was_there: Whether the server has ever answered. If not, its address may be wrong.
        """
        if not (self._policy.broken_connections and was_there):
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
