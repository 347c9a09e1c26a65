"""The calls of the interface as statements, and the interpretation of their errors."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq.abc import PGresult

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import check_durable
from lakebed.kv.drivers.postgresql import statements, wire
from lakebed.kv.drivers.postgresql.batches import BATCHED_BYTES, Place, PostgresWrite, choose
from lakebed.kv.drivers.postgresql.link import (
    PostgresLink,
    PostgresTimeouts,
    Query,
    Replies,
    explain,
)
from lakebed.kv.errors import (
    ForeignStore,
    InvalidArgument,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
)
from lakebed.kv.group_commit import Batch, GroupCommit
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.pool import POOL_SIZE, Pool
from lakebed.kv.store import (
    ABSENT,
    ANY,
    EXISTS,
    PARTITIONS_PAGE,
    VERSION_BYTES,
    DeletePredicate,
    Item,
    Limits,
    Put,
    Store,
    Version,
    applied_before,
    check_deletable,
    check_predicate,
    new_version,
)
from lakebed.kv.urls import is_on, pool_size, take_options

OPEN_SECONDS: Final = 30.0
RECONNECT_SECONDS: Final = 0.1
CHUNK_KEYS: Final = 1000
CHUNK_BYTES: Final = 8 << 20
DISK_FULL: Final = "53100"
_OPTIONS: Final = frozenset({"pool_size", "durable"})
_DURABLE: Final = MappingProxyType({"fsync": "on", "full_page_writes": "on"})

# For each kind of write, the statements for a single row and for many rows.
_Statements = tuple[LiteralString, LiteralString]
SET: Final[_Statements] = (statements.SET, statements.SET_MANY)
CREATE: Final[_Statements] = (statements.SET_IF_ABSENT, statements.CREATE_MANY)
SWAP: Final[_Statements] = (statements.SET_IF_VERSION, statements.SWAP_MANY)

_BATCHES_MAX: Final = 2
WINDOW_SECONDS: Final = 0.0003
"""How long a leader waits for more writes if the last batch had several."""

_Group = tuple[GroupCommit[PostgresWrite], _Statements]

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a PostgreSQL database; see `lakebed.kv.open_store`."""
    return PostgreSQLStore(url, runtime)


