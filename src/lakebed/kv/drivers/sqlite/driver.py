"""The calls of the interface in SQL, and the connections for reading."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final, TypeVar

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.sqlite.file import DatabaseFile, path_of
from lakebed.kv.drivers.sqlite.writer import BatchedRead, SQLiteWriter, Step
from lakebed.kv.errors import KeyNotFound, PredicateFailed, StoreClosed
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
    applied_before,
    check_deletable,
    check_predicate,
    item_of_row,
    new_version,
)

ResultT = TypeVar("ResultT")
Row = tuple[object, ...]


class Readers:
    """A pool of idle connections; the most recently used, whose cache is warm, is reused first.

    Queries are read to the end, because an open snapshot would return stale data and keep the log
    from being truncated.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._process = os.getpid()

    def fetch(self, query: str, parameters: Row, make: Callable[[Row], ResultT]) -> list[ResultT]:
        """Return the rows of a query, each converted by `make`."""
        connection = self._take()
        try:
            # Convert row by row: a second list of objects would double the work of the garbage
            # collector, which costs more than the query.
            rows = list(map(make, connection.execute(query, parameters)))
        except sqlite3.Error as error:
            connection.close()
            raise self._file.failure(error) from error
        self._give_back(connection)
        return rows

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        self._closed = True
        if os.getpid() == self._process:
            self._close_idle()

    def _take(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreClosed
        if os.getpid() != self._process:
            # SQLite forbids using a connection in a child, even closing it.
            raise StoreClosed("the store was opened in another process: open it again after a fork")
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return self._file.connect()
        except sqlite3.Error as error:
            raise self._file.failure(error) from error

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        # In this order: either this thread sees `_closed`, or close() sees this connection.
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return


# Parameters are numbered in the order of the columns; a SELECT has the columns of an Item.
_GET: Final = "SELECT key, value, version FROM entries WHERE partition = ?1 AND key = ?2"

# A single statement for a few keys, because each read takes and releases the locks of the log. A
# single result row, because Python releases and reacquires the interpreter for each row.
_FEW_KEYS: Final = 8


def _get_few(count: int) -> str:
    places = range(count)
    columns = ", ".join(f"e{each}.key, e{each}.value, e{each}.version" for each in places)
    joins = " ".join(
        f"LEFT JOIN entries e{each}"
        f" ON e{each}.partition = ?{2 * each + 1} AND e{each}.key = ?{2 * each + 2}"
        for each in places
    )
    return f"SELECT {columns} FROM (SELECT 1) {joins}"  # noqa: S608 - numbers only


_GET_FEW: Final = tuple(map(_get_few, range(1, _FEW_KEYS + 1)))
"""Statements for one key, for two, and so on."""

_SCAN: Final = """
    SELECT key, value, version FROM entries
    WHERE partition = ?1 AND key >= ?2 ORDER BY key LIMIT ?3
"""
_SCAN_TO: Final = """
    SELECT key, value, version FROM entries
    WHERE partition = ?1 AND key >= ?2 AND key < ?4 ORDER BY key LIMIT ?3
"""
# Skip scan: from each partition directly to the next, so few rows are read.
_PARTITIONS: Final = """
    WITH RECURSIVE found(partition) AS (
        SELECT min(partition) FROM entries WHERE partition > ?1
        UNION ALL
        SELECT (SELECT min(partition) FROM entries WHERE partition > found.partition) FROM found
        WHERE found.partition IS NOT NULL
    )
    SELECT partition FROM found WHERE partition IS NOT NULL LIMIT ?2
"""
_SET_IF_EXISTS: Final = (
    "UPDATE entries SET value = ?3, version = ?4 WHERE partition = ?1 AND key = ?2"
)
_SET: Final = {
    ANY: "INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4)",
    ABSENT: "INSERT OR IGNORE INTO entries VALUES (?1, ?2, ?3, ?4)",
    EXISTS: _SET_IF_EXISTS,
}
_SET_IF_VERSION: Final = f"{_SET_IF_EXISTS} AND version = ?5"
_DELETE: Final = "DELETE FROM entries WHERE partition = ?1 AND key = ?2"
_DELETE_IF: Final = f"{_DELETE} AND version = ?3"


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a file, creating it if necessary; see `lakebed.kv.open_store`."""
    return SqliteStore(DatabaseFile(path_of(url)), runtime)


def _items(rows: list[Row]) -> list[Item | None]:
    """Return the items of a `_GET_FEW` row, in the order of the keys."""
    [row] = rows
    return [
        None if row[begin] is None else item_of_row(row[begin : begin + 3])
        for begin in range(0, len(row), 3)
    ]


class SqliteStore(Store):
    """A store in a file: reads use a pool of connections, writes share a single connection."""

    name = "sqlite"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=64 << 20)
    shared_between_processes = True

    def __init__(self, file: DatabaseFile, runtime: Runtime) -> None:
        self._runtime = runtime
        self._readers = Readers(file)
        try:
            self.writer = SQLiteWriter(file)
        except sqlite3.Error as error:
            raise file.failure(error) from error

    def get(self, partition: bytes, key: bytes) -> Item:
        self.limits.check(partition, key)
        found = self._readers.fetch(_GET, (partition, key), item_of_row)
        if not found:
            raise KeyNotFound(partition, key)
        return found[0]

    def write(
        self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        self.limits.check_keys(reads)
        steps = [self._step(put) for put in writes]
        if not steps:
            return self.get_many(reads)
        if len(steps) > 1 and all(put.predicate is ANY for put in writes):
            steps = [(_SET[ANY], [row for _, rows in steps for row in rows])]
        few = reads if len(reads) <= _FEW_KEYS else ()
        query = (
            BatchedRead(_GET_FEW[len(few) - 1], tuple(chain.from_iterable(few))) if few else None
        )
        size_bytes = sum([len(put.value) for put in writes])
        done, found = self.writer.execute(steps, query, size_bytes=size_bytes)
        if done < len(steps):
            raise PredicateFailed(writes[done].partition, writes[done].key)
        if few:
            return _items(found)
        with applied_before(any_step=True):
            return self.get_many(reads)

    def _step(self, put: Put) -> Step:
        """Return the statement of a write, and its row."""
        partition, key, value, predicate, version = put
        self.limits.check(partition, key, value)
        check_predicate(predicate)
        row = (partition, key, value, version or new_version(self._runtime))
        if isinstance(predicate, bytes):
            return _SET_IF_VERSION, [(*row, predicate)]
        return _SET[predicate], [row]

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        self.limits.check(partition, key)
        check_deletable(predicate)
        if predicate is ANY:
            self.writer.execute([(_DELETE, [(partition, key)])])
            return
        done, _ = self.writer.execute([(_DELETE_IF, [(partition, key, predicate)])])
        if not done:
            raise PredicateFailed(partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        if end is None:
            return self._readers.fetch(_SCAN, (partition, start, limit), item_of_row)
        return self._readers.fetch(_SCAN_TO, (partition, start, limit, end), item_of_row)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        page = self._readers.fetch(_PARTITIONS, (cursor, PARTITIONS_PAGE), itemgetter(0))
        return page, page[-1] if len(page) == PARTITIONS_PAGE else None

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        self.limits.check_keys(keys)
        items: list[Item | None] = []
        for begin in range(0, len(keys), _FEW_KEYS):
            few = keys[begin : begin + _FEW_KEYS]
            # The library accepts a bytearray directly; for bytes, it searches for adapters.
            parameters = tuple(map(bytearray, chain.from_iterable(few)))
            items += _items(self._readers.fetch(_GET_FEW[len(few) - 1], parameters, tuple))
        return items

    def close(self) -> None:
        self._readers.close()
        self.writer.close()
