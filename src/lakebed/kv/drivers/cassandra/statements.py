"""The table and its statements; `{table}` includes the keyspace."""

from typing import Final
from zlib import crc32

LANES: Final = 16
"""As in `PAGE`; part of the storage format."""
TABLE: Final = "lakebed_kv"

# The columns of the table. The body is never empty, so that no single cell is ever deleted.
COLUMNS: Final = {"p": "blob", "lane": "tinyint", "k": "blob", "stamp": "blob", "body": "blob"}
# Rows are deleted only when no caller reads them any more, so a row that reappears, from a replica
# that missed its deletion for more than three hours, is harmless. With Cassandra's default of ten
# days, each scan of announcements would read ten days of deleted rows.
CREATE_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS {table}
    (p blob, lane tinyint, k blob, stamp blob, body blob, PRIMARY KEY ((p, lane), k))
    WITH read_repair = 'BLOCKING' AND gc_grace_seconds = 10800
"""
READ: Final = "SELECT stamp, body FROM {table} WHERE p = ? AND lane = ? AND k = ?"
REPLACE: Final = """
    UPDATE {table} SET stamp = ?, body = ? WHERE p = ? AND lane = ? AND k = ? IF stamp = ?
"""
CREATE: Final = """
    INSERT INTO {table} (p, lane, k, stamp, body) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS
"""
ERASE: Final = "DELETE FROM {table} WHERE p = ? AND lane = ? AND k = ? IF stamp = ?"
PAGE: Final = """
    SELECT k, stamp, body FROM {table}
    WHERE p = ? AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND k >= ?
    ORDER BY k LIMIT ?
"""
PARTITIONS: Final = "SELECT DISTINCT p, lane FROM {table}"


def row_of(partition: bytes, key: bytes) -> tuple[bytes, int, bytes]:
    """Return the primary key of a row: partition, lane and key."""
    return partition, crc32(key) % LANES, key
