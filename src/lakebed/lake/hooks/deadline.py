"""When a hook must have ended."""

from collections.abc import Callable
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.lake.hooks.errors import HookFailed

_POLL_SECONDS: Final = 0.25
"""How long a hook may go on after it was cancelled."""


class Deadline:
    """When a hook must have ended: at a time, or when it is cancelled."""

    def __init__(self, runtime: Runtime, until: float, is_cancelled: Callable[[], bool]) -> None:
        self._runtime = runtime
        self._until = until
        self._is_cancelled = is_cancelled

    def check(self) -> float:
        """Return how long to wait until the next check.

        Raises:
            HookFailed: It is time to end.
        """
        return min(self.left(), _POLL_SECONDS)

    def left(self) -> float:
        """Return how long it may still take.

        Raises:
            HookFailed: It is time to end.
        """
        if self._is_cancelled():
            raise HookFailed("the hook was cancelled")
        left = self._until - self._runtime.monotonic()
        if left <= 0:
            raise HookFailed("the hook took too long: its time is over (see its timeout)")
        return left

    def sleep(self, seconds: float) -> None:
        """Do nothing for a while.

        Raises:
            HookFailed: It is time to end.
        """
        end = self._runtime.monotonic() + seconds
        while (left := end - self._runtime.monotonic()) > 0:
            self._runtime.sleep(min(left, self.check()))

    def sooner(self, seconds: float) -> "Deadline":
        """Return a deadline that is at most so many seconds away."""
        until = min(self._until, self._runtime.monotonic() + seconds)
        return Deadline(self._runtime, until, self._is_cancelled)
