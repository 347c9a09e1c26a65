"""From what a cloud answers to the errors of block storage, the same for every library.

Messages name the address, the status and the cloud's own code for it, and nothing else of an
answer: a body or a URL may carry a signature.
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
"""What a call is about; a text describes a whole storage."""

_STATUS: Final = re.compile(r'(?:non-2xx status code: |\bcode: "|\(code: )(\d{3})\b')
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")


class Answer(NamedTuple):
    """What a cloud said in refusing a request."""

    status: int
    """The HTTP status; 0 if there was no answer."""

    code: str = ""
    """The cloud's own name for the trouble, if it gave one."""


def refusal(answer: Answer, place: Subject) -> BlockError:
    """Return the error that an answer means for a call about a place."""
    said = f"{answer.status or 'no answer'} {answer.code}".rstrip()
    if answer.code in _HINTS:
        said = f"{said}: {_HINTS[answer.code]}"
    meaning = _BY_CODE.get(answer.code) or _BY_STATUS.get(answer.status) or _failed
    return meaning(place, said)


def _failed(place: Subject, said: str) -> BlockError:
    return StorageUnavailable(f"the storage failed at {place}: {said}")


def _forbidden(place: Subject, said: str) -> BlockError:
    return Forbidden(f"these credentials may not access {place}: {said}")


def _full(place: Subject, said: str) -> BlockError:
    return StorageFull(f"there is no room for {place}: {said}")


def _held(place: Subject, said: str) -> BlockError:
    return StorageUnavailable(
        f"{place} was changed meanwhile, or is in use by another request: {said}"
    )


def _invalid_part(place: Subject, said: str) -> BlockError:
    return InvalidPart(
        f"the upload of {place} cannot be completed with a part that was named: {said}"
    )


def _no_bucket(place: Subject, said: str) -> BlockError:
    store = place if isinstance(place, str) else place.store
    return InvalidAddress(f"there is no bucket or container {store} for {place}: {said}")


def _not_found(place: Subject, said: str) -> BlockError:
    return ObjectNotFound(place) if isinstance(place, Address) else _no_bucket(place, said)


def _outside(place: Subject, said: str) -> BlockError:
    return RangeNotSatisfiable(f"the range lies outside the object at {place}: {said}")


def _refused(place: Subject, said: str) -> BlockError:
    return InvalidArgument(f"the storage refuses a request for {place}: {said}")


def _unspellable(place: Subject, said: str) -> BlockError:
    return InvalidAddress(f"the storage cannot spell {place}: {said}")


_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "InvalidAccessKeyId": "the storage does not know this access key id",
        "SignatureDoesNotMatch": "the secret access key is not that of the access key id",
        "RequestTimeTooSkewed": "the clock of this machine differs too much from the storage's",
        "AuthorizationHeaderMalformed": "check the region",
        "PermanentRedirect": "the bucket is in another region, or has another endpoint",
    }
)

_Meaning = Callable[[Subject, str], BlockError]

# What the code says beyond the status.
_BY_CODE: Final[Mapping[str, _Meaning]] = MappingProxyType(
    dict.fromkeys(("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"), _no_bucket)
    | dict.fromkeys(("ExpiredToken", "InvalidToken", "TokenRefreshRequired"), _forbidden)
    | dict.fromkeys(("AuthorizationHeaderMalformed", "InvalidAuthenticationInfo"), _forbidden)
    | dict.fromkeys(("InvalidPart", "InvalidPartOrder", "EntityTooSmall"), _invalid_part)
    | dict.fromkeys(("InvalidBlockList",), _invalid_part)
    | dict.fromkeys(("IncompleteBody", "RequestTimeout"), _failed)
    | dict.fromkeys(("KeyTooLongError", "InvalidResourceName", "InvalidURI"), _unspellable)
)
_BY_STATUS: Final[Mapping[int, _Meaning]] = MappingProxyType(
    {
        HTTPStatus.BAD_REQUEST: _refused,
        HTTPStatus.UNAUTHORIZED: _forbidden,
        HTTPStatus.FORBIDDEN: _forbidden,
        HTTPStatus.NOT_FOUND: _not_found,
        HTTPStatus.METHOD_NOT_ALLOWED: _refused,
        HTTPStatus.LENGTH_REQUIRED: _refused,
        HTTPStatus.PRECONDITION_FAILED: _held,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _refused,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: _outside,
        HTTPStatus.INSUFFICIENT_STORAGE: _full,
    }
)


def explain(error: Exception, place: Place, *, conditional: bool = False) -> BlockError:
    """Return the error that an exception of obstore means for a call about a place.

    Only a call that was `conditional` can have failed because of its condition.
    """
    text = str(error)
    if isinstance(place, Address):
        # The path stands here as the caller gave it; it must not be taken for an answer.
        text = re.sub(rf"\b(location|path) {re.escape(place.path)}", r"\1", text)
    status, code = _STATUS.search(text), _CODE.search(text)
    answer = Answer(int(status[1]) if status else 0, code[1] if code else "")
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
            return AlreadyExists(place) if conditional else failed
        case _:
            return refusal(answer, place)


@contextmanager
def explained(place: Place, *, conditional: bool = False) -> Iterator[None]:
    """Turn what obstore raises in the block into an error of block storage."""
    with panics_explained(place):
        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise explain(error, place, conditional=conditional) from error


@contextmanager
def panics_explained(place: Place) -> Iterator[None]:
    """Turn a panic of a Rust library in the block into an error of block storage."""
    try:
        yield
    except BaseException as error:
        if is_panic(error):
            raise panicked(error, place) from error
        raise


def is_panic(error: BaseException) -> bool:
    """Whether a library of Rust has panicked: its exception is no `Exception`."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def panicked(error: BaseException, place: Place) -> BlockError:
    """Return the error for a call during which a library of Rust has panicked."""
    return StorageUnavailable(
        f"the library for this storage failed at {place} ({error}): check its endpoint and its"
        " other settings"
    )
