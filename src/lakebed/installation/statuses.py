"""HTTP statuses of an installation's errors.

The server sends them, and the library derives its errors from them, so that a program sees the same
error with and without a server.
"""

from typing import Final

from lakebed import block, kv
from lakebed.engine import errors as engine
from lakebed.engine.build_processes import BuilderFailed
from lakebed.lake import errors as catalog
from lakebed.lake.hooks import errors as hooks

UNEXPECTED: Final = 500

# The first match counts: special cases come before their base classes.
STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    # objects
    (catalog.TaskNotFound, 404),
    (catalog.UploadNotUnfinished, 404),
    (catalog.NothingLeft, 404),
    (catalog.ImportOver, 409),
    (catalog.PullNotFound, 404),
    (catalog.PullBusy, 409),
    (catalog.MultipartNotFound, 404),
    (catalog.VersionNotFound, 404),
    (catalog.MissingBytes, 410),
    (catalog.ChangedBytes, 410),
    (catalog.CatalogError, 400),
    # hooks
    (hooks.RunNotFound, 404),
    (hooks.TooManyTrials, 429),
    (hooks.InvalidAction, 412),
    # the engine
    (engine.NotFound, 404),
    (engine.NamespaceTaken, 400),
    (engine.NotUnique, 409),
    (engine.MergeConflict, 409),
    (engine.Invalid, 400),
    (engine.PreconditionFailed, 412),
    (engine.Refused, 412),
    (engine.CommitRefused, 412),
    (engine.DirtyBranch, 400),
    (engine.NoChanges, 400),
    (engine.Protected, 403),
    (engine.ReadOnly, 403),
    (engine.DefaultBranch, 403),
    (engine.Deleting, 410),
    (engine.MissingFile, 410),
    (engine.CommitExpired, 410),
    (engine.RefsLeftOut, 409),
    (catalog.ClocksDiffer, 409),
    (engine.TooManyExpire, 409),
    (engine.Stale, 408),
    (engine.TooManyTries, 429),
    (engine.GivenUp, 503),
    (BuilderFailed, 503),
    # stores and storages
    (kv.InvalidArgument, 400),
    (kv.OutcomeUnknown, 503),
    (block.ObjectNotFound, 410),
    (block.UploadNotFound, 404),
    (block.AlreadyExists, 412),
    (block.Forbidden, 403),
    (block.Archived, 409),
    (block.StorageUnavailable, 503),
    (block.RangeNotSatisfiable, 416),
    (block.InvalidArgument, 400),
    (block.NotSupported, 400),
)


def status_of(error: Exception) -> int:
    """Return the HTTP status for an error; 500 if unknown."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), UNEXPECTED)
