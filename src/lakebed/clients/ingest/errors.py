"""Errors of imports on Spark. After any of these, the branch is unchanged.

LakebedError
└── IngestError
    ├── NothingFound     a source contains no objects
    ├── UnsupportedPath      an object cannot be imported, and the import is strict
    ├── UnsortedListing  the storage does not list in order of the paths
    └── ImportEnded      the import was canceled or has failed on the server
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError


class IngestError(LakebedError):
    """Base class of errors of imports on Spark."""

    kind: ClassVar[str] = "ingest"


class NothingFound(IngestError):
    """A source contains no objects."""

    kind = "nothing_listed"

    def __init__(self, place: str) -> None:
        super().__init__(
            f"nothing to import at {place}: check the path, and that the executors can list it;"
            " the branch is unchanged"
        )


class UnsupportedPath(IngestError):
    """An object cannot be imported."""

    kind = "strange_path"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"cannot import the object {address!r}: its path is too long, ends in a slash, or"
            " contains an empty part, '.', '..' or control characters; nothing was imported,"
            " without --strict it is skipped"
        )


class UnsortedListing(IngestError):
    """The storage does not list in order of the paths."""

    kind = "unsorted_listing"

    def __init__(self, before: bytes, after: bytes) -> None:
        super().__init__(
            f"the storage lists {after!r} after {before!r}: imports need a storage that lists in"
            " order of the paths"
        )


class ImportEnded(IngestError):
    """The import was canceled or has failed on the server."""

    kind = "import_ended"
