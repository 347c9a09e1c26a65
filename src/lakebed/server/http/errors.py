"""One table: from the errors of all layers to a status and a body.

Details of stores and storages (host names, texts of drivers) are only logged. Clients get the
`public_message` of the error.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import falcon
import msgspec

from lakebed import auth, block
from lakebed.base.errors import INTERNAL, LakebedError, shown
from lakebed.engine import errors as engine
from lakebed.installation import statuses
from lakebed.lake import errors as catalog
from lakebed.server.http import admission, bodies, browsers, refusals
from lakebed.server.http.logs import cause_of
from lakebed.server.http.metrics import MetricsRefused
from lakebed.server.http.refusals import Refusal
from lakebed.server.http.request import current_record

JSON_TYPE: Final = "application/json"
RETRY_SECONDS: Final = 1
UNEXPECTED: Final = statuses.UNEXPECTED
_NO_PARTS: Final[Mapping[str, str]] = MappingProxyType({})

_LOGGER: Final = logging.getLogger(__name__)


class BadRequest(LakebedError, ValueError):
    """The request does not fit the operation."""

    kind = "bad_request"


class NotJSON(LakebedError, ValueError):
    """The body is not JSON by its Content-Type; a form of any page could send such a body."""

    kind = "not_json"

    def __init__(self, content_type: str) -> None:
        said = content_type or "no Content-Type"
        super().__init__(f"the body must be JSON (Content-Type: application/json), not {said!r}")


class NotImplementedHere(LakebedError):
    """An operation of the API that Lakebed does not have yet."""

    kind = "not_implemented"


class NoRules(LakebedError):
    """No garbage collection rules are set for a repository."""

    kind = "no_gc_rules"

    def __init__(self, repository: str) -> None:
        super().__init__(
            f"no garbage collection rules are set for repository {repository}: all commits are"
            " retained"
        )


class FileMissing(LakebedError, KeyError):
    """No such range or metarange."""

    kind = "file_missing"

    def __init__(self, what: str, file_id: str) -> None:
        super().__init__(f"{what} not found: {file_id}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


# The first matching class counts: special cases precede their families.
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (BadRequest, 400),
    (NotJSON, 415),
    (NotImplementedHere, 501),
    (FileMissing, 404),
    (NoRules, 404),
    # authentication
    (auth.AuthenticationFailed, 401),
    (auth.Denied, 401),
    (MetricsRefused, 403),
    (auth.TooManyLogins, 429),
    (auth.AuthNotFound, 404),
    (auth.AlreadyExists, 409),
    (auth.AlreadySetUp, 409),
    (auth.AuthInvalid, 400),
    (auth.AuthTooManyTries, 429),
    (browsers.BrowserRefused, 403),
    # the body and the load
    (bodies.LengthRequired, 411),
    (bodies.BodyTooLarge, 413),
    (bodies.BodyTooSlow, 408),
    (bodies.BodyError, 400),
    (admission.Overloaded, 503),
    *statuses.STATUSES,
)

# Errors that are counted and logged as refusals; the access line has the kind of all other errors.
_REFUSALS: Final[tuple[tuple[type[Exception], Refusal], ...]] = (
    (auth.AuthenticationFailed, Refusal.UNAUTHENTICATED),
    (auth.Denied, Refusal.DENIED),
    (browsers.ForeignHost, Refusal.FORGED_HOST),
    (browsers.BrowserRefused, Refusal.FORGED_ORIGIN),
    (auth.TooManyLogins, Refusal.THROTTLED),
    (MetricsRefused, Refusal.DENIED),
    (bodies.BodyTooLarge, Refusal.BODY_TOO_LARGE),
    (bodies.BodyTooSlow, Refusal.BODY_TOO_SLOW),
    (admission.Overloaded, Refusal.OVERLOADED),
)

_FORBIDDEN: Final = "the storage denied access to the server"

# The messages of lakeFS, verbatim: scripts and tests of clients compare them. The first matching
# row counts; rows with an operation come first. ``{names}`` are parts of the path.
_WORDS: Final[tuple[tuple[type[Exception], str | None, str], ...]] = (
    (engine.NamespaceTaken, None, "failed to create repository: storage namespace already in use"),
    (engine.NotUnique, "createRepository", "error creating repository: not unique"),
    (engine.NotUnique, "createBranch", "branch already exists: not unique"),
    (engine.NotUnique, "createTag", "tag already exists: not unique"),
    (engine.NoChanges, "commit", "commit: no changes"),
    (engine.NoChanges, "mergeIntoBranch", "update branch {destination_branch}: no changes"),
    (engine.NoChanges, "revertBranch", "update branch {branch}: no changes"),
    (engine.NoChanges, "cherryPick", "update branch {branch}: no changes"),
    (engine.MergeConflict, None, "update branch: conflict found"),
    (engine.DirtyBranch, None, "uncommitted changes (dirty branch)"),
    (engine.Protected, "commit", "cannot commit to protected branch"),
    (engine.Protected, None, "cannot write to protected branch"),
    (engine.ReadOnly, None, "read-only repository"),
    (engine.DefaultBranch, None, "cannot delete repository default branch"),
    (engine.PreconditionFailed, None, "precondition failed"),
    (catalog.AddressTaken, "importStart", "invalid import source"),
    (catalog.AddressClosed, "importStart", "invalid import source"),
    (engine.RepositoryNotFound, None, "repository not found"),
    (engine.BranchNotFound, None, "branch not found"),
    (engine.TagNotFound, None, "tag not found"),
    (engine.CommitNotFound, None, "commit not found"),
    (engine.RefNotFound, None, "commit not found"),
    (engine.EntryNotFound, "copyObject", "object not found"),
    (engine.NotFound, None, "not found"),
    (FileMissing, None, "not found"),
    (NoRules, None, "not found"),
    (catalog.TaskNotFound, None, "not found"),
    (catalog.PullNotFound, None, "pull request not found"),
    (catalog.PullStatusRefused, None, "bad pull request status"),
    (auth.UserNotFound, None, "user not found"),
    (auth.GroupNotFound, None, "group not found"),
    (auth.PolicyNotFound, None, "policy not found"),
    (auth.CredentialNotFound, None, "credentials not found"),
    (auth.AlreadyExists, None, "Already exists"),
    (auth.AuthenticationFailed, None, "error authenticating request"),
    (auth.Denied, None, "insufficient permissions"),
)


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error; 500 for an unexpected one."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), UNEXPECTED)


def explain(error: Exception) -> str:
    """Return Lakebed's own description of an error: the problem, with the value, and the remedy."""
    if isinstance(error, block.Forbidden):
        return _FORBIDDEN
    unexplained = isinstance(error, LakebedError) and error.public_message is None
    if unexplained and status_of(error) == UNEXPECTED:
        return INTERNAL.format("request")
    return shown(error)


