"""A store in a table of Amazon DynamoDB, shared by any number of processes and machines.

``dynamodb://table?region=eu-west-1``. A missing table is created (billed by request); a table of
another shape is rejected. Credentials come from AWS's default chain: the environment, a profile,
the role of the machine. ``&endpoint=http://127.0.0.1:8000`` selects a server other than Amazon's.

**Consistency.** Every read is strongly consistent. A *global* table is rejected, unless its
replicas are strongly consistent: otherwise the later of two writes in two regions wins, and a
conditional write in one region may be overwritten from another.

**Delayed writes.** A request may be delayed and applied after its client gave up. So the driver
uses `lakebed.kv.fenced` over DynamoDB's conditional writes of single items. Amazon refuses requests
signed more than 15 minutes ago, and signatures by a clock that is off by more than that. So no
request is applied later than half an hour after a tombstone was written, by any clock. Tombstones
are kept for four hours; then DynamoDB removes them, by its time to live.

**Durability.** DynamoDB acknowledges a write when it is stored in more than one data center. This
is not configurable.

**Limits.** An item has at most 400 KB, a partition 2,048 bytes and a key 1,024. Uploads of objects
with longer names are rejected.
"""

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoRegionError,
)

from lakebed.base.runtime import Runtime
from lakebed.kv.errors import (
    ForeignStore,
    InvalidArgument,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnreachable,
    UnsafeStore,
)
from lakebed.kv.fenced import Cell, CellDatabase, CellPage, FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.store import Limits, Store, Version
from lakebed.kv.urls import split_url

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_dynamodb.literals import KeyTypeType, ScalarAttributeTypeType
    from types_boto3_dynamodb.type_defs import (
        AttributeValueTypeDef,
        PutItemInputTypeDef,
        ScanInputTypeDef,
        TableDescriptionTypeDef,
        UniversalAttributeValueTypeDef,
    )

ResultT = TypeVar("ResultT")

CONNECT_SECONDS: Final = 1.0
REPLY_SECONDS: Final = 5.0
CREATE_SECONDS: Final = 120.0
TOMBSTONE_SECONDS: Final = 4 * 3600.0
CONNECTIONS: Final = 64

# Attribute names, short because every item contains them.
_PARTITION: Final = "p"
_KEY: Final = "k"
_VALUE: Final = "v"
_VERSION: Final = "w"
_STAMP: Final = "s"
_EXPIRES: Final = "x"
"""When DynamoDB may remove a tombstone, in seconds since 1970. Set on tombstones only."""

