"""Why a run of garbage collection ended early. Nothing live was deleted in any of these cases.

LakebedError
└── GCError
    └── TooMuchGarbage      more would go than the operator allowed
"""

from typing import ClassVar

from lakebed.errors import LakebedError

# The names say what happened, not that they are errors.
# ruff: noqa: N818


class GCError(LakebedError):
    """Any error of garbage collection itself."""

    kind: ClassVar[str] = "gc"


class TooMuchGarbage(GCError):
    """More objects would be deleted than the allowed share; nothing was deleted."""

    kind = "too_much_garbage"

    def __init__(self, due: int, known: int, max_share: float) -> None:
        super().__init__(
            f"{due} of {known} objects would be deleted, more than the allowed share of"
            f" {max_share:g}: look at the report, and allow more if it is right"
        )
        self.due = due
        self.known = known
