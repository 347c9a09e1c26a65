"""Table from the errors of all layers to the codes of S3."""

from typing import Final

from lakebed import auth, block, kv
from lakebed.engine import errors as engine
from lakebed.lake import errors as catalog
from lakebed.server.http import admission, bodies, browsers
from lakebed.server.http.errors import explain
from lakebed.server.s3.errors import ErrorCode, S3Error

# The first matching class counts: special cases precede their families.
_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    # authentication
    (auth.AuthenticationFailed, ErrorCode.INVALID_ACCESS_KEY_ID),
    (auth.Denied, ErrorCode.ACCESS_DENIED),
    (browsers.BrowserRefused, ErrorCode.ACCESS_DENIED),
    # the body and the load
    (bodies.LengthRequired, ErrorCode.MISSING_CONTENT_LENGTH),
    (bodies.BodyTooLarge, ErrorCode.ENTITY_TOO_LARGE),
    (bodies.BodyTooSlow, ErrorCode.REQUEST_TIMEOUT),
    (bodies.BodyError, ErrorCode.INCOMPLETE_BODY),
    (admission.Overloaded, ErrorCode.SLOW_DOWN),
    # objects
    (catalog.MissingBytes, ErrorCode.NO_SUCH_VERSION),
    (catalog.VersionNotFound, ErrorCode.NO_SUCH_VERSION),
    (catalog.ChangedBytes, ErrorCode.OBJECT_CHANGED),
    (catalog.BadDigest, ErrorCode.BAD_DIGEST),
    (catalog.MultipartNotFound, ErrorCode.NO_SUCH_UPLOAD),
    (catalog.PartsOutOfOrder, ErrorCode.INVALID_PART_ORDER),
    (catalog.PartMissing, ErrorCode.INVALID_PART),
    (catalog.PartTooSmall, ErrorCode.ENTITY_TOO_SMALL),
    (catalog.ChecksumUnknown, ErrorCode.INVALID_REQUEST),
    (catalog.InvalidMetadata, ErrorCode.METADATA_TOO_LARGE),
    (catalog.CatalogError, ErrorCode.INVALID_ARGUMENT),
    # the engine
    (engine.EntryNotFound, ErrorCode.NO_SUCH_KEY),
    (engine.NotFound, ErrorCode.NO_SUCH_BUCKET),
    (engine.InvalidRef, ErrorCode.NO_SUCH_BUCKET),
    (engine.Deleting, ErrorCode.NO_SUCH_BUCKET),
    (engine.NotUnique, ErrorCode.BUCKET_ALREADY_EXISTS),
    (engine.InvalidName, ErrorCode.INVALID_BUCKET_NAME),
    (engine.Invalid, ErrorCode.INVALID_ARGUMENT),
    (engine.NothingThere, ErrorCode.NO_SUCH_KEY),
    (engine.PreconditionFailed, ErrorCode.PRECONDITION_FAILED),
    (engine.Protected, ErrorCode.WRITE_TO_PROTECTED_BRANCH),
    (engine.ReadOnly, ErrorCode.READ_ONLY_REPOSITORY),
    (engine.CommitExpired, ErrorCode.NO_SUCH_VERSION),
    (engine.Stale, ErrorCode.REQUEST_TIMEOUT),
    (engine.TooManyTries, ErrorCode.SLOW_DOWN),
    (engine.GivenUp, ErrorCode.SLOW_DOWN),
    # stores and storages
    (kv.InvalidArgument, ErrorCode.INVALID_ARGUMENT),
    (kv.OutcomeUnknown, ErrorCode.SERVICE_UNAVAILABLE),
    (block.ObjectNotFound, ErrorCode.NO_SUCH_VERSION),
    (block.UploadNotFound, ErrorCode.NO_SUCH_UPLOAD),
    (block.Forbidden, ErrorCode.ACCESS_DENIED),
    (block.Archived, ErrorCode.INVALID_OBJECT_STATE),
    (block.StorageUnavailable, ErrorCode.SERVICE_UNAVAILABLE),
    (block.RangeNotSatisfiable, ErrorCode.INVALID_RANGE),
    (block.InvalidPart, ErrorCode.INVALID_PART),
    (block.InvalidArgument, ErrorCode.INVALID_ARGUMENT),
    (block.NotSupported, ErrorCode.NOT_IMPLEMENTED),
)


def as_s3_error(error: Exception) -> S3Error:
    """Return an error as an S3 error; `INTERNAL_ERROR` if not in the table."""
    if isinstance(error, S3Error):
        return error
    found = (code for kind, code in _CODES if isinstance(error, kind))
    return S3Error(next(found, ErrorCode.INTERNAL_ERROR), explain(error))
