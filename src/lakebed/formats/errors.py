"""What can be wrong with a file of Lakebed, or with the rows that are to go into one.

    LakebedError
    └── FormatError
        ├── DamagedFile         the bytes are not what was written
        ├── ForeignFile         a sound file, but not the one that was asked for
        │   └── FormatTooNew    it was written by a newer Lakebed
        └── InvalidEntries      rows that no range can hold                     (also a ValueError)

The first three name the file. None of them ever comes with part of the data.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError


class FormatError(LakebedError):
    """Any error about the content of a file."""

    kind: ClassVar[str] = "format"


class DamagedFile(FormatError):
    """The bytes of a file are not those that were written."""

    kind = "damaged_file"

    def __init__(self, file: str, reason: object) -> None:
        super().__init__(f"{file} is damaged: {reason}")
        self.file = file


class ForeignFile(FormatError):
    """A file is not what its place says: another program's, or another type of Lakebed's own."""

    kind = "foreign_file"

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} {reason}")
        self.file = file


class FormatTooNew(ForeignFile):
    """A file was written by a newer Lakebed, in a format that this one does not know."""

    kind = "format_too_new"


class InvalidEntries(FormatError, ValueError):
    """Rows that no range can hold: a missing column or value, a wrong type, unsorted keys."""

    kind = "invalid_entries"
