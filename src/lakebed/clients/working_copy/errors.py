"""Errors of working copies.

LakebedError
└── WorkingCopyError
    ├── NotAWorkingCopy     the directory is no working copy, or its file cannot be read
    ├── NotEmpty            a clone needs an empty directory
    ├── InUse               another process has locked the directory
    ├── Interrupted         an earlier operation has to be completed first
    ├── Conflicts           both sides changed the same files
    ├── BadNames            keys that cannot be files in this directory
    ├── NotAFile            a path on disk is neither a file nor a directory
    ├── Changed             a file changed during the operation
    └── Unfinished          some transfers failed
"""

from collections.abc import Sequence
from typing import Final

from lakebed.base.errors import LakebedError

_SHOWN_MAX: Final = 10


class WorkingCopyError(LakebedError):
    """Base class of the errors of working copies."""

    kind = "working_copy"


class NotAWorkingCopy(WorkingCopyError):
    """The directory is not a working copy, or its file cannot be read."""

    kind = "not_a_working_copy"


class NotEmpty(WorkingCopyError):
    """The directory contains files, or already is a working copy."""

    kind = "folder_not_empty"


class InUse(WorkingCopyError):
    """Another process has locked the directory."""

    kind = "working_copy_in_use"


class Interrupted(WorkingCopyError):
    """An earlier operation was interrupted and has to be completed first."""

    kind = "working_copy_interrupted"


class Conflicts(WorkingCopyError):
    """The same files were changed in the folder and on the server; nothing was overwritten."""

    kind = "working_copy_conflicts"

    def __init__(self, paths: Sequence[str], advice: str) -> None:
        super().__init__(
            f"changed here and on the server: {_listed(paths)}\nnothing was overwritten: {advice}"
        )
        self.paths = list(paths)


class BadNames(WorkingCopyError):
    """Keys that cannot be files in this directory; nothing was written."""

    kind = "bad_names"

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("some objects cannot be files here:\n" + "\n".join(problems))


class NotAFile(WorkingCopyError):
    """A path on disk is neither a regular file nor a directory, or not of the expected kind."""

    kind = "not_a_file"


class Changed(WorkingCopyError):
    """A file was changed during the operation."""

    kind = "file_changed"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed during the operation: run the command again")


class Unfinished(WorkingCopyError):
    """Some transfers failed; the command can be run again to resume."""

    kind = "unfinished"

    def __init__(self, failed: Sequence[str]) -> None:
        advice = f"{len(failed)} file(s) failed: run the command again to resume"
        super().__init__("\n".join([*failed[:_SHOWN_MAX], advice]))


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    return ", ".join(paths[:_SHOWN_MAX]) + more
