"""Clocks for tests in which time passes when they say so, and one that never waits."""

from lakebed.base.runtime import ThreadRuntime


class WakefulRuntime(ThreadRuntime):
    """The real clocks, without pauses."""

    def sleep(self, seconds: float) -> None:
        super().sleep(0)


class HandClock(ThreadRuntime):
    """Clocks that move when they are told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
