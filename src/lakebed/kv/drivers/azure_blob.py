"""A store in a container of Azure Blob Storage, shared by any number of processes and machines.

``azblob://account/container``. The container is made if there is none; one with the blobs of others
is refused. The key of the account comes from ``AZURE_STORAGE_KEY``; without it, credentials come
from where Azure's tools look for them. ``?endpoint=http://127.0.0.1:10000/account`` is for a server
other than Azure's.

A record is a blob. What is small, and that is nearly everything, is in the blob's metadata, so that
one request lists thousands of records with their values. Each call takes as long as a request to
the object storage does: it suits small installations that want to keep no database.

**Order.** Names of blobs are text. Partitions and keys are written in a base 64 whose digits are in
the order of their codes, so blobs are listed in the order of the bytes.

**Conditions.** Azure compares the ETag of a blob, which the service chooses. A stamp is written
once, so it has one ETag: the driver remembers the ETags of the last stamps that it saw, and reads
the blob if it does not know one.

**Late application.** A request may be held up and land after its client gave up, so
`lakebed.kv.wrappers.fenced` makes the contract of it. Azure refuses a signature that is more than
15 minutes old, and tokens live for a day or so at most. Tombstones stay for a week; whoever lists a
partition then removes those that it meets.

**Durability.** Azure answers a write when it is stored three times. Reads and listings see it at
once. (A failover to another region loses what was not copied there yet.)

**Limits.** The name of a blob has 1,024 characters. So an object with a name of more than about 500
bytes is refused when it is uploaded.
"""

import os
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from functools import partial
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
from azure.storage.blob import BlobClient, BlobProperties, BlobServiceClient, ContainerClient
from requests import Session
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from lakebed.kv.errors import (
    ForeignStore,
    InvalidArgument,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnreachable,
)
from lakebed.kv.store import PARTITIONS_PAGE, VERSION_BYTES, Limits, Store, Version
from lakebed.kv.urls import split_url
from lakebed.kv.wrappers.fenced import Cell, Cells, FencedStore
from lakebed.lru import LRU
from lakebed.runtime import Runtime

ResultT = TypeVar("ResultT")

CONNECT_SECONDS: Final = 1.0
REPLY_SECONDS: Final = 5.0
CONNECTIONS: Final = 64
TOMBSTONE_SECONDS: Final = 7 * 24 * 3600.0
REMOVED_AT_ONCE: Final = 64
"""How many old tombstones a page removes at most; the next one goes on."""
KEY_VARIABLE: Final = "AZURE_STORAGE_KEY"

_INLINE_BYTES: Final = 4096
"""A blob's metadata takes 8 KiB, and base 64 a third more than the value."""
_REMEMBERED_ETAGS: Final = 10_000
_CHANGES: Final = 10
"""How often a large value may change while it is read."""

_FIELD: Final = "lakebed"
"""The name of the one field of metadata; of a container it says that it is ours."""
_MARK: Final = "kv"
# The version, the stamp, where the value is, and when a tombstone may go.
_HEAD: Final = struct.Struct(f">{VERSION_BYTES}s{VERSION_BYTES}sBd")
_USUAL_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_ORDERED_DIGITS: Final = bytes(sorted(b"-_" + _USUAL_DIGITS[:-2]))
_TO_ORDERED: Final = bytes.maketrans(_USUAL_DIGITS, _ORDERED_DIGITS)
_FROM_ORDERED: Final = bytes.maketrans(_ORDERED_DIGITS, _USUAL_DIGITS)
_SEPARATOR: Final = "."
"""Between partition and key; not a slash, which some would take for a folder."""