def message_of(error: Exception, operation: str, parts: Mapping[str, str] = _NO_PARTS) -> str:
    """Return the message of an error for clients: lakeFS's text if any, else Lakebed's."""
    for kind, where, words in _WORDS:
        if isinstance(error, kind) and where in {None, operation}:
            return words.format_map(parts)
    return explain(error)


def body_of(
    error: Exception, operation: str, parts: Mapping[str, str] = _NO_PARTS
) -> dict[str, str]:
    """Return the body of an error answer; `detail` is present if it adds to `message`."""
    message, detail = message_of(error, operation, parts), explain(error)
    said = {"message": message, "kind": kind_of(error)}
    return said if detail == message else {**said, "detail": detail}


def kind_of(error: Exception) -> str:
    """Return the stable name of an error."""
    return error.kind if isinstance(error, LakebedError) else "internal"


def note_error(error: BaseException, status: int, kind: str) -> None:
    """Record an error in the request's record, count a refusal, and log it.

    Every 5xx and 410 is logged with its cause; of refusals, only a few are logged.
    """
    cause = ""
    refusal = next((each for family, each in _REFUSALS if isinstance(error, family)), None)
    if refusal is not None:
        reason = error.reason if isinstance(error, auth.AuthenticationFailed) else ""
        refusals.count(refusal, reason or str(error))
    elif status >= UNEXPECTED or status == HTTPStatus.GONE:
        cause = cause_of(error)
        if status == UNEXPECTED:
            _LOGGER.error("request failed: %s: %s", kind, cause, exc_info=error)
        else:
            _LOGGER.warning("request answered with %d: %s: %s", status, kind, cause)
    record = current_record()
    if record is not None:
        record.kind, record.cause = kind, cause


def error_answer(
    error: Exception, operation: str, parts: Mapping[str, str] = _NO_PARTS
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body for an error; `parts` are those of the path."""
    status = status_of(error)
    kind = kind_of(error)
    note_error(error, status, kind)
    headers = {}
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        seconds = error.retry_seconds if isinstance(error, auth.TooManyLogins) else RETRY_SECONDS
        headers["retry-after"] = str(seconds)
    if status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Basic realm=lakebed"
    headers["content-type"] = JSON_TYPE
    return status, headers, msgspec.json.encode(body_of(error, operation, parts))


def answer_error(error: Exception, operation: str, response: falcon.Response) -> None:
    """Answer an error through Falcon."""
    status, headers, body = error_answer(error, operation)
    response.status = status
    response.set_headers(headers)
    response.data = body
