"""A store in a container of Azure Cosmos DB, shared by any number of processes and machines.

``cosmos://account/database/container``. A missing database or container is created; a container of
another shape is rejected. The account key is read from ``AZURE_COSMOS_KEY``; without it,
credentials come from Azure's default credential chain. ``?endpoint=http://host:8081`` selects a
server other than Azure's.

A record is an item. Its ``id`` is the key in hexadecimal: an id is text without slashes.

**Consistency.** The account must have the consistency level *Strong*; accounts with weaker levels
are rejected, since a read could miss a write. Such an account writes in one region, and all
requests go there.

**Delayed writes.** A request may be delayed and applied after its client gave up. So the driver
uses `lakebed.kv.fenced` over conditional replacements of single items. Azure refuses signatures
older than 15 minutes, and tokens are valid for about a day at most. Tombstones are kept for a week;
then Cosmos DB removes them, by the item's time to live.

**Durability.** At this level a write is acknowledged when a majority of replicas has it, in all
regions. A container that expires items by default is rejected.

**Limits.** An id has at most 1,023 bytes. So uploads of objects with names longer than about 500
bytes are rejected. An item has at most 2 MB, and a partition, such as the staged changes of a
branch, 20 GB.
"""

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final, cast

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.core.paging import PageIterator
from azure.core.pipeline.transport import RequestsTransport
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)
from azure.identity import DefaultAzureCredential
from requests import Session
from requests.adapters import HTTPAdapter

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import Failures
from lakebed.kv.drivers.requests_errors import failed_to_connect
from lakebed.kv.errors import ForeignStore, InvalidArgument, UnsafeStore
from lakebed.kv.fenced import Cell, CellPage, FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.objects import ETagCells
from lakebed.kv.store import PARTITIONS_PAGE, Limits, Store, Version
from lakebed.kv.urls import split_url

CosmosItem = Mapping[str, Any]

CONNECT_SECONDS: Final = 1.0
REPLY_SECONDS: Final = 5.0
CONNECTIONS: Final = 64
TOMBSTONE_SECONDS: Final = 7 * 24 * 3600.0
KEY_VARIABLE: Final = "AZURE_COSMOS_KEY"

# Field names, short because every item contains them.
_PARTITION: Final = "p"
_VALUE: Final = "v"
_VERSION: Final = "w"
_STAMP: Final = "s"
_NO_DEFAULT: Final = -1
"""The container's time to live that enables expiry per item only."""

_PAGE: Final = "SELECT TOP @limit * FROM c WHERE c.p = @partition AND c.id >= @start ORDER BY c.id"
_ACCOUNT: Final = re.compile(r"[a-z0-9-]{3,44}")
_NAMES: Final = re.compile(r"([A-Za-z0-9_.-]{1,255})/([A-Za-z0-9_.-]{1,255})")
_EXAMPLE: Final = "cosmos://account/database/container"
_TIMED_OUT: Final = 408
_SERVER_ERROR: Final = 500


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a container; see `lakebed.kv.open_store`."""
    return FencedStore(CosmosCells(url, runtime), runtime)


class CosmosCells(ETagCells):
    """The items of a container."""

    name = "cosmos"
    limits = Limits(partition_bytes=512, key_bytes=511, value_bytes=1 << 20)
    shared_between_processes = True
    tombstone_seconds = TOMBSTONE_SECONDS

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        """Create the database and container if missing. Raises as `lakebed.kv.open_store`."""
        super().__init__(runtime)
        endpoint, database, container = _parse_url(url)
        self._session = Session()
        with closing_on_error(self.close):
            client = _FAILURES.read(lambda: _connect(endpoint, self._session, reply_seconds))
            check_account(_FAILURES.read(client.get_database_account).ConsistencyPolicy)
            self._container = _FAILURES.read(lambda: _prepare(client, database, container))
            check_container(_FAILURES.read(self._container.read))

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        parameters: list[dict[str, object]] = [
            {"name": "@limit", "value": limit},
            {"name": "@partition", "value": partition.hex()},
            {"name": "@start", "value": start.hex()},
        ]
        items = _FAILURES.read(
            lambda: list(
                self._container.query_items(
                    _PAGE, parameters=parameters, partition_key=partition.hex()
                )
            )
        )
        cells: list[tuple[bytes, Cell]] = []
        for item in items:
            cell = _cell(item)
            self._remember(cell, item["_etag"])
            cells.append((bytes.fromhex(item["id"]), cell))
        # Continue by key: continuation tokens of the service may repeat items.
        return cells, cells[-1][0] + b"\x00" if len(cells) == limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        # Full scan: the service has no list of partitions.
        def ask() -> tuple[set[str], str | None]:
            items = self._container.read_all_items(max_item_count=PARTITIONS_PAGE)
            pages = cast("PageIterator[dict[str, str]]", items.by_page(cursor.decode() or None))
            found = {item[_PARTITION] for item in next(pages, ())}
            return found, pages.continuation_token

        found, token = _FAILURES.read(ask)
        return [bytes.fromhex(each) for each in found], token.encode() if token else None

    def close(self) -> None:
        self._session.close()

    def _find(self, partition: bytes, key: bytes) -> tuple[Cell, str] | None:
        def ask() -> CosmosItem | None:
            try:
                return self._container.read_item(key.hex(), partition.hex())
            except CosmosResourceNotFoundError as error:
                if error.sub_status:
                    raise  # a deleted container must not look like a missing key
                return None

        item = _FAILURES.read(ask)
        return None if item is None else (_cell(item), item["_etag"])

    def _write(self, partition: bytes, key: bytes, etag: str | None, new: Cell) -> str | None:
        item = {"id": key.hex(), _PARTITION: partition.hex()} | _fields(new)
        try:
            if etag is None:
                written = self._container.create_item(item)
            else:
                written = self._container.replace_item(
                    key.hex(), item, etag=etag, match_condition=MatchConditions.IfNotModified
                )
        except (
            CosmosAccessConditionFailedError,
            CosmosResourceExistsError,
            CosmosResourceNotFoundError,
        ) as error:
            if etag is None and isinstance(error, CosmosResourceNotFoundError):
                raise _FAILURES.of_write(error) from error  # the container was deleted
            return None
        except AzureError as error:
            raise _FAILURES.of_write(error) from error
        return cast("str", written["_etag"])


def check_account(policy: Mapping[str, object] | None) -> None:
    """Reject an account without strong consistency."""
    level = (policy or {}).get("defaultConsistencyLevel", "unknown")
    if level != "Strong":
        raise UnsafeStore(
            f"the consistency level of the account is {level} and must be Strong: otherwise a read"
            " may miss a write"
        )


def check_container(found: CosmosItem) -> None:
    """Reject a container that is not Lakebed's, or would lose records."""
    paths = found.get("partitionKey", {}).get("paths", [])
    if paths != [f"/{_PARTITION}"]:
        raise ForeignStore(
            f"the container {found['id']} is not a Lakebed store: its partition key is"
            f" {', '.join(paths)}"
        )
    if found.get("defaultTtl") != _NO_DEFAULT:
        raise UnsafeStore(
            f"the time to live of the container {found['id']} is {found.get('defaultTtl', 'off')},"
            " and must be on without a default (-1), so that only tombstones expire"
        )


