"""The calls of the interface as statements, and the interpretation of their errors."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Final, NoReturn, TypeVar

import pymysql
from pymysql.constants import ER

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import check_durable
from lakebed.kv.drivers.mysql import statements
from lakebed.kv.drivers.mysql.link import (
    REPLY_SECONDS,
    MySQLLink,
    Rows,
    code_of,
    explain,
    is_refusal,
    parse_url,
)
from lakebed.kv.errors import (
    ForeignStore,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreFull,
    StoreUnavailable,
    UnsafeStore,
)
from lakebed.kv.fenced import FENCE_SECONDS, end_process
from lakebed.kv.lifetime import Lifetime, closing_on_error
from lakebed.kv.pool import Pool
from lakebed.kv.store import (
    ABSENT,
    ANY,
    EXISTS,
    PARTITIONS_PAGE,
    DeletePredicate,
    Item,
    Limits,
    Put,
    Store,
    Version,
    applied_before,
    check_deletable,
    new_version,
)

ResultT = TypeVar("ResultT")

OPEN_SECONDS: Final = 30.0
RECONNECT_SECONDS: Final = 0.1
CHUNK_KEYS: Final = 500
CHUNK_BYTES: Final = 4 << 20
PACKET_BYTES: Final = 16 << 20
"""Required packet size of the server: a value, whose size may double by quoting."""

_FULL: Final = frozenset({ER.RECORD_FILE_FULL, ER.DISK_FULL})
_DURABLE: Final = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1"}
_OTHERS: Final = ("log_bin", "wsrep_on", "max_allowed_packet")

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a MySQL or MariaDB database; see `lakebed.kv.open_store`."""
    return MySQLStore(url, runtime)


