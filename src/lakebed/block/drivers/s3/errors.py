"""Mapping of boto3's exceptions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    TokenRetrievalError,
)

from lakebed.block.drivers.cloud.errors import Answer, Place, Subject, refusal
from lakebed.block.errors import BlockError, Forbidden, InvalidArgument, StorageUnavailable

_NO_CREDENTIALS: Final = (
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    TokenRetrievalError,
)


def answer_of(error: ClientError) -> Answer:
    """Return the storage's response in an exception."""
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    code = error.response["Error"]["Code"]
    # For a response without a body, boto3 reports the status as the code.
    storage_class = str(error.response["Error"].get("StorageClass", ""))
    return Answer(status, "" if code.isdecimal() else code, storage_class)


def explain(error: BotoCoreError | ClientError, place: Subject) -> BlockError:
    """Return the block storage error for an exception of boto3."""
    if isinstance(error, ClientError):
        return refusal(answer_of(error), place)
    reason = type(error).__name__
    if isinstance(error, _NO_CREDENTIALS):
        return Forbidden(f"no credentials for {place}: {reason}")
    if isinstance(error, ParamValidationError):
        return InvalidArgument(f"the request for {place} cannot be sent: {reason}")
    return StorageUnavailable(f"no response to a request for {place}: {reason}")


@contextmanager
def explained(place: Place) -> Iterator[None]:
    """Convert exceptions of boto3 raised in the block."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise explain(error, place) from error
