"""Why something was not done to a working copy.

LakebedError
└── WorkingCopyError
    ├── NotAWorkingCopy     the folder is none, or its file cannot be read
    ├── NotEmpty            a clone needs an empty folder
    ├── InUse               another process works on the folder
    ├── Interrupted         an earlier operation has to be finished first
    ├── Conflicts           both sides changed the same files
    ├── BadNames            keys that cannot be files in this folder
    ├── NotAFile            something on the disk is neither file nor folder
    ├── Changed             a file changed while it was worked on
    └── Unfinished          some files could not be transferred
"""

from collections.abc import Sequence
from typing import Final

from lakebed.base.errors import LakebedError

_SHOWN_MAX: Final = 10


class WorkingCopyError(LakebedError):
    """Any error of a working copy."""

    kind = "working_copy"


class NotAWorkingCopy(WorkingCopyError):
    """The folder is not a working copy, or its file cannot be read."""

    kind = "not_a_working_copy"


class NotEmpty(WorkingCopyError):
    """There is something in the folder already."""

    kind = "folder_not_empty"


class InUse(WorkingCopyError):
    """Another process works on the same folder."""

    kind = "working_copy_in_use"


class Interrupted(WorkingCopyError):
    """An earlier operation was interrupted, and has to be finished first."""

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
    """Keys that cannot be files in this folder; nothing was written."""

    kind = "bad_names"

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("not all objects can become files here:\n" + "\n".join(problems))


class NotAFile(WorkingCopyError):
    """Something on the disk is neither a file nor a folder, or is in the place of one."""

    kind = "not_a_file"


class Changed(WorkingCopyError):
    """A file was changed while it was worked on."""

    kind = "file_changed"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed meanwhile: run the command again")


class Unfinished(WorkingCopyError):
    """Some files could not be transferred; the command can be run again, and goes on there."""

    kind = "unfinished"

    def __init__(self, failed: Sequence[str]) -> None:
        advice = f"{len(failed)} file(s) failed: run the command again to go on"
        super().__init__("\n".join([*failed[:_SHOWN_MAX], advice]))


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    return ", ".join(paths[:_SHOWN_MAX]) + more
