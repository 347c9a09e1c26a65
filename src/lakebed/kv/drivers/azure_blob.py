"""A store in a container of Azure Blob Storage, shared by any number of processes and machines.

``azblob://account/container``. The container is made if there is none; one with the blobs of others
is refused. The key of the account comes from ``AZURE_STORAGE_KEY``; without it, credentials come
from where Azure's tools look for them. ``?endpoint=http://127.0.0.1:10000/account`` is for a server
other than Azure's.

How records are kept, compared and deleted is in `lakebed.kv.objects`. Azure compares the ETag of a
blob, and refuses a signature that is more than 15 minutes old; tokens live for a day or so at most.

**Durability.** Azure answers a write when it is stored three times. Reads and listings see it at
once. (A failover to another region loses what was not copied there yet.)

**Limits.** The name of a blob has 1,024 characters. So an object with a name of more than about 500
bytes is refused when it is uploaded.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
    ServiceRequestTimeoutError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobProperties, BlobServiceClient, ContainerClient
from requests import Session
from requests.adapters import HTTPAdapter

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.sent import was_never_connected
from lakebed.kv.errors import (
    ForeignStore,
    InvalidArgument,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnreachable,
)
from lakebed.kv.fenced import FencedStore
from lakebed.kv.objects import FIELD, SEPARATOR, Found, ObjectCells, decode
from lakebed.kv.store import PARTITIONS_PAGE, Store
from lakebed.kv.urls import split_url

ResultT = TypeVar("ResultT")

CONNECT_SECONDS: Final = 1.0
REPLY_SECONDS: Final = 5.0
CONNECTIONS: Final = 64
KEY_VARIABLE: Final = "AZURE_STORAGE_KEY"

_MARK: Final = "kv"
"""In the metadata of a container, it says that it is ours."""

_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER: Final = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]")
_EXAMPLE: Final = "azblob://account/container"
_SERVER_ERROR: Final = 500
_IF_SAME: Final = MatchConditions.IfNotModified
_CONDITION_FAILED: Final = frozenset({"BlobAlreadyExists", "BlobNotFound", "ConditionNotMet"})


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a container; see `lakebed.kv.open_store`."""
    return FencedStore(AzureBlobCells(url, runtime), runtime)


class AzureBlobCells(ObjectCells):
    """The blobs of a container."""

    name = "azblob"

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        """Connect, and make the container if there is none.

        Raises:
            InvalidArgument: The URL is malformed.
            ForeignStore: The container holds something else.
            StoreUnavailable: It cannot be reached or made.
        """
        super().__init__(runtime)
        account, container, endpoint = _parse_url(url)
        self._service = _connect(account, endpoint, reply_seconds)
        self._container = self._service.get_container_client(container)
        try:
            _read(lambda: _prepare(self._container))
        except BaseException:
            self.close()
            raise

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        pages = self._container.walk_blobs(
            delimiter=SEPARATOR, results_per_page=PARTITIONS_PAGE
        ).by_page(cursor.decode() or None)
        page, after = _read(lambda: _next_page(pages))
        names = [decode(each.name.removesuffix(SEPARATOR)) for each in page]
        return names, after.encode() if after else None

    def close(self) -> None:
        self._service.close()

    def _head(self, name: str) -> Found | None:
        def ask() -> Found | None:
            try:
                return _found(self._container.get_blob_client(name).get_blob_properties())
            except ResourceNotFoundError as error:
                # A head of an answer says no more; but a container that is gone is not an absent
                # key.
                if _code(error) == "ContainerNotFound":
                    raise
                return None

        return _read(ask)

    def _body(self, found: Found) -> bytes | None:
        def ask() -> bytes | None:
            blob = self._container.get_blob_client(found.name)
            with suppress(ResourceModifiedError, ResourceNotFoundError):
                return blob.download_blob(etag=found.mark, match_condition=_IF_SAME).readall()
            return None

        return _read(ask)

    def _put(
        self, name: str, mark: str | None, metadata: dict[str, str], body: bytes
    ) -> str | None:
        condition: dict[str, Any] = {"overwrite": False}
        if mark is not None:
            condition = {"overwrite": True, "etag": mark, "match_condition": _IF_SAME}
        blob = self._container.get_blob_client(name)
        try:
            etag: str = blob.upload_blob(body, metadata=metadata, **condition)["etag"]
        except AzureError as error:
            if _code(error) in _CONDITION_FAILED:
                return None
            raise _failure_of_a_write(error) from error
        return etag

    def _list(
        self, prefix: str, first: str, limit: int, token: str | None
    ) -> tuple[list[Found], str | None]:
        pages = self._container.list_blobs(
            name_starts_with=prefix,
            start_from=first if first != prefix else None,
            include=["metadata"],
            results_per_page=limit,
        ).by_page(token)
        blobs, after = _read(lambda: _next_page(pages))
        return [_found(blob) for blob in blobs], after

    def _remove(self, name: str, mark: str) -> None:
        try:
            with suppress(ResourceNotFoundError, ResourceModifiedError):
                self._container.delete_blob(name, etag=mark, match_condition=_IF_SAME)
        except AzureError as error:
            raise _failure_of_a_write(error) from error