class MySQLStore(Store):
    """A table in a MySQL or MariaDB database. Raises as `lakebed.kv.open_store`.

    `give_up` ends the process; it is called when a fence cannot be finished.
    """

    name = "mysql"
    limits = Limits(partition_bytes=512, key_bytes=2048, value_bytes=4 << 20)
    shared_between_processes = True

    def __init__(
        self,
        url: str,
        runtime: Runtime,
        *,
        reply_seconds: float = REPLY_SECONDS,
        give_up: Callable[[], NoReturn] = end_process,
    ) -> None:
        address = parse_url(url)
        self._runtime = runtime
        self._give_up = give_up
        self._connect = partial(MySQLLink, address, runtime, reply_seconds=reply_seconds)
        self._pool = Pool(self._connect, address.pool_size, database="mysql", explain=explain)
        self._lifetime = Lifetime(runtime, self._pool.close, limits=self.limits, shared=True)
        with closing_on_error(self.close):
            self._reading(partial(_prepare, trusted=address.trusted), seconds=OPEN_SECONDS)

    def get(self, partition: bytes, key: bytes) -> Item:
        self._lifetime.begin(partition, key)
        found = self._read(statements.GET, partition, key)
        if not found:
            raise KeyNotFound(partition, key)
        ((value, version),) = found
        return Item(key, value, Version(version))

    def _set(self, put: Put) -> None:
        partition, key, value, predicate, version = put
        self._lifetime.begin(partition, key, value)
        version = version or new_version(self._runtime)
        if predicate is ANY:
            found = self._write(statements.SET, partition, key, value, version)
        elif predicate is ABSENT:
            found = self._write(statements.INSERT, partition, key, value, version)
        elif predicate is EXISTS:
            found = self._write(statements.SET_IF_EXISTS, value, version, partition, key)
        else:
            found = self._write(
                statements.SET_IF_VERSION, value, version, partition, key, predicate
            )
        if not found:
            raise PredicateFailed(partition, key)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        self._lifetime.begin(partition, key)
        check_deletable(predicate)
        if predicate is ANY:
            self._write(statements.DELETE, partition, key)
        elif not self._write(statements.DELETE_IF, partition, key, predicate):
            raise PredicateFailed(partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        self._lifetime.begin(partition)
        if end is None:
            rows = self._read(statements.SCAN, partition, start, limit)
        else:
            rows = self._read(statements.SCAN_TO, partition, start, end, limit)
        return [Item(key, value, Version(version)) for key, value, version in rows]

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        self._lifetime.begin(b"any")
        rows = self._read(statements.PARTITIONS, cursor, PARTITIONS_PAGE)
        page = [partition for (partition,) in rows]
        return page, page[-1] if len(page) == PARTITIONS_PAGE else None

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        for partition, key in keys:
            self._lifetime.check(partition, key)
        items: list[Item | None] = []
        for begin in range(0, len(keys), CHUNK_KEYS):
            items += self._get_chunk(keys[begin : begin + CHUNK_KEYS])
        return items

    def _set_all(self, writes: Sequence[Put]) -> None:
        applied = False
        chunks = self._lifetime.chunks(writes, keys_max=CHUNK_KEYS, bytes_max=CHUNK_BYTES)
        for chunk in chunks:
            parameters = [
                part
                # Sorted, so that concurrent writers rarely deadlock.
                for partition, key, value, _, version in sorted(chunk, key=itemgetter(0, 1))
                for part in (partition, key, value, version or new_version(self._runtime))
            ]
            self._lifetime.begin(chunk[0].partition)
            with applied_before(any_step=applied):
                self._write(statements.set_many(len(chunk)), *parameters)
            applied = True

    def close(self) -> None:
        self._lifetime.close()

    def _get_chunk(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        wanted: dict[bytes, list[bytes]] = {}
        for partition, key in keys:
            wanted.setdefault(partition, []).append(key)
        # One statement reads all keys at one moment.
        statement = " UNION ALL ".join([statements.GET_SOME] * len(wanted))
        parameters = [part for pair in wanted.items() for part in pair]
        self._lifetime.begin(*keys[0])
        rows = self._read(statement, *parameters)
        found = {
            (partition, key): Item(key, value, Version(version))
            for partition, key, value, version in rows
        }
        return [found.get(pair) for pair in keys]

    def _read(self, statement: str, *parameters: object) -> Rows:
        return self._reading(lambda link: link.ask(statement, *parameters))

    def _reading(
        self, read: Callable[[MySQLLink], ResultT], *, seconds: float | None = None
    ) -> ResultT:
        link = self._pool.take(seconds)
        kept: MySQLLink | None = None
        try:
            found = read(link)
            kept = link
        except pymysql.Error as error:
            raise StoreUnavailable(f"mysql did not answer: {explain(error)}") from error
        finally:
            self._pool.give_back(link, kept)
        return found

    def _write(self, statement: str, *parameters: object) -> int:
        """Run a write and return the number of matched rows.

        Raises:
            StoreUnavailable: No row was changed, or will be.
            OutcomeUnknown: Rows may have been changed, but will not be changed later.
        """
        link = self._pool.take()
        kept: MySQLLink | None = None
        try:
            found = link.change(statement, parameters)
            kept = link
        except pymysql.Error as error:
            if is_refusal(error):
                kept = link
                if code_of(error) == ER.DUP_ENTRY:
                    return 0
                kind = StoreFull if code_of(error) in _FULL else StoreUnavailable
                raise kind(f"mysql refused the write: {explain(error)}") from error
            _LOGGER.warning("lost the reply to a write: %s", explain(error))
            kept = self._fence(link)
            raise OutcomeUnknown(
                f"the outcome of a write to mysql is unknown: {explain(error)}"
            ) from error
        except BaseException:
            # Ctrl-C, or a signal handler that raises: the write must not be applied later.
            kept = self._fence(link)
            raise
        finally:
            self._pool.give_back(link, kept)
        return found

    def _fence(self, lost: MySQLLink) -> MySQLLink:
        """Return a new connection when the lost connection's statement can no longer be applied."""
        lost.close()
        give_up_at = self._runtime.monotonic() + FENCE_SECONDS
        reason = "the server has not ended the lost connection"
        while True:
            link: MySQLLink | None = None
            try:
                link = self._connect()
                if link.end(lost.lock):
                    return link
            except (pymysql.Error, StoreUnavailable) as error:
                reason = explain(error)
            if link is not None:
                link.close()
            if self._runtime.monotonic() >= give_up_at:
                _LOGGER.critical(
                    "exiting: no reply to a write, and for %.0f s no confirmation by mysql that"
                    " it can no longer be applied: %s",
                    FENCE_SECONDS,
                    reason,
                )
                self._give_up()
            self._runtime.sleep(RECONNECT_SECONDS)


def _check_settings(link: MySQLLink, *, trusted: bool) -> None:
    """Reject a server that may lose acknowledged writes, or cannot take large values."""
    found: dict[str, str] = dict(link.ask(statements.SETTINGS, (*_DURABLE, *_OTHERS)))
    if found.get("wsrep_on") == "ON":
        raise UnsafeStore(
            "Galera clusters are not supported, since a read on one node may miss a write on"
            " another: use a server with a single primary"
        )
    if int(found["max_allowed_packet"]) < PACKET_BYTES:
        raise ForeignStore(
            f"max_allowed_packet of the server is {found['max_allowed_packet']} and must be at"
            f" least {PACKET_BYTES}"
        )
    if found.get("log_bin") != "ON":
        found["sync_binlog"] = "1"  # no binary log
    if not trusted:
        check_durable(found, _DURABLE)


def _prepare(link: MySQLLink, *, trusted: bool) -> None:
    """Check the server; create the table if missing, else check its columns."""
    _check_settings(link, trusted=trusted)
    columns = link.ask(statements.DESCRIBE, statements.TABLE)
    if not columns:
        link.ask(statements.CREATE)
        _LOGGER.info("initialized the table %s", statements.TABLE)
        columns = link.ask(statements.DESCRIBE, statements.TABLE)
    ((engine,),) = link.ask(statements.ENGINE, statements.TABLE)
    # MySQL 8 may return bytes.
    names = [each.decode() if isinstance(each, bytes) else each for (each,) in columns]
    if tuple(names) != statements.COLUMNS or engine != "InnoDB":
        raise ForeignStore(
            f"the table {statements.TABLE} is not a Lakebed store: its engine is {engine}, its"
            f" columns are {', '.join(names)}"
        )
