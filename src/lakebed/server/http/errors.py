"""One table: from the errors of all layers to a status and a body."""

from typing import Final

from lakebed import auth, block, kv
from lakebed.builders import BuilderDied
from lakebed.catalog import errors as catalog
from lakebed.engine import errors as engine
from lakebed.errors import LakebedError
from lakebed.server.http import admission, bodies

RETRY_SECONDS: Final = 1
UNEXPECTED: Final = 500


class BadRequest(LakebedError, ValueError):  # noqa: N818 - it says what happened
    """The request cannot be read as one of the operation."""

    kind = "bad_request"


class NotImplementedHere(LakebedError):  # noqa: N818 - it says what happened
    """An operation of the API that Lakebed does not have yet."""

    kind = "not_implemented"


class FileMissing(LakebedError, KeyError):  # noqa: N818 - it says what happened
    """There is no such range or metarange."""

    kind = "file_missing"

    def __init__(self, what: str, file_id: str) -> None:
        super().__init__(f"{what} not found: {file_id}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


# The first line that an error is an instance of counts: special cases come before their families.
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (BadRequest, 400),
    (NotImplementedHere, 501),
    (FileMissing, 404),
    # who is asking
    (auth.AuthenticationFailed, 401),
    (auth.Denied, 401),
    (auth.AuthNotFound, 404),
    (auth.AlreadyExists, 409),
    (auth.AlreadySetUp, 409),
    (auth.AuthInvalid, 400),
    (auth.AuthTooManyTries, 429),
    # the body and the load
    (bodies.LengthRequired, 411),
    (bodies.BodyTooLarge, 413),
    (bodies.BodyTooSlow, 408),
    (bodies.BodyError, 400),
    (admission.Overloaded, 503),
    # objects
    (catalog.TaskNotFound, 404),
    (catalog.MissingBytes, 410),
    (catalog.CatalogError, 400),
    # the engine
    (engine.NotFound, 404),
    (engine.NotUnique, 409),
    (engine.MergeConflict, 409),
    (engine.Invalid, 400),
    (engine.PreconditionFailed, 412),
    (engine.Refused, 412),
    (engine.DirtyBranch, 400),
    (engine.NoChanges, 400),
    (engine.Protected, 403),
    (engine.ReadOnly, 403),
    (engine.DefaultBranch, 403),
    (engine.Deleting, 410),
    (engine.MissingFile, 410),
    (engine.Stale, 408),
    (engine.TooManyTries, 429),
    (engine.GivenUp, 503),
    (BuilderDied, 503),
    # stores and storages
    (kv.InvalidArgument, 400),
    (kv.OutcomeUnknown, 503),
    (block.ObjectNotFound, 410),
    (block.AlreadyExists, 412),
    (block.Forbidden, 403),
    (block.StorageUnavailable, 503),
    (block.RangeNotSatisfiable, 416),
    (block.InvalidArgument, 400),
    (block.NotSupported, 400),
)

# What clients look for in messages.
_PHRASES: Final[dict[tuple[str, type[Exception]], str]] = {
    ("createRepository", engine.NotUnique): "error creating repository: not unique",
    ("commit", engine.NoChanges): "commit: no changes",
    ("mergeIntoBranch", engine.NoChanges): "merge: no changes",
    ("mergeIntoBranch", engine.MergeConflict): "conflict found",
}


def status_of(error: Exception) -> int:
    """Return the status that tells of an error; 500 for what nobody expected."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), UNEXPECTED)


def message_of(error: Exception, operation: str) -> str:
    """Return what to tell a client about an error."""
    if not isinstance(error, LakebedError):
        return "internal error: the log of the server has the details under this request's id"
    if isinstance(error, engine.EntryNotFound):
        return f"object not found: {error.key.decode(errors='replace')}"
    for (where, kind), phrase in _PHRASES.items():
        if where == operation and isinstance(error, kind):
            return f"{phrase}: {error}"
    return str(error)


def kind_of(error: Exception) -> str:
    """Return the stable name of an error."""
    return error.kind if isinstance(error, LakebedError) else "internal"
