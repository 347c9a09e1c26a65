"""What the exceptions of Azure's library mean."""

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from lakebed.block.drivers.cloud.errors import Answer, Place, refusal
from lakebed.block.errors import BlockError, Forbidden, StorageUnavailable


def explain(error: AzureError, place: Place) -> BlockError:
    """Return the error that an exception of Azure's library means for a call about a place."""
    if isinstance(error, HttpResponseError) and error.status_code:
        return refusal(Answer(error.status_code, _code_of(error)), place)
    reason = type(error).__name__
    if isinstance(error, ClientAuthenticationError):
        return Forbidden(f"there are no credentials to reach {place} with: {reason}")
    return StorageUnavailable(f"no answer to a request for {place}: {reason}")


@contextmanager
def explained(place: Place) -> Iterator[None]:
    """Turn what Azure's library raises in the block into an error of block storage."""
    try:
        yield
    except AzureError as error:
        raise explain(error, place) from error


def _code_of(error: HttpResponseError) -> str:
    # The blob library adds this to the class of azure-core: a text, or an enumeration of texts.
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")
