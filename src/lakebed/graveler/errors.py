"""What the versioning engine refuses or cannot do.

LakebedError
└── GravelerError
    ├── EntryNotFound       there is no such entry                          (also a KeyError)
    ├── MissingFile         a range or metarange is not in the storage
    ├── UnsortedEntries     keys that do not rise from row to row           (also a ValueError)
    └── MergeConflict       both sides changed the same keys differently
"""

from typing import ClassVar

import pyarrow as pa

from lakebed.errors import LakebedError

# The names say what happened, not that they are errors.
# ruff: noqa: N818


class GravelerError(LakebedError):
    """Any error of the versioning engine."""

    kind: ClassVar[str] = "graveler"


class EntryNotFound(GravelerError, KeyError):
    """There is no entry with this key."""

    kind = "entry_not_found"

    def __init__(self, key: bytes) -> None:
        super().__init__(f"no entry {key!r}")
        self.key = key

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would quote the sentence.
        return str(self.args[0])


class MissingFile(GravelerError):
    """A range or metarange that something names is not in the storage."""

    kind = "missing_file"

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} is missing from the storage")
        self.file = file


class UnsortedEntries(GravelerError, ValueError):
    """Entries or changes came with keys out of order, or with a key twice."""

    kind = "unsorted_entries"

    def __init__(self, before: bytes, after: bytes) -> None:
        super().__init__(
            f"key {after!r} comes after {before!r}: keys must rise from row to row; none is empty"
        )


class MergeConflict(GravelerError):
    """Both sides of a merge changed the same keys, and differently; nothing was merged."""

    kind = "merge_conflict"

    def __init__(self, conflicts: pa.Table) -> None:
        super().__init__(f"{conflicts.num_rows} keys were changed differently on both sides")
        self.conflicts = conflicts
        """All of them, in order: key, and what each side did (see `CONFLICT_SCHEMA`)."""
