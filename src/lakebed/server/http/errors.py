"""One table: from the errors of all layers to a status and a body.

What a store or a storage says about itself (its host, its driver's words) is for the log only.
Strangers get the `public_message` of the error.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import falcon
import msgspec

from lakebed import auth, block
from lakebed.base.errors import LakebedError
from lakebed.engine import errors as engine
from lakebed.installation import statuses
from lakebed.lake import errors as catalog
from lakebed.server.http import admission, bodies, browsers, refusals
from lakebed.server.http.logs import cause_of
from lakebed.server.http.metrics_access import MetricsRefused
from lakebed.server.http.refusals import Refusal
from lakebed.server.http.request import current_record

JSON_TYPE: Final = "application/json"
RETRY_SECONDS: Final = 1
UNEXPECTED: Final = statuses.UNEXPECTED
_NO_PARTS: Final[Mapping[str, str]] = MappingProxyType({})

_LOGGER: Final = logging.getLogger(__name__)


class BadRequest(LakebedError, ValueError):
    """The request cannot be read as one of the operation."""

    kind = "bad_request"


class NotJSON(LakebedError, ValueError):
    """The body is of another type than JSON, as a form of any page can send it."""

    kind = "not_json"

    def __init__(self, content_type: str) -> None:
        said = content_type or "no Content-Type"
        super().__init__(f"the body must be JSON (Content-Type: application/json), not {said!r}")


class NotImplementedHere(LakebedError):
    """An operation of the API that Lakebed does not have yet."""

    kind = "not_implemented"


class NoRules(LakebedError):
    """No rules of retention are set for a repository."""

    kind = "no_gc_rules"

    def __init__(self, repository: str) -> None:
        super().__init__(
            f"no garbage collection rules are set for repository {repository}: all commits are kept"
        )


class FileMissing(LakebedError, KeyError):
    """There is no such range or metarange."""

    kind = "file_missing"

    def __init__(self, what: str, file_id: str) -> None:
        super().__init__(f"{what} not found: {file_id}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


# The first line that an error is an instance of counts: special cases come before their families.
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (BadRequest, 400),
    (NotJSON, 415),
    (NotImplementedHere, 501),
    (FileMissing, 404),
    (NoRules, 404),
    # who is asking
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

# Errors that are counted and logged as refusals; of others the access line has the kind.
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

_INTERNAL: Final = "internal error: the log of the server has the details under this request's id"

_FORBIDDEN: Final = "the storage refuses this to the server"

# What lakeFS says, to the letter: scripts and tests of clients compare it. The first line that fits
# counts; with an operation before those without. ``{names}`` are parts of the path.
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
    (auth.Denied, None, "insufficient permissions"),
)


def status_of(error: Exception) -> int:
    """Return the status that an error is answered with; 500 for what nobody expected."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), UNEXPECTED)


def public_message(error: Exception) -> str | None:
    """Return what strangers may read of an error whose own text is for the log; else None."""
    if isinstance(error, LakebedError) and error.public_message is not None:
        return error.public_message
    # What nobody expected may name anything: folders, hosts, drivers, the words of libraries.
    if status_of(error) == UNEXPECTED:
        return _INTERNAL
    return _FORBIDDEN if isinstance(error, block.Forbidden) else None


def explain(error: Exception) -> str:
    """Return our own sentence about an error: what was wrong, with which value, what to do."""
    public = public_message(error)
    if public is not None:
        return public
    if isinstance(error, engine.EntryNotFound):
        return f"object not found: {error.key.decode(errors='replace')}"
    return str(error)


def message_of(error: Exception, operation: str, parts: Mapping[str, str] = _NO_PARTS) -> str:
    """Return what to tell a client about an error, in the words of lakeFS where it has some."""
    for kind, where, words in _WORDS:
        if isinstance(error, kind) and where in {None, operation}:
            return words.format_map(parts)
    return explain(error)


def body_of(
    error: Exception, operation: str, parts: Mapping[str, str] = _NO_PARTS
) -> dict[str, Any]:
    """Return the answer to a request that failed; `detail` is there if it says more."""
    message, detail = message_of(error, operation, parts), explain(error)
    said = {"message": message, "kind": kind_of(error)}
    return said if detail == message else {**said, "detail": detail}


def kind_of(error: Exception) -> str:
    """Return the stable name of an error."""
    return error.kind if isinstance(error, LakebedError) else "internal"


def note_error(error: BaseException, status: int, kind: str) -> None:
    """Note an error in the record of the request, count it if it is a refusal, and log it.

    Every 5xx and 410 is logged with its cause, but for refusals, of which a few are.
    """
    cause = ""
    refusal = next((each for family, each in _REFUSALS if isinstance(error, family)), None)
    if refusal is not None:
        reason = error.reason if isinstance(error, auth.AuthenticationFailed) else ""
        refusals.count(refusal, reason or str(error))
    elif status >= UNEXPECTED or status == HTTPStatus.GONE:
        cause = cause_of(error)
        if status == UNEXPECTED:
            _LOGGER.error("a request failed: %s: %s", kind, cause, exc_info=error)
        else:
            _LOGGER.warning("a request was answered %d: %s: %s", status, kind, cause)
    record = current_record()
    if record is not None:
        record.kind, record.cause = kind, cause


def error_answer(
    error: Exception, operation: str, parts: Mapping[str, str] = _NO_PARTS
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of the answer to an error; `parts` are those of the path."""
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
    """Turn an error into an answer of Falcon."""
    status, headers, body = error_answer(error, operation)
    response.status = status
    response.set_headers(headers)
    response.data = body
