"""Why a run of garbage collection ended early. In none of these cases was a live object deleted.

LakebedError
└── GCError
    ├── TooMuchGarbage      more would go than the operator allowed
    ├── NotTheOwner         the repository was deleted, or made again
    ├── WrongStorage        the storage that was opened is not the server's
    ├── Busy                another run is under way
    ├── Overtaken           another run ended first, or took over
    ├── MissingHistory      a file of a commit is not in the storage
    ├── MissingRange        likewise; whose it is, is not known yet
    ├── NotQuiet            somebody writes to a repository that should be quiet
    ├── InvalidOption       an option of the run is wrong               (also a ValueError)
    ├── SparkNotStarted     there is no Java, or not the cluster that was named
    └── ExecutorFailed      an executor failed; the message is its own

The server's refusals, and its silence, are `lakebed.clients.http.errors.ClientError`.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError


class GCError(LakebedError):
    """Any error of garbage collection itself."""

    kind: ClassVar[str] = "gc"


class TooMuchGarbage(GCError):
    """More objects would be deleted than the allowed share; nothing was deleted."""

    kind = "too_much_garbage"

    def __init__(self, due: int, known: int, max_share: float) -> None:
        super().__init__(
            f"{due} of {known} objects would be deleted, more than the allowed share of"
            f" {max_share:g}: look at the report, and allow a larger share if it is right"
        )
        self.due = due
        self.known = known


class NotTheOwner(GCError):
    """The namespace belongs to another repository, or to a later one of the same name."""

    kind = "not_the_owner"

    def __init__(self, namespace: str, expected: str, found: str) -> None:
        super().__init__(
            f"{namespace} now belongs to the repository with the unique id {found}, not to"
            f" {expected}: the repository was deleted and made again"
        )


class WrongStorage(GCError):
    """The storage that was opened is not the one that the server writes to."""

    kind = "wrong_storage"


class Busy(GCError):
    """Another run of the same repository is under way; this one has done nothing."""

    kind = "busy"

    def __init__(self) -> None:
        super().__init__(
            "another run of garbage collection is under way in this repository: wait for its end"
        )


class Overtaken(GCError):
    """Another run of the same repository ended first, or took this one for dead."""

    kind = "overtaken"


class MissingHistory(GCError):
    """A commit names a file that is not in the storage, so what it holds is not known."""

    kind = "missing_history"

    def __init__(self, repository: str, commit: str, metarange_id: str, file: str) -> None:
        super().__init__(
            f"commit {commit} of repository {repository} (metarange {metarange_id}) cannot be read:"
            f" {file} is not in the storage. Nothing was deleted, and no run deletes anything while"
            " it is missing: bring it back from a backup of the storage"
        )


class MissingRange(GCError):
    """A range is not in the storage; nothing was deleted."""

    kind = "missing_range"

    def __init__(self, range_id: str, file: str) -> None:
        super().__init__(f"range {range_id} is not in the storage: {file}")
        self.range_id = range_id
        self.file = file

    @classmethod
    def id_in(cls, failed: "ExecutorFailed") -> str | None:
        """Return which range was missing, if an executor failed for that."""
        if failed.error != f"{cls.__module__}.{cls.__qualname__}":
            return None
        return str(failed).split()[1]


class NotQuiet(GCError):
    """Somebody writes to a repository that should be quiet; nothing was deleted."""

    kind = "not_quiet"


class InvalidOption(GCError, ValueError):
    """An option of the run is wrong."""

    kind = "invalid_option"


class SparkNotStarted(GCError):
    """Spark could not be started."""

    kind = "spark_not_started"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Spark could not be started: {why}. It needs Java 17 (`java -version`, JAVA_HOME),"
            " and --master, if given, has to be a Spark that can be reached"
        )


class ExecutorFailed(GCError):
    """An executor of Spark failed."""

    kind = "executor"

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        """The full name of what it raised."""
