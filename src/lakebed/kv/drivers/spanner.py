"""A store in a database of Google Spanner: **experimental**.

``spanner://project/instance/database``. The database must exist, and use GoogleSQL; a missing table
``lakebed`` is created, and a table of another shape rejected. Credentials come from Google's
default credentials. ``?emulator=127.0.0.1:9010`` selects a server other than Google's.

Experimental because it was never run against Spanner itself. It is tested with an in-memory server
of Google's own, which speaks the protocol and parses the SQL, but does not isolate transactions.

**Delayed writes.** A write is a transaction of two requests: a statement that changes the row if it
has the expected stamp, and the commit. Either may be delayed and applied after its client gave up,
so the driver uses `lakebed.kv.fenced`. This is exact and needs no clock, since transactions are
serializable: a lost commit after a touch has read an outdated stamp, so Spanner aborts it. If
either request gets no reply, the write counts as still pending. Tombstones are kept for a day; then
Spanner removes them, by the row deletion policy of the table. Long before, it aborts the
transaction of a lost commit.

**Consistency.** Reads are strong: they see every acknowledged write.

**Durability.** Spanner acknowledges a commit when a majority of the replicas has stored it. This is
not configurable; the table and its policy are checked at opening.

**Limits.** A key has at most 8 KiB, a cell 10 MiB, and a request other than a commit 10 MB, in
which base 64 adds a third to a value. The test server accepts 4 MiB, so values have at most 2 MiB.
A write counts as 6 of the 80,000 mutations of a commit.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

from google.api_core.exceptions import Aborted, AlreadyExists, NotFound
from google.cloud.spanner_admin_database_v1 import DatabaseAdminClient
from google.cloud.spanner_v1 import SpannerClient
from google.cloud.spanner_v1.types import CommitResponse, PartialResultSet, ResultSet

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.google_rpc import Connection
from lakebed.kv.errors import (
    ForeignStore,
    InvalidArgument,
    OutcomeUnknown,
    StoreUnavailable,
    UnsafeStore,
)
from lakebed.kv.fenced import Cell, CellDatabase, CellPage, FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.store import PARTITIONS_PAGE, Limits, Store, Version
from lakebed.kv.urls import split_url

REPLY_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.2
TOMBSTONE_SECONDS: Final = 24 * 3600.0

TABLE: Final = "lakebed"
_POLICY: Final = "ROW DELETION POLICY (OLDER_THAN(e, INTERVAL 0 DAY))"
# Partition, key, version, stamp, value, and expiry time of a tombstone. Partition and key are
# longer than the limits, because a scan may begin right after a key.
_KEY: Final = "PRIMARY KEY (p, k)"
_COLUMNS: Final = (
    "p BYTES(2048) NOT NULL",
    "k BYTES(5120) NOT NULL",
    "w BYTES(16) NOT NULL",
    "s BYTES(16) NOT NULL",
    "v BYTES(MAX)",
    "e TIMESTAMP",
)
CREATE_TABLE: Final = f"CREATE TABLE {TABLE} ({', '.join(_COLUMNS)}) {_KEY}, {_POLICY}"
_INSERT: Final = "INSERT INTO lakebed (p, k, w, s, v, e) VALUES (@p, @k, @w, @s, @v, @e)"
_UPDATE: Final = (
    "UPDATE lakebed SET w = @w, s = @s, v = @v, e = @e WHERE p = @p AND k = @k AND s = @old"
)
_READ: Final = ("k", "w", "s", "v")
_STRONG: Final = {"single_use": {"read_only": {"strong": True}}}
_BEGIN: Final = {"begin": {"read_write": {}, "isolation_level": "SERIALIZABLE"}}
_COMMITS: Final = 10
"""How often Spanner may request a repeated commit."""
_BYTES: Final = {"code": "BYTES"}
_TYPES: Final = dict.fromkeys(("p", "k", "w", "s", "v", "old"), _BYTES) | {
    "e": {"code": "TIMESTAMP"}
}

_EXAMPLE: Final = "spanner://project/instance/database"
_NAMES: Final = re.compile(r"([A-Za-z0-9_.:-]+)/([A-Za-z0-9_.:-]+)/([A-Za-z0-9_.:-]+)")


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a Spanner database; see `lakebed.kv.open_store`."""
    return FencedStore(SpannerCells(url, runtime), runtime)


