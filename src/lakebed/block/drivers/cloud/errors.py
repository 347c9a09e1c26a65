"""Mapping of cloud responses to errors of block storage, the same for every library.

Messages quote the address, the status and the cloud's error code, and nothing else of a response: a
body or URL may contain a signature.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from lakebed.block.address import Address, Namespace
from lakebed.block.errors import (
    AlreadyExists,
    Archived,
    BlockError,
    Forbidden,
    InvalidAddress,
    InvalidArgument,
    InvalidPart,
    ObjectNotFound,
    PreconditionFailed,
    RangeNotSatisfiable,
    StorageFull,
    StorageUnavailable,
)

Place = Address | Namespace
Subject = Place | str
"""Subject of a call; a text describes a whole storage."""

_STATUS: Final = re.compile(r'(?:non-2xx status code: |\bcode: "|\(code: )(\d{3})\b')
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
_CLASS: Final = re.compile(r"<StorageClass>(\w{1,64})</StorageClass>")


class Answer(NamedTuple):
    """Error response of a cloud."""

    status: int
    """HTTP status; 0 without a response."""

    code: str = ""
    """The cloud's error code, or empty."""

    storage_class: str = ""
    """The storage class of an archived object on S3, or empty."""


def refusal(answer: Answer, place: Subject) -> BlockError:
    """Return the error for a response to a call on `place`."""
    status_text = f"{answer.status or 'no response'} {answer.code} {answer.storage_class}".rstrip()
    if answer.code in _HINTS:
        status_text = f"{status_text}: {_HINTS[answer.code]}"
    meaning = _BY_CODE.get(answer.code) or _BY_STATUS.get(answer.status) or _failed
    return meaning(place, status_text)


_Meaning = Callable[[Subject, str], BlockError]


def _meaning(error: type[BlockError], text: str) -> _Meaning:
    return lambda place, status_text: error(f"{text.format(place)}: {status_text}")


_failed = _meaning(StorageUnavailable, "the storage failed at {}")
_forbidden = _meaning(Forbidden, "the credentials do not allow access to {}")
_full = _meaning(StorageFull, "the storage is full, cannot write {}")
_changed = _meaning(StorageUnavailable, "{} was changed or is in use by another request")
_invalid_part = _meaning(InvalidPart, "the upload of {} has an invalid part")
_outside = _meaning(RangeNotSatisfiable, "the range is outside the object at {}")
_refused = _meaning(InvalidArgument, "the storage refused a request for {}")
_unrepresentable = _meaning(InvalidAddress, "the storage cannot represent {}")


def _no_bucket(place: Subject, status_text: str) -> BlockError:
    store = place if isinstance(place, str) else place.store
    return InvalidAddress(f"no bucket or container {store} for {place}: {status_text}")


def _not_found(place: Subject, status_text: str) -> BlockError:
    return ObjectNotFound(place) if isinstance(place, Address) else _no_bucket(place, status_text)


_RESTORE: Final = "restore it (aws s3api restore-object) and read it again afterwards"
_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "InvalidAccessKeyId": "unknown access key id",
        "SignatureDoesNotMatch": "the secret access key does not match the access key id",
        "RequestTimeTooSkewed": "the clock of this machine differs too much from the storage's",
        "AuthorizationHeaderMalformed": "check the region",
        "InvalidObjectState": _RESTORE,
        "ObjectNotInActiveTierError": _RESTORE,
        "BlobArchived": "rehydrate it (az storage blob set-tier) and read it again afterwards",
        "BlobBeingRehydrated": "read it again when it is rehydrated",
        "PermanentRedirect": "the bucket is in another region, or has another endpoint",
    }
)

# Codes that say more than the status.
_BY_CODE: Final[Mapping[str, _Meaning]] = MappingProxyType(
    dict.fromkeys(("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"), _no_bucket)
    | dict.fromkeys(("ExpiredToken", "InvalidToken", "TokenRefreshRequired"), _forbidden)
    | dict.fromkeys(("AuthorizationHeaderMalformed", "InvalidAuthenticationInfo"), _forbidden)
    | dict.fromkeys(("InvalidObjectState", "ObjectNotInActiveTierError"), Archived)
    | dict.fromkeys(("BlobArchived", "BlobBeingRehydrated"), Archived)
    | dict.fromkeys(("InvalidPart", "InvalidPartOrder", "EntityTooSmall"), _invalid_part)
    | dict.fromkeys(("InvalidBlockList",), _invalid_part)
    | dict.fromkeys(("IncompleteBody", "RequestTimeout"), _failed)
    | dict.fromkeys(("KeyTooLongError", "InvalidResourceName", "InvalidURI"), _unrepresentable)
)
_BY_STATUS: Final[Mapping[int, _Meaning]] = MappingProxyType(
    {
        HTTPStatus.BAD_REQUEST: _refused,
        HTTPStatus.UNAUTHORIZED: _forbidden,
        HTTPStatus.FORBIDDEN: _forbidden,
        HTTPStatus.NOT_FOUND: _not_found,
        HTTPStatus.METHOD_NOT_ALLOWED: _refused,
        HTTPStatus.LENGTH_REQUIRED: _refused,
        HTTPStatus.PRECONDITION_FAILED: _changed,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _refused,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: _outside,
        HTTPStatus.INSUFFICIENT_STORAGE: _full,
    }
)


def explain(error: Exception, place: Place, *, conditional: bool = False) -> BlockError:
    """Return the error for an exception of obstore raised by a call on `place`.

    Only a `conditional` call can fail because of its condition.
    """
    text = str(error)
    if isinstance(place, Address):
        # The message quotes the caller's path, which must not be parsed as part of the response.
        text = re.sub(rf"\b(location|path) {re.escape(place.path)}", r"\1", text)
    status, code, storage_class = (each.search(text) for each in (_STATUS, _CODE, _CLASS))
    answer = Answer(
        int(status[1]) if status else 0,
        code[1] if code else "",
        storage_class[1] if storage_class else "",
    )
    match error:
        case FileNotFoundError():
            return refusal(answer._replace(status=HTTPStatus.NOT_FOUND), place)
        case PermissionDeniedError() | UnauthenticatedError():
            return refusal(answer._replace(status=answer.status or HTTPStatus.FORBIDDEN), place)
        case PreconditionError():
            failed = refusal(answer._replace(status=HTTPStatus.PRECONDITION_FAILED), place)
            return PreconditionFailed(place) if conditional else failed
        case AlreadyExistsError():
            failed = refusal(answer._replace(status=HTTPStatus.CONFLICT), place)
            is_condition = conditional and not isinstance(failed, Archived)
            return AlreadyExists(place) if is_condition else failed
        case _:
            return refusal(answer, place)


@contextmanager
def explained(place: Place, *, conditional: bool = False) -> Iterator[None]:
    """Convert exceptions of obstore raised in the block."""
    with panics_explained(place):
        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise explain(error, place, conditional=conditional) from error


@contextmanager
def panics_explained(place: Place) -> Iterator[None]:
    """Convert panics of a Rust library in the block."""
    try:
        yield
    except BaseException as error:
        if is_panic(error):
            raise panicked(error, place) from error
        raise


def is_panic(error: BaseException) -> bool:
    """Return whether a Rust library panicked: its exception is not an `Exception`."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def panicked(error: BaseException, place: Place) -> BlockError:
    """Return the error for a panic of a Rust library."""
    return StorageUnavailable(
        f"the storage library failed at {place} ({error}): check the endpoint and the"
        " other settings"
    )
