"""Errors of lakes, by the reaction of the caller.

LakebedError
└── LakeError                 any other failure
    ├── NotFound              missing repository, ref or object (also a FileNotFoundError)
    ├── Forbidden             the operation is not allowed      (also a PermissionError)
    ├── Conflict              already exists, or is being changed concurrently
    │   └── MergeConflict     both sides of a merge changed an object
    ├── PreconditionFailed    a condition failed, or a hook refused
    │   └── ObjectExists      the path already has an object    (also a FileExistsError)
    ├── Invalid               an invalid value, or no changes   (also a ValueError)
    └── Unavailable           a database, storage or server does not respond

Each error keeps the `kind` of its cause, for example ``branch_not_found``.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from lakebed.base.errors import LakebedError


class LakeError(LakebedError):
    """Base class, and any failure without a class of its own."""

    kind = "lake"

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        if kind:
            self.kind = kind  # type: ignore[misc]  # per instance


class NotFound(LakeError, FileNotFoundError):
    """The repository, ref or object does not exist."""

    kind = "lake_not_found"


class Forbidden(LakeError, PermissionError):
    """The operation is not allowed, for example on a protected branch."""

    kind = "lake_forbidden"


class Conflict(LakeError):
    """The name already exists, or is being changed concurrently."""

    kind = "lake_conflict"


class MergeConflict(Conflict):
    """Both sides of a merge changed an object; nothing was done."""

    kind = "lake_merge_conflict"

    def __init__(self, message: str, paths: Sequence[str]) -> None:
        """Store the first `paths` in conflict."""
        super().__init__(message, "merge_conflict")
        self.paths = tuple(paths)


class PreconditionFailed(LakeError):
    """A condition failed, or a hook refused."""

    kind = "lake_precondition_failed"


class ObjectExists(PreconditionFailed, FileExistsError):
    """The path already has an object."""

    kind = "lake_object_exists"


class Invalid(LakeError, ValueError):
    """A value is invalid, or the operation would change nothing."""

    kind = "lake_invalid"


class Unavailable(LakeError):
    """A database, storage or server does not respond; a change may have been made."""

    kind = "lake_unavailable"


CONFLICTS_SHOWN: Final = 100
"""The most paths of conflicts in an error."""

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
    """Return the error for an HTTP status."""
    return _BY_STATUS.get(status, LakeError)(message, kind)
