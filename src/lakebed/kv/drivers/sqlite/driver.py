"""The store: what each call of the interface is in SQL."""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.sqlite.file import DatabaseFile, path_of
from lakebed.kv.drivers.sqlite.readers import Readers, as_item
from lakebed.kv.drivers.sqlite.writer import BatchedRead, SQLiteWriter, Step
from lakebed.kv.errors import KeyNotFound, PredicateFailed
from lakebed.kv.store import (
    ABSENT,
    ANY,
    EXISTS,
    PARTITIONS_PAGE,
    DeletePredicate,
    Item,
    Limits,
    Predicate,
    Put,
    Store,
    Version,
    applied_before,
    check_deletable,
    check_predicate,
    new_version,
)

# Numbered in the order of the columns; the columns of a SELECT in the order of an Item.
_GET: Final = "SELECT key, value, version FROM entries WHERE partition = ?1 AND key = ?2"

# One statement for a few keys: to begin and end a read takes the locks of the log each time. And
# one row for all: with each row Python lets other threads run, and has to wait for them afterwards.
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
"""The statement for one key, for two, and so on."""

_SCAN: Final = """
    SELECT key, value, version FROM entries
    WHERE partition = ?1 AND key >= ?2 ORDER BY key LIMIT ?3
"""
_SCAN_TO: Final = """
    SELECT key, value, version FROM entries
    WHERE partition = ?1 AND key >= ?2 AND key < ?4 ORDER BY key LIMIT ?3
"""
# From each partition straight to the next one, whatever lies between: few rows are read.
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
    """Open the store in a file, creating it if need be; see `lakebed.kv.open_store`."""
    return SqliteStore(DatabaseFile(path_of(url)), runtime)


def _bound(parameters: Iterable[bytes]) -> tuple[bytearray, ...]:
    """Return parameters as the library takes them at once; for bytes, it looks for adapters."""
    return tuple(map(bytearray, parameters))


def _items(rows: list[tuple[Any, ...]]) -> list[Item | None]:
    """Return what `_GET_FEW` found, in the order of the keys."""
    [row] = rows
    return [
        None if row[begin] is None else as_item(row[begin : begin + 3])
        for begin in range(0, len(row), 3)
    ]


class SqliteStore(Store):
    """A store in one file: reads on connections of a pool, writes on one that callers share."""

    name = "sqlite"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=64 << 20)
    shared_between_processes = True

    def __init__(self, file: DatabaseFile, runtime: Runtime) -> None:
        """Open the connections.

        Raises:
            StoreUnavailable: The file cannot be opened.
        """
        self._runtime = runtime
        self._readers = Readers(file)
        try:
            self.writer = SQLiteWriter(file)
        except sqlite3.Error as error:
            raise file.failure(error) from error

    def get(self, partition: bytes, key: bytes) -> Item:
        self.limits.check(partition, key)
        found = self._readers.fetch_items(_GET, _bound((partition, key)))
        if not found:
            raise KeyNotFound(partition, key)
        return found[0]

    def set(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Version:
        version = version or new_version(self._runtime)
        self.write([Put(partition, key, value, predicate, version)])
        return version

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
            return self._readers.fetch_items(_SCAN, (partition, start, limit))
        return self._readers.fetch_items(_SCAN_TO, (partition, start, limit, end))

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        page = [row[0] for row in self._readers.fetch(_PARTITIONS, (cursor, PARTITIONS_PAGE))]
        return page, page[-1] if len(page) == PARTITIONS_PAGE else None

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        self.limits.check_keys(keys)
        items: list[Item | None] = []
        for begin in range(0, len(keys), _FEW_KEYS):
            items += self._get_few(keys[begin : begin + _FEW_KEYS])
        return items

    def _get_few(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        parameters = _bound(chain.from_iterable(keys))
        return _items(self._readers.fetch(_GET_FEW[len(keys) - 1], parameters))

    def close(self) -> None:
        self._readers.close()
        self.writer.close()