class SpannerCells(CellDatabase):
    """The rows of a table. Raises as `lakebed.kv.open_store`."""

    name = "spanner"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=2 << 20)
    shared_between_processes = True
    tombstone_seconds = TOMBSTONE_SECONDS

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        self._database, emulator = _parse_url(url)
        self._session: str | None = None
        self._options: dict[str, object] = {
            "metadata": (("google-cloud-resource-prefix", self._database),),
            # A retry inside the library could be applied twice.
            "retry": None,
            "timeout": reply_seconds,
        }
        self._connection = Connection(SpannerClient, emulator=emulator, database=self.name)
        admin = Connection(DatabaseAdminClient, emulator=emulator, database=self.name)
        with closing(admin), closing_on_error(self.close):
            _prepare(admin, self._database, runtime)

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        rows = self._rows({"keys": [_names(partition, key)]}, 1, _READ)
        return _cell(rows[0]) if rows else None

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        expires = None if new.expires is None else datetime.fromtimestamp(new.expires, UTC)
        parameters = {
            "p": _text(partition),
            "k": _text(key),
            "w": _text(new.version),
            "s": _text(new.stamp),
            "v": None if new.value is None else _text(new.value),
            "e": None if expires is None else expires.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        if stamp is None:
            begun = self._begin(_INSERT, parameters)
        else:
            begun = self._begin(_UPDATE, parameters | {"old": _text(stamp)})
        if begun is None:
            return self.read(partition, key)
        transaction: bytes = begun.metadata.transaction.id
        if begun.stats.row_count_exact != 1:
            self._roll_back(transaction)
            return self.read(partition, key)
        self._commit(transaction, begun)
        return new

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        bounds = {"start_closed": _names(partition, start), "end_closed": _names(partition)}
        rows = self._rows({"ranges": [bounds]}, limit, _READ)
        cells = [(_bytes(row[0]), _cell(row)) for row in rows]
        return cells, cells[-1][0] + b"\x00" if len(cells) == limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        # Skip scan: the first row gives the partition; the next partition begins after its rows.
        found: list[bytes] = []
        while len(found) < PARTITIONS_PAGE:
            first = _names(cursor + b"\x00") if cursor else []
            rows = self._rows({"ranges": [{"start_closed": first, "end_closed": []}]}, 1, ("p",))
            if not rows:
                return found, None
            cursor = _bytes(rows[0][0])
            found.append(cursor)
        return found, cursor

    def close(self) -> None:
        # The session expires by itself.
        self._connection.close()

    def _begin(self, statement: str, parameters: Mapping[str, str | None]) -> ResultSet | None:
        """Begin a transaction with a statement; return None if the row to insert already exists."""

        def ask(client: SpannerClient) -> ResultSet | None:
            request = {
                "session": self._session_of(client),
                "transaction": _BEGIN,
                "sql": statement,
                "params": parameters,
                "param_types": {name: _TYPES[name] for name in parameters},
                "seqno": 1,
            }
            with suppress(AlreadyExists), self._refusals():
                return client.execute_sql(request, **self._options)
            return None

        return self._connection.write(ask)

    def _commit(self, transaction: bytes, reply: ResultSet) -> None:
        """Commit, with the precommit token of the previous reply."""

        def ask(client: SpannerClient) -> CommitResponse:
            request: dict[str, object] = {
                "session": self._session_of(client),
                "transaction_id": transaction,
            }
            if "precommit_token" in reply:
                request["precommit_token"] = reply.precommit_token
            with self._refusals():
                return client.commit(request, **self._options)

        for _ in range(_COMMITS):
            reply = self._connection.write(ask)
            if "precommit_token" not in reply:
                return
        raise OutcomeUnknown(f"spanner requested {_COMMITS} repeated commits")

    def _roll_back(self, transaction: bytes) -> None:
        """Release the locks at once; on failure, Spanner releases them some seconds later."""

        def ask(client: SpannerClient) -> None:
            request = {"session": self._session_of(client), "transaction_id": transaction}
            client.rollback(request, **self._options)

        with suppress(OutcomeUnknown):
            self._connection.write(ask)

    def _rows(
        self, selector: Mapping[str, object], limit: int, columns: Sequence[str]
    ) -> list[Sequence[str | None]]:
        def ask(client: SpannerClient) -> list[Sequence[str | None]]:
            request = {
                "session": self._session_of(client),
                "transaction": _STRONG,
                "table": TABLE,
                "columns": columns,
                "key_set": selector,
                "limit": limit,
            }
            with self._refusals():
                replies = client.streaming_read(request, **self._options)
                return list(zip(*[_merge(replies)] * len(columns), strict=True))

        return self._connection.read(ask)

    def _session_of(self, client: SpannerClient) -> str:
        """Return the session of all calls; create one if necessary."""
        session = self._session
        if session is None:
            request = {"database": self._database, "session": {"multiplexed": True}}
            session = self._session = client.create_session(request, **self._options).name
        return session

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Convert aborts, and forget an expired session."""
        try:
            yield
        except Aborted as error:
            raise StoreUnavailable(f"spanner aborted a transaction: {error}") from error
        except NotFound:
            self._session = None  # sessions may expire
            raise


def _prepare(admin: Connection[DatabaseAdminClient], database: str, runtime: Runtime) -> None:
    """Create the table if missing; reject a foreign or unsafe table."""
    once: dict[str, object] = {"retry": None, "timeout": OPEN_SECONDS}

    def describe(client: DatabaseAdminClient) -> str | None:
        statements = client.get_database_ddl({"database": database}, **once).statements
        start = _normalize(f"CREATE TABLE {TABLE} (")
        return next((each for each in statements if _normalize(each).startswith(start)), None)

    def create(client: DatabaseAdminClient) -> str:
        request = {"database": database, "statements": [CREATE_TABLE]}
        operation = client.update_database_ddl(request, **once).operation
        give_up_at = runtime.monotonic() + OPEN_SECONDS
        while not operation.done and runtime.monotonic() < give_up_at:
            runtime.sleep(PAUSE_SECONDS)
            operation = client.get_operation({"name": operation.name}, **once)
        return operation.error.message or f"not ready after {OPEN_SECONDS:g} s"

    table = admin.read(describe)
    if table is None:
        try:
            # As a read: a second request is harmless.
            reason = admin.read(create)
        except StoreUnavailable as error:
            reason = str(error)
        # Even after a failure: another process may have been first.
        table = admin.read(describe)
        if table is None:
            raise StoreUnavailable(
                f"cannot create the table {TABLE} (the database must use GoogleSQL): {reason}"
            )
    check_table(table)


def check_table(statement: str) -> None:
    """Reject a table whose CREATE statement is not Lakebed's, or would lose records."""
    found = _normalize(statement)
    missing = [each for each in (*_COLUMNS, _KEY) if _normalize(each) not in found]
    if missing:
        raise ForeignStore(
            f"the table {TABLE} is not a Lakebed store, or of another version: it lacks"
            f" {' and '.join(missing)}"
        )
    # Without a policy tombstones are kept forever, which is harmless.
    if _normalize("ROW DELETION POLICY") in found and _normalize(_POLICY) not in found:
        raise UnsafeStore(
            f"the table {TABLE} may lose records: its row deletion policy must be {_POLICY}"
        )


def _normalize(statement: str) -> str:
    """Normalize a statement for comparison."""
    return re.sub(r"[\s`]", "", statement).upper()


def _parse_url(url: str) -> tuple[str, str | None]:
    """Return the full name of the database, and the address of an emulator or None."""
    parts, options = split_url(url, options={"emulator"}, example=_EXAMPLE)
    names = _NAMES.fullmatch(parts.netloc + parts.path.rstrip("/"))
    if names is None:
        # Do not quote the URL: it may contain credentials.
        raise InvalidArgument(
            f"the URL does not name a database: use {_EXAMPLE}; credentials come from the"
            " environment"
        )
    project, instance, database = names.groups()
    name = f"projects/{project}/instances/{instance}/databases/{database}"
    return name, options.get("emulator")


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str | None) -> bytes:
    return b64decode(text or "")


def _names(*parts: bytes) -> list[str]:
    return [_text(part) for part in parts]


def _cell(row: Sequence[str | None]) -> Cell:
    _, version, stamp, value = row
    return Cell(Version(_bytes(version)), _bytes(stamp), None if value is None else _bytes(value))


def _merge(replies: Iterable[PartialResultSet]) -> Iterator[str | None]:
    """Yield the values of all rows; a large value spans several replies."""
    piece = ""
    for reply in replies:
        message = reply._pb  # noqa: SLF001 - the wrapper takes ten times as long
        values = [
            None if value.HasField("null_value") else value.string_value for value in message.values
        ]
        if values and piece:
            values[0] = piece + (values[0] or "")
            piece = ""
        if message.chunked_value:
            piece = values.pop() or ""
        yield from values