_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER: Final = re.compile(r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]")
_EXAMPLE: Final = "azblob://account/container"
_SERVER_ERROR: Final = 500
_IF_SAME: Final = MatchConditions.IfNotModified
_CONDITION_FAILED: Final = frozenset({"BlobAlreadyExists", "BlobNotFound", "ConditionNotMet"})


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a container; see `lakebed.kv.open_store`."""
    return FencedStore(AzureBlobCells(url, runtime), runtime)


class _Place(IntEnum):
    """Where the value of a cell is."""

    NOWHERE = 0
    METADATA = 1
    BODY = 2


class AzureBlobCells(Cells):
    """The blobs of a container."""

    name = "azblob"
    # 340 characters for the partition, 680 for the key, and the one between them.
    limits = Limits(partition_bytes=255, key_bytes=510, value_bytes=16 << 20)
    shared_between_processes = True
    tombstone_seconds = TOMBSTONE_SECONDS

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        """Connect, and make the container if there is none.

        Raises:
            InvalidArgument: The URL is malformed.
            ForeignStore: The container holds something else.
            StoreUnavailable: It cannot be reached or made.
        """
        self._runtime = runtime
        self._etags: LRU[bytes, str] = LRU(runtime, cost_max=_REMEMBERED_ETAGS)
        account, container, endpoint = _parse_url(url)
        self._service = _connect(account, endpoint, reply_seconds)
        self._container = self._service.get_container_client(container)
        try:
            _read(lambda: _prepare(self._container))
        except BaseException:
            self.close()
            raise

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        found = self._find(partition, key)
        return None if found is None else found[0]

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        condition: dict[str, Any] = {"overwrite": False}
        if stamp is not None:
            etag = self._etags.get(stamp)
            if etag is None:
                found = self._find(partition, key)
                if found is None or found[0].stamp != stamp:
                    return None if found is None else found[0]
                etag = found[1]
            condition = {"overwrite": True, "etag": etag, "match_condition": _IF_SAME}
        metadata, body = _stored(new)
        try:
            written = self._blob(partition, key).upload_blob(body, metadata=metadata, **condition)
        except AzureError as error:
            if _code(error) in _CONDITION_FAILED:
                return self.read(partition, key)
            raise _failure_of_a_write(error) from error
        self._etags.put(new.stamp, written["etag"])
        return new

    def page(
        self, partition: bytes, start: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Cell]], bytes | None]:
        prefix = _encode(partition) + _SEPARATOR
        # A start that is longer than any key lies right behind its first part.
        first = prefix + _encode(start[: self.limits.key_bytes]) if start else None
        pages = self._container.list_blobs(
            name_starts_with=prefix, start_from=first, include=["metadata"], results_per_page=limit
        ).by_page()
        listed: list[tuple[bytes, BlobProperties]] = []
        while not listed:
            page, more = _read(lambda: _next_page(pages))
            keyed = ((_decode(blob.name.removeprefix(prefix)), blob) for blob in page)
            listed = [(key, blob) for key, blob in keyed if key >= start]
            if not more:
                return self._cells(partition, listed), None
        return self._cells(partition, listed), listed[-1][0] + b"\x00"

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        pages = self._container.walk_blobs(
            delimiter=_SEPARATOR, results_per_page=PARTITIONS_PAGE
        ).by_page(cursor.decode() or None)
        page, after = _read(lambda: _next_page(pages))
        names = [_decode(each.name.removesuffix(_SEPARATOR)) for each in page]
        return names, after.encode() if after else None

    def close(self) -> None:
        self._service.close()

    def _blob(self, partition: bytes, key: bytes) -> BlobClient:
        name = f"{_encode(partition)}{_SEPARATOR}{_encode(key)}"
        return self._container.get_blob_client(name)

    def _find(self, partition: bytes, key: bytes) -> tuple[Cell, str] | None:
        """Return what a key holds, and the ETag of that."""
        blob = self._blob(partition, key)
        for _ in range(_CHANGES):
            found = _read(lambda: _properties(blob))
            if found is None:
                return None
            cell, is_large = _parse(found)
            self._etags.put(cell.stamp, found.etag)
            if not is_large:
                return cell, found.etag
            body = _read(partial(_body, blob, found.etag))
            if body is not None:
                return replace(cell, value=body), found.etag
        raise StoreUnavailable("a large value changed again and again while it was read")

    def _cells(
        self, partition: bytes, listed: Iterable[tuple[bytes, BlobProperties]]
    ) -> list[tuple[bytes, Cell]]:
        """Return the cells of blobs that were listed; remove old tombstones among them."""
        cells: dict[bytes, Cell | None] = {}
        large: list[bytes] = []
        old: list[BlobProperties] = []
        for key, blob in listed:
            cells[key], is_large = cell, _ = _parse(blob)
            self._etags.put(cell.stamp, blob.etag)
            if is_large:
                large.append(key)
            elif cell.expires is not None and cell.expires < self._runtime.now():
                old.append(blob)
        bodies = self._runtime.map_parallel(lambda key: self.read(partition, key), large)
        cells.update(zip(large, bodies, strict=True))
        self._runtime.map_parallel(self._remove, old[:REMOVED_AT_ONCE])
        return [(key, cell) for key, cell in cells.items() if cell is not None]

    def _remove(self, blob: BlobProperties) -> None:
        with suppress(AzureError):  # it was written meanwhile, or another page will do it
            self._container.delete_blob(blob.name, etag=blob.etag, match_condition=_IF_SAME)


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
        container.create_container(metadata={_FIELD: _MARK})
        return
    found = container.get_container_properties()
    if found.metadata.get(_FIELD) == _MARK:
        return
    if next(iter(container.list_blob_names(results_per_page=1)), None) is not None:
        raise ForeignStore(
            f"the container {container.container_name} is not empty, and not a store of Lakebed"
        )
    container.set_container_metadata({_FIELD: _MARK})


# Requests and what their failures mean


def _properties(blob: BlobClient) -> BlobProperties | None:
    try:
        return blob.get_blob_properties()
    except ResourceNotFoundError as error:
        # A head of an answer says no more; but a container that is gone is not an absent key.
        if _code(error) == "ContainerNotFound":
            raise
        return None


def _body(blob: BlobClient, etag: str) -> bytes | None:
    """Return the content of a blob; None if it has changed."""
    try:
        return blob.download_blob(etag=etag, match_condition=_IF_SAME).readall()
    except (ResourceModifiedError, ResourceNotFoundError):
        return None


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
    arguments = getattr(error.inner_exception, "args", ())
    reason = getattr(arguments[0], "reason", None) if arguments else None
    return not isinstance(reason, NewConnectionError | ConnectTimeoutError)


def _code(error: AzureError) -> str:
    # The blob library adds this to the class of azure-core: a text, or an enumeration of texts.
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


# Names and cells as Azure holds them


def _encode(data: bytes) -> str:
    return b64encode(data).rstrip(b"=").translate(_TO_ORDERED).decode()


def _decode(text: str) -> bytes:
    return b64decode(text.encode().translate(_FROM_ORDERED) + b"==")


def _stored(cell: Cell) -> tuple[dict[str, str], bytes]:
    """Return the metadata and the body of the blob that holds a cell."""
    value, body, place = cell.value or b"", b"", _Place.METADATA
    if cell.value is None:
        place = _Place.NOWHERE
    elif len(value) > _INLINE_BYTES:
        value, body, place = b"", value, _Place.BODY
    head = _HEAD.pack(cell.version, cell.stamp, place, cell.expires or 0.0)
    return {_FIELD: b64encode(head + value).decode()}, body


def _parse(blob: BlobProperties) -> tuple[Cell, bool]:
    """Return the cell of a blob, and whether its value, which is missing then, is in the body."""
    packed = b64decode(blob.metadata[_FIELD])
    version, stamp, place, expires = _HEAD.unpack_from(packed)
    value = packed[_HEAD.size :] if place == _Place.METADATA else None
    return Cell(Version(version), stamp, value, expires or None), place == _Place.BODY
