"""What is stored, and the statements that read and change it; `{table}` has its keyspace."""

from typing import Final
from zlib import crc32

LANES: Final = 16
"""As in `PAGE`; what is stored depends on it."""
TABLE: Final = "lakebed_kv"

# The columns of the table. The body is never empty, so that no single cell is ever deleted.
COLUMNS: Final = {"p": "blob", "lane": "tinyint", "k": "blob", "stamp": "blob", "body": "blob"}
# Rows are deleted only where no caller reads any more, so a replica that missed a deletion for more
# than three hours, and brings the row back, does no harm. With ten days, Cassandra's default, each
# scan of announcements would read the deleted ones of ten days.
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
    """Return the names of a row: its partition, the lane, and the key."""
    return partition, crc32(key) % LANES, key
