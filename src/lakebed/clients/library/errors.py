"""What goes wrong in a lake, by what the caller does next.

LakebedError
└── LakeError                 anything else
    ├── NotFound              there is no such thing            (also a FileNotFoundError)
    ├── Forbidden             it may not be done                (also a PermissionError)
    ├── Conflict              it exists already, or is being changed by somebody else
    │   └── MergeConflict     both sides of a merge changed an object
    ├── PreconditionFailed    a condition does not hold, or a hook refused
    │   └── ObjectExists      an object is there already        (also a FileExistsError)
    ├── Invalid               a value cannot be used, or there is nothing to do (also a ValueError)
    └── Unavailable           a database, a storage or a server does not answer just now

Each has the `kind` that the error had where it was raised, for programs: ``branch_not_found``.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from lakebed.base.errors import LakebedError


class LakeError(LakebedError):
    """Anything that a lake cannot do."""

    kind = "lake"

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        if kind:
            self.kind = kind  # type: ignore[misc]  # of this error alone


class NotFound(LakeError, FileNotFoundError):
    """There is no such repository, ref or object."""

    kind = "lake_not_found"


class Forbidden(LakeError, PermissionError):
    """It may not be done: a branch is protected, a repository read-only, a permission missing."""

    kind = "lake_forbidden"


class Conflict(LakeError):
    """It exists already, or is being changed by somebody else."""

    kind = "lake_conflict"


class MergeConflict(Conflict):
    """Both sides of a merge changed an object; nothing was done."""

    kind = "lake_merge_conflict"

    def __init__(self, paths: Sequence[str], total: int) -> None:
        """Take the first paths that both changed, and how many there are."""
        more = f" and {total - len(paths)} more" if total > len(paths) else ""
        super().__init__(f"both sides changed {', '.join(paths)}{more}", "merge_conflict")
        self.paths = tuple(paths)


class PreconditionFailed(LakeError):
    """A condition does not hold, or a hook refused."""

    kind = "lake_precondition_failed"


class ObjectExists(PreconditionFailed, FileExistsError):
    """An object is there already."""

    kind = "lake_object_exists"


class Invalid(LakeError, ValueError):
    """A value cannot be used, or there is nothing to do."""

    kind = "lake_invalid"


class Unavailable(LakeError):
    """A database, a storage or a server does not answer just now; a change may have been made."""

    kind = "lake_unavailable"


CONFLICTS_SHOWN: Final = 100
"""How many paths of conflicts are named, at most."""

_BY_STATUS: Final = MappingProxyType(
    {
        400: Invalid,
        401: Forbidden,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        410: NotFound,
        412: PreconditionFailed,
        416: Invalid,
        429: Unavailable,
        503: Unavailable,
    }
)


def error_of(status: int, message: str, kind: str) -> LakeError:
    """Return the error that a status of HTTP stands for."""
    return _BY_STATUS.get(status, LakeError)(message, kind)