def _parse_url(url: str) -> tuple[str, str, str]:
    """Return the endpoint, the database and the container."""
    parts, options = split_url(url, options={"endpoint"}, example=_EXAMPLE)
    account, names = parts.netloc, _NAMES.fullmatch(parts.path.strip("/"))
    if names is None or not _ACCOUNT.fullmatch(account):
        # Do not quote the URL: it may contain credentials.
        raise InvalidArgument(
            f"the URL does not name an account, a database and a container: use {_EXAMPLE}; the"
            f" key comes from {KEY_VARIABLE}"
        )
    endpoint = options.get("endpoint", f"https://{account}.documents.azure.com:443/")
    return endpoint, names[1], names[2]


def _connect(endpoint: str, session: Session, reply_seconds: float) -> CosmosClient:
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=CONNECTIONS))
    try:
        return CosmosClient(
            endpoint,
            os.environ.get(KEY_VARIABLE) or DefaultAzureCredential(),
            transport=RequestsTransport(session=session, session_owner=False),
            connection_timeout=CONNECT_SECONDS,
            read_timeout=reply_seconds,
            # A retry inside the library could be applied twice, the second time unfenced. Endpoint
            # discovery is off: all requests go to the write region.
            retry_total=0,
            retry_connect=0,
            retry_read=0,
            enable_endpoint_discovery=False,
        )
    except ValueError as error:
        raise InvalidArgument(f"cannot use this cosmos URL: {error}") from error


def _prepare(client: CosmosClient, database: str, container: str) -> ContainerProxy:
    """Return the container; create it if missing. Reading first needs fewer permissions."""
    found = client.get_database_client(database).get_container_client(container)
    try:
        found.read()
    except CosmosResourceNotFoundError:
        made = client.create_database_if_not_exists(database)
        return made.create_container_if_not_exists(
            container,
            PartitionKey(f"/{_PARTITION}"),
            # Index queried fields only: an index costs with every write.
            indexing_policy={
                "includedPaths": [{"path": "/id/?"}, {"path": f"/{_PARTITION}/?"}],
                "excludedPaths": [{"path": "/*"}],
            },
            default_ttl=_NO_DEFAULT,
        )
    return found


def _was_refused(error: AzureError) -> bool:
    status = (error.status_code or 0) if isinstance(error, CosmosHttpResponseError) else 0
    return 0 < status < _SERVER_ERROR and status != _TIMED_OUT


def _was_not_sent(error: AzureError) -> bool:
    return isinstance(error, ClientAuthenticationError) or failed_to_connect(error.inner_exception)


_FAILURES: Final = Failures(
    "Cosmos DB", (AzureError,), was_refused=_was_refused, was_not_sent=_was_not_sent
)


def _fields(cell: Cell) -> dict[str, object]:
    fields: dict[str, object] = {_VERSION: cell.version.hex(), _STAMP: cell.stamp.hex()}
    if cell.value is None:
        return fields | {"ttl": int(TOMBSTONE_SECONDS)}
    return fields | {_VALUE: b64encode(cell.value).decode()}


def _cell(item: CosmosItem) -> Cell:
    value = item.get(_VALUE)
    return Cell(
        Version(bytes.fromhex(item[_VERSION])),
        bytes.fromhex(item[_STAMP]),
        None if value is None else b64decode(value),
    )
