"""The SQL of the driver: the table, and one statement per call.

The first parameter of every write is its deadline, in seconds since 1970 by the server's clock.
"""

from typing import Final, LiteralString

# All interpolated parts are constants of this module.
# ruff: noqa: S608

# The table's expected kind, and columns with their types. Tables of older versions are partitioned
# by hash, and remain in use: all statements are the same.
KINDS: Final = ("r", "p")
COLUMNS: Final = ("partition bytea", "key bytea", "value bytea", "version bytea")
DESCRIBE: Final = """
SELECT relkind::text, array(
    SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum)
FROM pg_class WHERE oid = to_regclass('lakebed_kv')
"""

# Serializes concurrent creation of the table. Locking is a separate statement, since only a new
# statement is sure to see tables created meanwhile. The number is arbitrary.
LOCK_SCHEMA: Final = "SELECT pg_advisory_lock(7021801416893550637)"
UNLOCK_SCHEMA: Final = "SELECT pg_advisory_unlock(7021801416893550637)"
CREATE_IF_ABSENT: Final = """
DO $$
BEGIN
    IF to_regclass('lakebed_kv') IS NULL THEN
        CREATE TABLE lakebed_kv (
            partition bytea NOT NULL,
            key bytea NOT NULL,
            value bytea NOT NULL,
            version bytea NOT NULL,
            PRIMARY KEY (partition, key)
        );
    END IF;
END
$$
"""

# The backend process, its start time, the server's start time, and its clock. Then the settings of
# the session. All statements find their rows by the primary key: the disabled plans would be chosen
# only by mistake, before the table has statistics, and would read a whole partition for one page. A
# reply must mean that the write is durable: so synchronous_commit is never off.
IDENTIFY: Final = """
SELECT pg_backend_pid(),
    (extract(epoch FROM activity.backend_start) * 1000000)::bigint,
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
    extract(epoch FROM clock_timestamp())::float8,
    set_config('statement_timeout', $1, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_sort', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false)
FROM pg_stat_get_activity(pg_backend_pid()) AS activity
"""

SETTINGS: Final = "SELECT name, setting FROM pg_settings WHERE name = ANY($1)"

# The start time distinguishes a process from a later one with the same process id.
_LISTED: Final[LiteralString] = """
FROM pg_stat_get_activity($1) AS activity
WHERE (extract(epoch FROM activity.backend_start) * 1000000)::bigint = $2
"""
IS_LISTED: Final = "SELECT pid " + _LISTED
TERMINATE: Final = "SELECT pg_terminate_backend(pid) " + _LISTED

GET: Final = "SELECT value, version FROM lakebed_kv WHERE partition = $1 AND key = $2"

# For few keys, the common case: takes half the time of the statement below, since each key finds
# its one partition when the statement starts.
_GET_NUMBERED: Final[LiteralString] = (
    "SELECT {0}::int4, value, version FROM lakebed_kv WHERE partition = ${1} AND key = ${2}"
)
# Literals, so that the statements built from them are known to contain no other text.
_PLACES: Final[tuple[tuple[LiteralString, LiteralString, LiteralString], ...]] = (
    *(("1", "1", "2"), ("2", "3", "4"), ("3", "5", "6"), ("4", "7", "8")),
    *(("5", "9", "10"), ("6", "11", "12"), ("7", "13", "14"), ("8", "15", "16")),
)
FEW_KEYS: Final = len(_PLACES)
GET_FEW: Final[tuple[LiteralString, ...]] = tuple(
    " UNION ALL ".join(_GET_NUMBERED.format(*place) for place in _PLACES[: count + 1])
    for count in range(FEW_KEYS)
)
"""Statements for one key, for two, and so on."""

