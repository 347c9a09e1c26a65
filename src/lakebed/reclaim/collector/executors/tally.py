"""How many objects were listed or deleted in a step, for those who watch a run.

On Spark, executors count, and tell the driver when a task has ended.
"""

import time
from collections.abc import Callable
from typing import Final


class Tally:
    """Counts the objects of one step; threads may add to it, and a lost count does no harm."""

    def __init__(self) -> None:
        self._objects = 0
        self._others: Callable[[], int] = lambda: 0
        self._begun = time.monotonic()

    def begin(self) -> None:
        """Begin to count anew: another step begins."""
        self._objects, self._begun = -self._others(), time.monotonic()

    def follow(self, others: Callable[[], int]) -> None:
        """From now on, count what others say that they have done, too; they begin with nothing."""
        self._objects += self._others()  # those who are followed no more
        self._others = others

    def add(self, objects: int) -> None:
        """Count some objects."""
        self._objects += objects

    def __str__(self) -> str:
        seconds = time.monotonic() - self._begun
        objects = self._objects + self._others()
        if not objects:
            return ""
        return f"{objects:,} objects, {objects / max(seconds, 0.001):,.0f} a second"


TALLY: Final = Tally()
"""What this process does."""
