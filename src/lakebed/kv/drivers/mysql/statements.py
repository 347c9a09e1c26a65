"""The SQL of the driver: the table, and one statement per call."""

from typing import Final

# All interpolated parts are constants of this module.
# ruff: noqa: S608

TABLE: Final = "lakebed_kv"

# Partition and key share an index entry of at most 3,072 bytes.
CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    `partition` VARBINARY(512) NOT NULL,
    `key` VARBINARY(2048) NOT NULL,
    `value` LONGBLOB NOT NULL,
    `version` VARBINARY(16) NOT NULL,
    PRIMARY KEY (`partition`, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
"""
COLUMNS: Final = (
    "partition varbinary(512)",
    "key varbinary(2048)",
    "value longblob",
    "version varbinary(16)",
)
DESCRIBE: Final = """
SELECT CONCAT(column_name, ' ', column_type) FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = %s ORDER BY ordinal_position
"""
ENGINE: Final = """
SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s
"""
SETTINGS: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name IN %s"

# Each statement sees the commits before its start, and concurrent writers do not lock gaps between
# keys. Bytes are quoted with backslashes, which the mode NO_BACKSLASH_ESCAPES would disable.
PREPARE_SESSION: Final = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
SQL_MODE: Final = "STRICT_ALL_TABLES"

IDENTIFY: Final = "SELECT CONNECTION_ID(), @@GLOBAL.read_only, GET_LOCK(%s, 0)"
OWNER: Final = "SELECT IS_USED_LOCK(%s)"
KILL: Final = "KILL CONNECTION %s"
TAKE_LOCK: Final = "SELECT GET_LOCK(%s, 1)"
LET_GO: Final = "SELECT RELEASE_LOCK(%s)"

_HERE: Final = "WHERE `partition` = %s AND `key` = %s"
_REPLACE: Final = (
    " ON DUPLICATE KEY UPDATE `value` = VALUES(`value`), `version` = VALUES(`version`)"
)

GET: Final = f"SELECT `value`, `version` FROM {TABLE} {_HERE}"
GET_SOME: Final = (
    f"SELECT `partition`, `key`, `value`, `version` FROM {TABLE}"
    " WHERE `partition` = %s AND `key` IN %s"
)
SCAN: Final = (
    f"SELECT `key`, `value`, `version` FROM {TABLE}"
    " WHERE `partition` = %s AND `key` >= %s ORDER BY `key` LIMIT %s"
)
SCAN_TO: Final = (
    f"SELECT `key`, `value`, `version` FROM {TABLE}"
    " WHERE `partition` = %s AND `key` >= %s AND `key` < %s ORDER BY `key` LIMIT %s"
)
# An index scan, from each partition directly to the next.
PARTITIONS: Final = (
    f"SELECT DISTINCT `partition` FROM {TABLE} WHERE `partition` > %s ORDER BY `partition` LIMIT %s"
)

ROW: Final = "(%s, %s, %s, %s)"
INSERT: Final = f"INSERT INTO {TABLE} (`partition`, `key`, `value`, `version`) VALUES {ROW}"
SET: Final = INSERT + _REPLACE
SET_IF_EXISTS: Final = f"UPDATE {TABLE} SET `value` = %s, `version` = %s {_HERE}"
SET_IF_VERSION: Final = f"{SET_IF_EXISTS} AND `version` = %s"
DELETE: Final = f"DELETE FROM {TABLE} {_HERE}"
DELETE_IF: Final = f"{DELETE} AND `version` = %s"


def set_many(rows: int) -> str:
    """Return the statement that writes this number of rows."""
    return INSERT + f", {ROW}" * (rows - 1) + _REPLACE
