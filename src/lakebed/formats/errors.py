"""Errors in the content of files, or in rows to be written to a file.

    LakebedError
    └── FormatError
        ├── DamagedFile         the content is not the content written
        ├── ForeignFile         an intact file of another type
        │   └── FormatTooNew    written by a newer Lakebed
        └── InvalidEntries      rows not allowed in a range                 (also a ValueError)

Functions that read a file raise `DamagedFile`, or `ForeignFile` (`FormatTooNew` for a file of a
newer Lakebed), with the name of the file, and never return partial data.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError


class FormatError(LakebedError):
    """Base class of errors in the content of files."""

    kind: ClassVar[str] = "format"


class DamagedFile(FormatError):
    """The content of a file differs from the content written."""

    kind = "damaged_file"

    def __init__(self, file: str, reason: object) -> None:
        super().__init__(f"{file} is damaged: {reason}")
        self.file = file


class ForeignFile(FormatError):
    """A file is not of the expected type: another program's, or another type of Lakebed's own."""

    kind = "foreign_file"

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} {reason}")
        self.file = file


class FormatTooNew(ForeignFile):
    """A file was written by a newer Lakebed, in a format unknown to this version."""

    kind = "format_too_new"


class InvalidEntries(FormatError, ValueError):
    """Rows not allowed in a range: a missing column or value, a wrong type, unsorted keys."""

    kind = "invalid_entries"
