"""How many objects this process has listed or deleted in a step, for those who watch a run.

On Spark the executors count for themselves, and whoever watches the driver sees its steps only.
"""

import time
from typing import Final


class Tally:
    """Counts the objects of one step; threads may add to it, and a lost count does no harm."""

    def __init__(self) -> None:
        self._objects = 0
        self._begun = time.monotonic()

    def begin(self) -> None:
        """Begin to count anew: another step begins."""
        self._objects, self._begun = 0, time.monotonic()

    def add(self, objects: int) -> None:
        """Count some objects."""
        self._objects += objects

    def __str__(self) -> str:
        seconds = time.monotonic() - self._begun
        if not self._objects:
            return ""
        return f"{self._objects:,} objects, {self._objects / max(seconds, 0.001):,.0f} a second"


TALLY: Final = Tally()
"""What this process does."""