def _parse_url(url: str) -> tuple[str, str, str]:
    """Return the account, the container and the endpoint."""
    parts, options = split_url(url, options={"endpoint"}, example=_EXAMPLE)
    account, container = parts.netloc, parts.path.strip("/")
    if not _ACCOUNT.fullmatch(account) or not _CONTAINER.fullmatch(container):
        # Not what is there instead: some write credentials into a URL.
        raise InvalidArgument(
            f"the URL does not name an account and a container: use {_EXAMPLE}; the key comes from"
            f" {KEY_VARIABLE}"
        )
    return account, container, options.get("endpoint", f"https://{account}.blob.core.windows.net")


def _connect(account: str, endpoint: str, reply_seconds: float) -> BlobServiceClient:
    session = Session()
    adapter = HTTPAdapter(pool_maxsize=CONNECTIONS)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    transport = RequestsTransport(
        session=session, connection_timeout=CONNECT_SECONDS, read_timeout=reply_seconds
    )
    key = os.environ.get(KEY_VARIABLE)
    try:
        return BlobServiceClient(
            endpoint,
            {"account_name": account, "account_key": key} if key else DefaultAzureCredential(),
            transport=transport,
            # A request that is repeated inside the library could land twice, the second time
            # unfenced.
            retry_total=0,
        )
    except ValueError as error:
        raise InvalidArgument(f"cannot use this azblob URL: {error}") from error


def _prepare(container: ContainerClient) -> None:
    """Make the container ours, unless it is somebody else's."""
    with suppress(ResourceExistsError):
        container.create_container(metadata={FIELD: _MARK})
        return
    found = container.get_container_properties()
    if found.metadata.get(FIELD) == _MARK:
        return
    if next(iter(container.list_blob_names(results_per_page=1)), None) is not None:
        raise ForeignStore(
            f"the container {container.container_name} is not empty, and not a store of Lakebed"
        )
    container.set_container_metadata({FIELD: _MARK})


# Requests and what their failures mean


def _next_page(pages: Any) -> tuple[list[Any], str | None]:
    """Return the next page of a listing, and where to go on."""
    page = next(pages, ())
    return list(page), pages.continuation_token


def _read(call: Callable[[], ResultT]) -> ResultT:
    try:
        return call()
    except AzureError as error:
        if not _may_have_been_sent(error):
            raise StoreUnreachable(f"cannot reach Azure: {error}") from error
        raise StoreUnavailable(f"Azure did not answer: {error}") from error


def _failure_of_a_write(error: AzureError) -> OutcomeUnknown:
    """Say whether a write that failed may have been, or may yet be, applied."""
    if isinstance(error, HttpResponseError) and error.status_code:
        if error.status_code < _SERVER_ERROR:
            return StoreUnavailable(f"Azure refused the write: {error}")
        return OutcomeUnknown(f"Azure failed in a write: {error}")
    if not _may_have_been_sent(error):
        return StoreUnreachable(f"cannot reach Azure: {error}")
    return OutcomeUnknown(f"Azure did not say what became of a write: {error}")


def _may_have_been_sent(error: AzureError) -> bool:
    if isinstance(error, ClientAuthenticationError | ServiceRequestTimeoutError):
        return False
    # The library calls every broken connection so: only that it was never made is certain.
    return not was_never_connected(error.inner_exception)


def _code(error: AzureError) -> str:
    # The blob library adds this to the class of azure-core: a text, or an enumeration of texts.
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _found(blob: BlobProperties) -> Found:
    return Found(blob.name, blob.metadata, blob.etag)
