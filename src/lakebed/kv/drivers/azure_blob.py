"""A store in a container of Azure Blob Storage, shared by any number of processes and machines.

``azblob://account/container``. A missing container is created; a container with foreign blobs is
rejected. The account key is read from ``AZURE_STORAGE_KEY``; without it, credentials come from
Azure's default credential chain. ``?endpoint=http://127.0.0.1:10000/account`` selects a server
other than Azure's.

See `lakebed.kv.objects` for how records are stored, compared and deleted. Azure compares the ETag
of a blob, and refuses signatures older than 15 minutes; tokens are valid for about a day at most.

**Durability.** Azure acknowledges a write when it is stored three times. Reads and listings are
consistent. (A failover to another region loses writes not yet replicated.)

**Limits.** A blob name has at most 1,024 characters. So uploads of objects with names longer than
about 500 bytes are rejected.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

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
from azure.core.paging import PageIterator
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobProperties, BlobServiceClient, ContainerClient
from requests import Session
from requests.adapters import HTTPAdapter

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import Failures
from lakebed.kv.drivers.requests_errors import failed_to_connect
from lakebed.kv.errors import ForeignStore, InvalidArgument
from lakebed.kv.fenced import FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.objects import FIELD, SEPARATOR, Found, ObjectCells, decode
from lakebed.kv.store import PARTITIONS_PAGE, Store
from lakebed.kv.urls import split_url

ItemT = TypeVar("ItemT")

CONNECT_SECONDS: Final = 1.0
REPLY_SECONDS: Final = 5.0
CONNECTIONS: Final = 64
KEY_VARIABLE: Final = "AZURE_STORAGE_KEY"

_STORE_KIND: Final = "kv"
"""Metadata value of a container that identifies a Lakebed store."""

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
        """Connect, and create the container if missing. Raises as `lakebed.kv.open_store`."""
        super().__init__(runtime)
        account, container, endpoint = _parse_url(url)
        self._service = _connect(account, endpoint, reply_seconds)
        self._container = self._service.get_container_client(container)
        with closing_on_error(self.close):
            _FAILURES.read(lambda: _prepare(self._container))

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        pages = self._container.walk_blobs(
            delimiter=SEPARATOR, results_per_page=PARTITIONS_PAGE
        ).by_page(cursor.decode() or None)
        page, after = _FAILURES.read(lambda: _next_page(pages))
        names = [decode(each.name.removesuffix(SEPARATOR)) for each in page]
        return names, after.encode() if after else None

    def close(self) -> None:
        self._service.close()

    def _head(self, name: str) -> Found | None:
        def ask() -> Found | None:
            try:
                return _found(self._container.get_blob_client(name).get_blob_properties())
            except ResourceNotFoundError as error:
                # The reply has no further details; but a deleted container must not look like a
                # missing key.
                if _code(error) == "ContainerNotFound":
                    raise
                return None

        return _FAILURES.read(ask)

    def _body(self, found: Found) -> bytes | None:
        def ask() -> bytes | None:
            blob = self._container.get_blob_client(found.name)
            with suppress(ResourceModifiedError, ResourceNotFoundError):
                return blob.download_blob(etag=found.etag, match_condition=_IF_SAME).readall()
            return None

        return _FAILURES.read(ask)

    def _put(
        self, name: str, etag: str | None, metadata: dict[str, str], body: bytes
    ) -> str | None:
        condition: dict[str, Any] = {"overwrite": False}
        if etag is not None:
            condition = {"overwrite": True, "etag": etag, "match_condition": _IF_SAME}
        blob = self._container.get_blob_client(name)
        try:
            written = blob.upload_blob(body, metadata=metadata, **condition)
        except AzureError as error:
            if _code(error) in _CONDITION_FAILED:
                return None
            raise _FAILURES.of_write(error) from error
        return cast("str", written["etag"])

    def _list(
        self, prefix: str, first: str, limit: int, token: str | None
    ) -> tuple[list[Found], str | None]:
        pages = self._container.list_blobs(
            name_starts_with=prefix,
            start_from=first if first != prefix else None,
            include=["metadata"],
            results_per_page=limit,
        ).by_page(token)
        blobs, after = _FAILURES.read(lambda: _next_page(pages))
        return [_found(blob) for blob in blobs], after

    def _remove(self, name: str, etag: str) -> None:
        try:
            with suppress(ResourceNotFoundError, ResourceModifiedError):
                self._container.delete_blob(name, etag=etag, match_condition=_IF_SAME)
        except AzureError as error:
            raise _FAILURES.of_write(error) from error


def _parse_url(url: str) -> tuple[str, str, str]:
    parts, options = split_url(url, options={"endpoint"}, example=_EXAMPLE)
    account, container = parts.netloc, parts.path.strip("/")
    if not _ACCOUNT.fullmatch(account) or not _CONTAINER.fullmatch(container):
        # Do not quote the URL: it may contain credentials.
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
            # A retry inside the library could be applied twice, the second time unfenced.
            retry_total=0,
        )
    except ValueError as error:
        raise InvalidArgument(f"cannot use this azblob URL: {error}") from error


def _prepare(container: ContainerClient) -> None:
    """Mark the container as a Lakebed store, unless it has foreign blobs."""
    with suppress(ResourceExistsError):
        container.create_container(metadata={FIELD: _STORE_KIND})
        return
    found = container.get_container_properties()
    if found.metadata.get(FIELD) == _STORE_KIND:
        return
    if next(iter(container.list_blob_names(results_per_page=1)), None) is not None:
        raise ForeignStore(
            f"the container {container.container_name} is not empty, and not a Lakebed store"
        )
    container.set_container_metadata({FIELD: _STORE_KIND})


def _next_page(pages: Iterator[Iterator[ItemT]]) -> tuple[list[ItemT], str | None]:
    """Return the next page of a listing, and its continuation token."""
    page = list(next(pages, ()))
    return page, cast("PageIterator[ItemT]", pages).continuation_token


def _was_refused(error: AzureError) -> bool:
    return isinstance(error, HttpResponseError) and 0 < (error.status_code or 0) < _SERVER_ERROR


def _was_not_sent(error: AzureError) -> bool:
    if isinstance(error, ClientAuthenticationError | ServiceRequestTimeoutError):
        return True
    # The library uses one class for all broken connections: only a failed connect is certain.
    return failed_to_connect(error.inner_exception)


_FAILURES: Final = Failures(
    "Azure", (AzureError,), was_refused=_was_refused, was_not_sent=_was_not_sent
)


def _code(error: AzureError) -> str:
    # The blob library adds this attribute to azure-core's class: a text, or an enumeration of
    # texts.
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _found(blob: BlobProperties) -> Found:
    return Found(blob.name, blob.metadata, blob.etag)
