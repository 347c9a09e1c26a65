"""Why a run of garbage collection ended early. Nothing live was deleted in any of these cases.

LakebedError
└── GCError
    ├── TooMuchGarbage      more would go than the operator allowed
    ├── NotTheOwner         the repository was deleted, or made again
    ├── WrongStorage        what was opened is not the storage of the server
    ├── Overtaken           another run was faster
    ├── NotQuiet            somebody writes to a repository that was said to be quiet
    ├── InvalidOption       the run was asked for what cannot be        (also a ValueError)
    └── ExecutorFailed      an executor failed; the message is its own

The server's refusals, and its silence, are `lakebed.client.errors.ClientError`.
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


class NotTheOwner(GCError):
    """The namespace belongs to another repository, or to a later one of the same name."""

    kind = "not_the_owner"

    def __init__(self, namespace: str, expected: str, found: str) -> None:
        super().__init__(
            f"{namespace} belongs to the repository with the unique id {found} now, not to"
            f" {expected}: the repository was deleted and made again"
        )


class WrongStorage(GCError):
    """What was opened is not the storage that the server writes to."""

    kind = "wrong_storage"


class Overtaken(GCError):
    """Another run of the same repository ended in between; what this one found is out of date."""

    kind = "overtaken"


class NotQuiet(GCError):
    """Somebody writes to a repository that was said to be quiet; nothing was deleted."""

    kind = "not_quiet"


class InvalidOption(GCError, ValueError):
    """The run was asked for something that cannot be."""

    kind = "invalid_option"


class ExecutorFailed(GCError):
    """An executor of Spark failed."""

    kind = "executor"

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        """The full name of what it raised."""
