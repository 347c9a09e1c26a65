"""Deadlines of hooks."""

from collections.abc import Callable
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.lake.hooks.errors import HookFailed

_POLL_SECONDS: Final = 0.25
"""Maximum delay between cancellation and the end of a hook."""


class Deadline:
    """The end of a hook's time, or its cancellation.

    Afterwards `check`, `left` and `sleep` raise `HookFailed`.
    """

    def __init__(self, runtime: Runtime, until: float, is_cancelled: Callable[[], bool]) -> None:
        self._runtime = runtime
        self._until = until
        self._is_cancelled = is_cancelled

    def check(self) -> float:
        """Return the time to wait until the next check."""
        return min(self.left(), _POLL_SECONDS)

    def left(self) -> float:
        if self._is_cancelled():
            raise HookFailed("the hook was cancelled")
        left = self._until - self._runtime.monotonic()
        if left <= 0:
            raise HookFailed("the hook timed out: see its timeout property")
        return left

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the deadline ends earlier."""
        end = self._runtime.monotonic() + seconds
        while (left := end - self._runtime.monotonic()) > 0:
            self._runtime.sleep(min(left, self.check()))

    def within(self, seconds: float) -> "Deadline":
        """Return a deadline at most `seconds` away."""
        until = min(self._until, self._runtime.monotonic() + seconds)
        return Deadline(self._runtime, until, self._is_cancelled)
