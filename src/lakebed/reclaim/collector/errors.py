"""Errors that end a garbage collection run early. None of them has deleted a live object.

LakebedError
└── GCError
    ├── TooMuchGarbage      more objects would be deleted than the operator allowed
    ├── NotTheOwner         the repository was deleted, or created again
    ├── WrongStorage        the opened storage is not the server's
    ├── Busy                another run is in progress
    ├── Overtaken           another run ended first, or took over
    ├── MissingHistory      a file of a commit is missing in the storage
    ├── MissingRange        likewise, before its commit is known
    ├── NotQuiet            concurrent writes, though the run was told to expect none
    ├── InvalidOption       an option of the run is wrong               (also a ValueError)
    ├── SparkNotStarted     Java is missing, or the cluster cannot be reached
    └── ExecutorFailed      an executor failed, with its message

Refusals and timeouts of the server are `lakebed.clients.http.errors.ClientError`.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError


class GCError(LakebedError):
    """Base class of garbage collection errors."""

    kind: ClassVar[str] = "gc"


class TooMuchGarbage(GCError):
    """More objects would be deleted than the allowed share; nothing was deleted."""

    kind = "too_much_garbage"

    def __init__(self, due: int, known: int, max_share: float) -> None:
        super().__init__(
            f"{due} of {known} objects would be deleted, more than the allowed share {max_share:g}:"
            " check the report of a dry run, then raise --max-share"
        )
        self.due = due
        self.known = known


class NotTheOwner(GCError):
    """The namespace belongs to another repository, or to a later one of the same name."""

    kind = "not_the_owner"

    def __init__(self, namespace: str, expected: str, found: str) -> None:
        super().__init__(
            f"{namespace} now belongs to a repository with unique id {found}, not {expected}: the"
            " repository was deleted and created again"
        )


class WrongStorage(GCError):
    """The opened storage is not the server's storage."""

    kind = "wrong_storage"


class Busy(GCError):
    """Another run of the same repository is in progress; this run has done nothing."""

    kind = "busy"

    def __init__(self) -> None:
        super().__init__(
            "another garbage collection run is in progress in this repository: wait for its end"
        )


class Overtaken(GCError):
    """Another run of the same repository ended first, or took over its lease."""

    kind = "overtaken"


class MissingHistory(GCError):
    """A file of a commit is missing in the storage, so its references are unknown."""

    kind = "missing_history"

    def __init__(self, repository: str, commit: str, metarange_id: str, file: str) -> None:
        super().__init__(
            f"commit {commit} of repository {repository} (metarange {metarange_id}) cannot be read:"
            f" {file} is missing in the storage. Nothing was deleted; restore the file from a"
            " backup before the next run"
        )


class MissingRange(GCError):
    """A range is missing in the storage; nothing was deleted."""

    kind = "missing_range"

    def __init__(self, range_id: str, file: str) -> None:
        super().__init__(f"range {range_id} is missing in the storage: {file}")
        self.range_id = range_id
        self.file = file

    @classmethod
    def id_in(cls, failed: "ExecutorFailed") -> str | None:
        """Return the missing range if it is the cause of an executor's failure, or None."""
        if failed.error != f"{cls.__module__}.{cls.__qualname__}":
            return None
        return str(failed).split()[1]


class NotQuiet(GCError):
    """Writes to a repository that should have no concurrent writers; nothing was deleted."""

    kind = "not_quiet"


class InvalidOption(GCError, ValueError):
    """An option of the run is wrong."""

    kind = "invalid_option"


class SparkNotStarted(GCError):
    """Spark could not be started."""

    kind = "spark_not_started"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Spark could not be started: {why}. Check Java 17 (`java -version`, JAVA_HOME) and the"
            " cluster given by --master"
        )


class ExecutorFailed(GCError):
    """An executor of Spark failed."""

    kind = "executor"

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        """Full name of the exception class."""