class PostgreSQLStore(Store):
    """A table in a PostgreSQL database."""

    name = "postgresql"
    # Partition and key share an index entry of at most 2,704 bytes.
    limits = Limits(partition_bytes=512, key_bytes=2048, value_bytes=16 << 20)
    shared_between_processes = True

    def __init__(
        self, url: str, runtime: Runtime, *, timeouts: PostgresTimeouts | None = None
    ) -> None:
        """Connect, and create the table if missing. Raises as `lakebed.kv.open_store`."""
        self._runtime = runtime
        self._timeouts = timeouts or PostgresTimeouts()
        conninfo, size, trusted = _parse_url(url)
        self._connect = partial(PostgresLink.connect, conninfo, self._timeouts, runtime)
        self._pool = Pool(self._connect, size, database="postgresql", explain=explain)
        self._sets = self._group(SET)
        self._creations = self._group(CREATE)
        self._swaps = self._group(SWAP)
        self._closed = False
        with closing_on_error(self.close):
            self._prepare(trusted=trusted)

    def get(self, partition: bytes, key: bytes) -> Item:
        if self._closed:
            raise StoreClosed
        self.limits.check(partition, key)
        found = self._read(statements.GET, (partition, key))
        if not found.ntuples:
            raise KeyNotFound(partition, key)
        return Item(key, wire.value(found, 0, 0), Version(wire.value(found, 0, 1)))

    def write(self, writes: Sequence[Put], reads: Sequence[Place] = ()) -> list[Item | None]:
        if len(writes) != 1 or len(reads) > statements.FEW_KEYS:
            return super().write(writes, reads)
        self.limits.check_keys(reads)
        write = self._put(writes[0], reads)
        if write.read_error is not None:
            with applied_before(any_step=True):
                raise _no_answer(write.read_error) from write.read_error
        return [write.found[place] for place in reads]

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        self._check(partition, key)
        check_deletable(predicate)
        if isinstance(predicate, bytes):
            if not self._write(statements.DELETE_IF, partition, key, predicate):
                raise PredicateFailed(partition, key)
        else:
            self._write(statements.DELETE, partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        most = wire.int8(limit)
        if end is None:
            return wire.items(self._read(statements.SCAN, (partition, start, most)))
        return wire.items(self._read(statements.SCAN_TO, (partition, start, most, end)))

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        if self._closed:
            raise StoreClosed
        found = self._read(statements.PARTITIONS, (cursor, wire.int8(PARTITIONS_PAGE)))
        page = [wire.value(found, row, 0) for row in range(found.ntuples)]
        return page, page[-1] if len(page) == PARTITIONS_PAGE else None

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        if self._closed:
            raise StoreClosed
        self.limits.check_keys(keys)
        items: list[Item | None] = []
        for begin in range(0, len(keys), CHUNK_KEYS):
            items += self._get_chunk(keys[begin : begin + CHUNK_KEYS])
        return items

    def close(self) -> None:
        self._closed = True
        for group, _ in (self._sets, self._creations, self._swaps):
            group.close()
        self._pool.close()

    def _check(self, partition: bytes, key: bytes, value: bytes = b"") -> None:
        if self._closed:
            raise StoreClosed
        self._pool.check_process()
        self.limits.check(partition, key, value)

    def _get_chunk(self, keys: Sequence[Place]) -> list[Item | None]:
        return wire.items_at(keys, self._read(*_read_of(keys)))

    def _set_all(self, writes: Sequence[Put]) -> None:
        applied = False
        for chunk in self._chunks(writes):
            with applied_before(any_step=applied):
                self._set_chunk(chunk)
            applied = True

    def _chunks(self, writes: Sequence[Put]) -> Iterator[dict[Place, Put]]:
        # A statement cannot write a key twice: the last value of a key replaces earlier ones.
        chunk: dict[Place, Put] = {}
        size = 0
        for put in writes:
            self._check(put.partition, put.key, put.value)
            if len(chunk) == CHUNK_KEYS or (chunk and size + len(put.value) > CHUNK_BYTES):
                yield chunk
                chunk, size = {}, 0
            chunk[put.partition, put.key] = put
            size += len(put.value)
        if chunk:
            yield chunk

    def _set_chunk(self, chunk: dict[Place, Put]) -> None:
        # Sorted, so that concurrent writers cannot deadlock.
        puts = [chunk[place] for place in sorted(chunk)]
        versions = self._runtime.random_bytes(VERSION_BYTES * len(puts))
        rows = [
            (
                put.partition,
                put.key,
                put.value,
                put.version or versions[begin : begin + VERSION_BYTES],
            )
            for begin, put in zip(range(0, len(versions), VERSION_BYTES), puts, strict=True)
        ]
        self._write(statements.SET_MANY, *map(wire.array, zip(*rows, strict=True)))

    def _set(self, put: Put) -> None:
        self._put(put)

    def _put(self, put: Put, reads: Sequence[Place] = ()) -> PostgresWrite:
        """Write a value, then read some keys; return the write with the items read."""
        partition, key, value, predicate, version = put
        self._check(partition, key, value)
        check_predicate(predicate)
        version = version or new_version(self._runtime)
        write = PostgresWrite(partition, key, value, version, places=reads)
        if predicate is ANY:
            applied = self._write_in(self._sets, write)
        elif predicate is ABSENT:
            applied = self._write_in(self._creations, write)
        elif predicate is EXISTS:
            row = self._run(Query(statements.SET_IF_EXISTS, write.row), [write])
            applied = row.ntuples > 0
        else:
            write.predicate = predicate
            applied = self._write_in(self._swaps, write)
        if not applied:
            raise PredicateFailed(partition, key)
        return write

    def _group(self, kind: _Statements) -> _Group:
        """Create the queue of a kind of write."""

        def commit(batch: Batch[PostgresWrite]) -> None:
            self._commit(batch.fill(), kind)

        group = GroupCommit(commit, choose, window_seconds=WINDOW_SECONDS, batches_max=_BATCHES_MAX)
        return group, kind

    def _write_in(self, group: _Group, write: PostgresWrite) -> bool:
        """Write in a batch with concurrent writes of its kind; return whether applied."""
        queue, kind = group
        if len(write.value) > BATCHED_BYTES:
            self._commit([write], kind)
        else:
            queue.run(write)
        return write.applied

    def _commit(self, batch: Sequence[PostgresWrite], kind: _Statements) -> Sequence[PostgresWrite]:
        """Commit writes of the same kind; return them with their results."""
        written = self._run(_write_of(batch, *kind), batch)
        versions = {wire.value(written, row, 0) for row in range(written.ntuples)}
        for write in batch:
            write.applied = kind is SET or write.version in versions
        return batch

    def _run(self, query: Query, batch: Sequence[PostgresWrite]) -> PGresult:
        """Write a batch, and distribute the items read after it; raises as `_run_write`."""
        places = list(dict.fromkeys(chain.from_iterable([write.places for write in batch])))
        if not places:
            return self._run_write(query).written
        replies = self._run_write(query, _read_of(places))
        found: dict[Place, Item | None] = {}
        if replies.found is not None:
            found = dict(zip(places, wire.items_at(places, replies.found), strict=True))
        for write in batch:
            write.found, write.read_error = found, replies.error
        return replies.written

    def _prepare(self, *, trusted: bool) -> None:
        link = self._pool.take(OPEN_SECONDS)
        kept: PostgresLink | None = None
        try:
            if not trusted:
                check_settings(link)
            prepare_schema(link)
            kept = link
        except psycopg.Error as error:
            raise StoreUnavailable(f"cannot initialize the database: {explain(error)}") from error
        finally:
            self._pool.give_back(link, kept)

    def _read(self, statement: LiteralString, parameters: Sequence[bytes]) -> PGresult:
        link = self._pool.take()
        kept: PostgresLink | None = None
        try:
            found = link.read(statement, parameters)
            kept = link
        except psycopg.Error as error:
            raise _no_answer(error) from error
        finally:
            self._pool.give_back(link, kept)
        return found

    def _write(self, statement: LiteralString, *parameters: bytes) -> int:
        """Run a write and return the number of changed rows; raises as `_run_write`."""
        replies = self._run_write(Query(statement, parameters))
        return replies.written.command_tuples or 0

    def _run_write(self, write: Query, read: Query | None = None) -> Replies:
        """Run a write, and optionally a read after it, with the deadline as first parameter.

        Raises:
            StoreUnavailable: Nothing was changed, or will be.
            OutcomeUnknown: Rows may have been changed, but will not be changed later.
        """
        link = self._pool.take()
        kept: PostgresLink | None = None
        deadline = link.deadline()
        # Computed after the deadline, so that a pause in between only makes the wait longer.
        settled_at = self._runtime.monotonic() + self._timeouts.settled_seconds
        try:
            replies = link.write(write.with_deadline(deadline), read)
            kept = link if replies.error is None else None
        except psycopg.Error as error:
            # Close the connection even after an SQL error: if the server's clock was set, deadlines
            # stay wrong until a new connection reads the clock.
            if link.rolled_back(error):
                raise _refusal(error) from error
            _LOGGER.warning("lost the reply to a write: %s", explain(error))
            kept = self._settle(link, settled_at)
            raise OutcomeUnknown(
                f"the outcome of a write to postgresql is unknown: {explain(error)}"
            ) from error
        except BaseException:
            # Ctrl-C, or a signal handler that raises: the write must not be applied after this call
            # has ended.
            kept = self._settle(link, settled_at)
            raise
        finally:
            self._pool.give_back(link, kept)
        return replies

    def _settle(self, lost: PostgresLink, settled_at: float) -> PostgresLink | None:
        """Return when the statement sent on a lost connection can no longer be applied.

        Returns:
            A new connection, or None if no connection could be made.
        """
        lost.close()
        replacement = self._replace(lost)
        while replacement is None and self._runtime.monotonic() < settled_at:
            self._runtime.sleep(RECONNECT_SECONDS)
            replacement = self._replace(lost)
        return replacement

    def _replace(self, lost: PostgresLink) -> PostgresLink | None:
        """Make a new connection and terminate the lost one's backend; None on failure."""
        try:
            link = self._connect()
        except psycopg.Error as error:
            _LOGGER.debug("cannot connect to terminate a lost connection: %s", explain(error))
            return None
        try:
            link.end(lost.backend)
        except psycopg.Error as error:
            _LOGGER.debug("cannot terminate a lost connection: %s", explain(error))
            link.close()
            return None
        return link


def _parse_url(url: str) -> tuple[str, int, bool]:
    """Return the libpq part of a URL, the pool size, and whether the service is trusted.

    Trusted: declared to be durable by other means.
    """
    conninfo, options = take_options(url, _OPTIONS)
    own = dict(options)
    try:
        conninfo_to_dict(conninfo)
    except psycopg.Error:
        # Omit the reason: it quotes parts of the URL, including the password.
        raise InvalidArgument(
            "the URL is malformed: use postgresql://user:password@host:port/database, and"
            " percent-encode special characters"
        ) from None
    return conninfo, pool_size(own, POOL_SIZE), is_on(own, "durable")


def _write_of(
    batch: Sequence[PostgresWrite], of_one: LiteralString, of_many: LiteralString
) -> Query:
    if len(batch) == 1:
        return Query(of_one, batch[0].row)
    rows = sorted([write.row for write in batch])
    return Query(of_many, [wire.array(column) for column in zip(*rows, strict=True)])


def _read_of(places: Sequence[Place]) -> Query:
    """Return the query for reading several places; its rows begin with the place's number."""
    if len(places) <= statements.FEW_KEYS:
        parameters = list(chain.from_iterable(places))
        return Query(statements.GET_FEW[len(places) - 1], parameters)
    columns = [wire.array(column) for column in zip(*places, strict=True)]
    return Query(statements.GET_MANY, columns)


def _no_answer(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"postgresql did not answer: {explain(error)}")


def _refusal(error: psycopg.Error) -> StoreUnavailable:
    kind = StoreFull if error.sqlstate == DISK_FULL else StoreUnavailable
    return kind(f"postgresql refused the write: {explain(error)}")


def check_settings(link: PostgresLink) -> None:
    """Reject a server that may lose acknowledged writes, or all data, when its machine fails.

    `synchronous_commit` is set by each session (`statements.IDENTIFY`).
    """
    found: dict[str, str] = dict(link.execute(statements.SETTINGS, (list(_DURABLE),)).fetchall())
    check_durable(found, _DURABLE)


def prepare_schema(link: PostgresLink) -> None:
    """Create the table if missing, else check its columns.

    Raises:
        ForeignStore: Another relation has this name.
        psycopg.Error: The database failed; close the connection. No partial change remains.
    """
    found = link.execute(statements.DESCRIBE, ()).fetchone()
    if found is None:
        # On failure, the lock is released with the connection.
        link.execute(statements.LOCK_SCHEMA, ())
        link.execute(statements.CREATE_IF_ABSENT, ())
        link.execute(statements.UNLOCK_SCHEMA, ())
        _LOGGER.info("initialized the table lakebed_kv")
        found = link.execute(statements.DESCRIBE, ()).fetchone()
    assert found is not None
    kind, columns = found
    if kind not in statements.KINDS or tuple(columns) != statements.COLUMNS:
        raise ForeignStore(
            f"the relation lakebed_kv is not a Lakebed store: its columns are {', '.join(columns)}"
        )
