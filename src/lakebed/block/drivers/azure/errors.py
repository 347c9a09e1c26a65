"""Mapping of exceptions of Azure's library."""

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from lakebed.block.drivers.cloud.errors import Answer, Place, refusal
from lakebed.block.errors import BlockError, Forbidden, StorageUnavailable


def explain(error: AzureError, place: Place) -> BlockError:
    """Return the block storage error for an exception of Azure's library."""
    if isinstance(error, HttpResponseError) and error.status_code:
        return refusal(Answer(error.status_code, _code_of(error)), place)
    reason = type(error).__name__
    if isinstance(error, ClientAuthenticationError):
        return Forbidden(f"no credentials for {place}: {reason}")
    return StorageUnavailable(f"no response to a request for {place}: {reason}")


@contextmanager
def explained(place: Place) -> Iterator[None]:
    """Convert exceptions of Azure's library raised in the block."""
    try:
        yield
    except AzureError as error:
        raise explain(error, place) from error


def _code_of(error: HttpResponseError) -> str:
    # The blob library sets this attribute on azure-core's exception: a string or an enum of
    # strings.
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")