_KEY_SCHEMA: Final[tuple[tuple[str, "KeyTypeType", "ScalarAttributeTypeType"], ...]] = (
    (_PARTITION, "HASH", "B"),
    (_KEY, "RANGE", "B"),
)
_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_OPTIONS: Final = frozenset({"region", "endpoint"})
_EXAMPLE: Final = "dynamodb://table?region=eu-west-1"
_SERVER_ERROR: Final = 500
_LENGTH_BYTES: Final = 2
"""Before the partition in the cursor of a listing."""

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a DynamoDB table; see `lakebed.kv.open_store`."""
    return FencedStore(DynamoDBCells(url, runtime), runtime)


class DynamoDBCells(CellDatabase):
    """The items of a table."""

    name = "dynamodb"
    limits = Limits(partition_bytes=2048, key_bytes=1024, value_bytes=400_000)
    shared_between_processes = True
    tombstone_seconds = TOMBSTONE_SECONDS

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        """Connect, and create the table if missing. Raises as `lakebed.kv.open_store`."""
        self._runtime = runtime
        self._table, options = _parse_url(url)
        self._client = _connect(options, reply_seconds)
        with closing_on_error(self.close):
            self._prepare()

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        reply = _read(
            lambda: self._client.get_item(
                TableName=self._table, Key=_key(partition, key), ConsistentRead=True
            )
        )
        item = reply.get("Item")
        return None if item is None else _cell(item)

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        request: PutItemInputTypeDef = {
            "TableName": self._table,
            "Item": _key(partition, key) | _attributes(new),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            "ConditionExpression": f"attribute_not_exists({_STAMP})",
        }
        if stamp is not None:
            request["ConditionExpression"] = f"{_STAMP} = :stamp"
            request["ExpressionAttributeValues"] = {":stamp": {"B": stamp}}
        try:
            self._client.put_item(**request)
        except ClientError as error:
            if _code(error) == "ConditionalCheckFailedException":
                item = error.response.get("Item")  # missing in botocore's types
                return _cell(item) if item and isinstance(item, dict) else None
            raise _failure_of_a_write(error) from error
        except BotoCoreError as error:
            raise _failure_of_a_write(error) from error
        return new

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        condition, values = f"{_PARTITION} = :partition", {":partition": {"B": partition}}
        if start:
            # A start longer than any key sorts right after its truncation.
            cut = start[: self.limits.key_bytes]
            condition += f" AND {_KEY} {'>=' if cut == start else '>'} :start"
            values[":start"] = {"B": cut}
        reply = _read(
            lambda: self._client.query(
                TableName=self._table,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                ConsistentRead=True,
                Limit=limit,
            )
        )
        cells = [(_bytes(item, _KEY), _cell(item)) for item in reply["Items"]]
        last = reply.get("LastEvaluatedKey")
        return cells, None if not last else _bytes(last, _KEY) + b"\x00"

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        # Full scan: the service has no list of partitions.
        request: ScanInputTypeDef = {
            "TableName": self._table,
            "ProjectionExpression": _PARTITION,
            "FilterExpression": f"attribute_exists({_VALUE})",
            "ConsistentRead": True,
        }
        if cursor:
            length = int.from_bytes(cursor[:_LENGTH_BYTES], "big") + _LENGTH_BYTES
            request["ExclusiveStartKey"] = _key(cursor[_LENGTH_BYTES:length], cursor[length:])
        reply = _read(lambda: self._client.scan(**request))
        last = reply.get("LastEvaluatedKey")
        page = list({_bytes(item, _PARTITION) for item in reply["Items"]})
        if not last:
            return page, None
        partition = _bytes(last, _PARTITION)
        return page, len(partition).to_bytes(_LENGTH_BYTES, "big") + partition + _bytes(last, _KEY)

    def close(self) -> None:
        self._client.close()

    def _prepare(self) -> None:
        table = self._describe()
        if table is None:
            self._create()
            table = self._describe_when_active()
        elif table["TableStatus"] == "CREATING":
            table = self._describe_when_active()
        _check_table(table)
        self._expire_tombstones()

    def _describe(self) -> "TableDescriptionTypeDef | None":
        try:
            reply = _read(lambda: self._client.describe_table(TableName=self._table))
        except StoreUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, ClientError) and _code(cause) == "ResourceNotFoundException":
                return None
            raise
        return reply["Table"]

    def _create(self) -> None:
        try:
            self._client.create_table(
                TableName=self._table,
                KeySchema=[{"AttributeName": a, "KeyType": role} for a, role, _ in _KEY_SCHEMA],
                AttributeDefinitions=[
                    {"AttributeName": a, "AttributeType": kind} for a, _, kind in _KEY_SCHEMA
                ],
                BillingMode="PAY_PER_REQUEST",
            )
            _LOGGER.info("created the table %s", self._table)
        except ClientError as error:
            if _code(error) != "ResourceInUseException":  # another process was first
                raise StoreUnavailable(f"cannot create the table {self._table}: {error}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"cannot create the table {self._table}: {error}") from error

    def _describe_when_active(self) -> "TableDescriptionTypeDef":
        give_up_at = self._runtime.monotonic() + CREATE_SECONDS
        while True:
            table = self._describe()
            if table is not None and table["TableStatus"] != "CREATING":
                return table
            if self._runtime.monotonic() >= give_up_at:
                raise StoreUnavailable(
                    f"the table {self._table} is not ready after {CREATE_SECONDS:.0f} s"
                )
            self._runtime.sleep(0.5)

    def _expire_tombstones(self) -> None:
        """Enable the expiry of tombstones; on failure they remain, which only costs space."""
        try:
            reply = self._client.describe_time_to_live(TableName=self._table)
            if reply["TimeToLiveDescription"].get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}:
                return
            self._client.update_time_to_live(
                TableName=self._table,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": _EXPIRES},
            )
        except (ClientError, BotoCoreError) as error:
            _LOGGER.warning(
                "tombstones will remain in the table %s: enable its time to live on the attribute"
                " %s (%s)",
                self._table,
                _EXPIRES,
                error,
            )


def _parse_url(url: str) -> tuple[str, dict[str, str]]:
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    if not _TABLE_NAME.fullmatch(parts.netloc) or parts.path.strip("/"):
        # Do not quote the URL: it may contain credentials.
        raise InvalidArgument(
            f"the URL does not name a table: use {_EXAMPLE} (3 to 255 letters, digits, and _ . -);"
            " credentials come from the environment"
        )
    return parts.netloc, options


def _connect(options: Mapping[str, str], reply_seconds: float) -> "DynamoDBClient":
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=reply_seconds,
        # A retry inside the library could be applied twice, the second time unfenced.
        retries={"total_max_attempts": 1},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
        parameter_validation=False,
    )
    try:
        return boto3.session.Session().client(
            "dynamodb",
            region_name=options.get("region"),
            endpoint_url=options.get("endpoint"),
            config=config,
        )
    except NoRegionError as error:
        raise InvalidArgument(
            f"a dynamodb URL needs a region: use {_EXAMPLE}, or set AWS_DEFAULT_REGION"
        ) from error
    except (BotoCoreError, ValueError) as error:
        raise InvalidArgument(f"cannot use this dynamodb URL: {error}") from error


def _check_table(table: "TableDescriptionTypeDef") -> None:
    """Reject a foreign table, or a global table without strong consistency."""
    kinds = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    found = tuple(
        (each["AttributeName"], each["KeyType"], kinds.get(each["AttributeName"]))
        for each in table["KeySchema"]
    )
    name = table["TableName"]
    if found != _KEY_SCHEMA:
        shown = ", ".join(f"{attribute} ({role}, {kind})" for attribute, role, kind in found)
        raise ForeignStore(f"the table {name} is not a Lakebed store: its key is {shown}")
    if table.get("Replicas") and table.get("MultiRegionConsistency") != "STRONG":
        raise UnsafeStore(
            f"the table {name} is a global table with eventual consistency, in which concurrent"
            " writes overwrite each other: use a table of one region, or strong consistency"
        )


def _read(call: Callable[[], ResultT]) -> ResultT:
    try:
        return call()
    except (EndpointConnectionError, ConnectTimeoutError) as error:
        raise StoreUnreachable(f"cannot reach dynamodb: {error}") from error
    except (ClientError, BotoCoreError) as error:
        raise StoreUnavailable(f"dynamodb did not answer: {error}") from error


def _failure_of_a_write(error: ClientError | BotoCoreError) -> OutcomeUnknown:
    """Return the exception for a failed write: refused, never sent, or of unknown outcome."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", _SERVER_ERROR)
        if status < _SERVER_ERROR:
            return StoreUnavailable(f"dynamodb refused the write: {error}")
        return OutcomeUnknown(f"dynamodb failed during a write: {error}")
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        return StoreUnreachable(f"cannot reach dynamodb: {error}")
    if isinstance(error, HTTPClientError):
        return OutcomeUnknown(f"the outcome of a write to dynamodb is unknown: {error}")
    # Never sent: the credentials are missing or unusable.
    return StoreUnavailable(f"cannot send the request to dynamodb: {error}")


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _key(partition: bytes, key: bytes) -> "dict[str, UniversalAttributeValueTypeDef]":
    return {_PARTITION: {"B": partition}, _KEY: {"B": key}}


def _attributes(cell: Cell) -> "dict[str, UniversalAttributeValueTypeDef]":
    attributes: dict[str, UniversalAttributeValueTypeDef] = {
        _VERSION: {"B": cell.version},
        _STAMP: {"B": cell.stamp},
    }
    if cell.value is not None:
        attributes[_VALUE] = {"B": cell.value}
    if cell.expires is not None:
        attributes[_EXPIRES] = {"N": str(int(cell.expires))}
    return attributes


def _cell(item: "Mapping[str, AttributeValueTypeDef]") -> Cell:
    value = item.get(_VALUE)
    expires = item.get(_EXPIRES)
    return Cell(
        Version(_bytes(item, _VERSION)),
        _bytes(item, _STAMP),
        None if value is None else value["B"],
        None if expires is None else float(expires["N"]),
    )


def _bytes(item: "Mapping[str, AttributeValueTypeDef]", attribute: str) -> bytes:
    found: bytes = item[attribute]["B"]
    return found