# OFFSET 0 prevents the planner from merging the lookups into one join over the whole table.
GET_MANY: Final = """
SELECT wanted.number::int4, found.value, found.version
FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS wanted (partition, key, number)
CROSS JOIN LATERAL (
    SELECT value, version FROM lakebed_kv
    WHERE partition = wanted.partition AND key = wanted.key OFFSET 0
) AS found
"""

SCAN: Final = """
SELECT key, value, version FROM lakebed_kv
WHERE partition = $1 AND key >= $2 ORDER BY key LIMIT $3
"""
SCAN_TO: Final = """
SELECT key, value, version FROM lakebed_kv
WHERE partition = $1 AND key >= $2 AND key < $4 ORDER BY key LIMIT $3
"""

# Skip scan: from each partition directly to the next, so few rows are read.
PARTITIONS: Final = """
WITH RECURSIVE found (partition) AS (
    (SELECT partition FROM lakebed_kv WHERE partition > $1 ORDER BY partition LIMIT 1)
    UNION ALL
    SELECT after.partition FROM found CROSS JOIN LATERAL (
        SELECT partition FROM lakebed_kv
        WHERE partition > found.partition ORDER BY partition LIMIT 1
    ) AS after
)
SELECT partition FROM found LIMIT $2
"""

# A late statement must fail, not match no row. The failing branch depends on the clock, so that the
# planner cannot evaluate it in advance.
_LATE: Final[LiteralString] = "decode('late: ' || clock_timestamp()::text, 'hex')"
_IN_TIME: Final[LiteralString] = "clock_timestamp() < to_timestamp($1)"
_VALUE: Final[LiteralString] = f"CASE WHEN {_IN_TIME} THEN $4::bytea ELSE {_LATE} END"
_UNLESS_LATE: Final[LiteralString] = f"CASE WHEN {_IN_TIME} THEN true ELSE {_LATE} IS NULL END"

_INSERT: Final[LiteralString] = (
    f"INSERT INTO lakebed_kv (partition, key, value, version) VALUES ($2, $3, {_VALUE}, $5)"
)
_UPDATE: Final[LiteralString] = (
    f"UPDATE lakebed_kv SET value = {_VALUE}, version = $5 WHERE partition = $2 AND key = $3"
)
_LEAVE: Final[LiteralString] = " ON CONFLICT DO NOTHING RETURNING version"
_REPLACE: Final[LiteralString] = (
    " ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value, version = excluded.version"
)

SET: Final = _INSERT + _REPLACE
SET_IF_ABSENT: Final = _INSERT + _LEAVE
SET_IF_EXISTS: Final = _UPDATE + " RETURNING version"
SET_IF_VERSION: Final = _UPDATE + " AND version = $6 RETURNING version"

# Rows are sorted by key, so that concurrent writers cannot deadlock.
_INSERT_MANY: Final[LiteralString] = (
    f"INSERT INTO lakebed_kv (partition, key, value, version)"
    f" SELECT CASE WHEN {_IN_TIME} THEN partition ELSE {_LATE} END, key, value, version"
    f" FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[])"
    f" AS rows (partition, key, value, version)"
)
SET_MANY: Final = _INSERT_MANY + _REPLACE
CREATE_MANY: Final = _INSERT_MANY + _LEAVE
"""Returns the versions of the created rows."""

# Each row is looked up by key, one after the other, in the given order.
SWAP_MANY: Final = (
    f"UPDATE lakebed_kv AS stored SET version = rows.version,"
    f" value = CASE WHEN {_IN_TIME} THEN rows.value ELSE {_LATE} END"
    f" FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[])"
    f" AS rows (partition, key, value, version, predicate)"
    f" WHERE stored.partition = rows.partition AND stored.key = rows.key"
    f" AND stored.version = rows.predicate RETURNING rows.version"
)
"""Returns the versions of the updated rows."""

DELETE: Final = f"DELETE FROM lakebed_kv WHERE partition = $2 AND key = $3 AND {_UNLESS_LATE}"
DELETE_IF: Final = DELETE + " AND version = $4"
