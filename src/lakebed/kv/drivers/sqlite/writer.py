"""The writing connection; concurrent writes share its transactions.

The leader of a batch (`lakebed.kv.group_commit`) takes the file lock and only then collects the
queued writes, so that waiting for another process makes the batch larger. All writes of a batch get
their results after the commit. This includes failed predicates, which may depend on a write of the
same, uncommitted batch.
"""

import logging
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from lakebed.kv.drivers.sqlite.file import DatabaseFile, error_code, is_busy
from lakebed.kv.errors import OutcomeUnknown, StoreLocked, StoreUnavailable
from lakebed.kv.group_commit import Batch, GroupCommit, Write, copy_error

Row = tuple[bytes, ...]


class BatchedRead(NamedTuple):
    """A read after the writes of a batch; equal queries run once."""

    statement: str
    parameters: Row


# Time limit for the lock. Other servers release the lock after each batch; any other program may
# keep the lock for hours, so fail fast.
LOCK_SECONDS: Final = 5.0

# Limits of a batch: other processes wait for the lock meanwhile.
BATCH_OPERATIONS: Final = 1000
BATCH_BYTES: Final = 16 << 20

# SQLite checkpoints and restarts a log of some size, but not during a read, and a busy store is
# always being read. Beyond this size, writers wait until the readers are finished.
LARGEST_LOG_BYTES: Final = 64 << 20

# Bytes written until the log size is checked again, and approximate log growth per row.
LOG_CHECK_BYTES: Final = 1 << 20
_ROW_BYTES: Final = 16 << 10
_READERS_PATIENCE_SECONDS: Final = 1.0

WINDOW_SECONDS: Final = 0.0002
"""How long a leader waits for more writes if the last batch had several."""

# SQLite's own busy handler sleeps up to 100 ms at a time, far longer than a commit.
_SHORTEST_PAUSE_SECONDS: Final = 0.0001
_LONGEST_PAUSE_SECONDS: Final = 0.0005

_LOGGER: Final = logging.getLogger(__name__)


Step = tuple[str, Sequence[Row]]
"""A statement and its rows."""


class _Operation(Write):
    """Steps up to the first without an effect, then a query; with their results."""

    __slots__ = ("done", "found", "query", "size_bytes", "steps")

    def __init__(self, steps: Sequence[Step], size_bytes: int, query: BatchedRead | None) -> None:
        super().__init__()
        self.steps = steps
        self.size_bytes = size_bytes
        self.query = query
        self.done = 0
        """Number of steps with an effect."""
        self.found: list[tuple[object, ...]] = []
        """The rows of the query."""

    def run(self, connection: sqlite3.Connection) -> None:
        """Run the steps in the current transaction."""
        self.done = 0
        for statement, rows in self.steps:
            # Do not keep the cursor in a variable: it would keep the lock when the connection is
            # replaced.
            if not connection.executemany(statement, rows).rowcount:
                return
            self.done += 1


def _choose(
    leader: _Operation, queue: Sequence[_Operation]
) -> tuple[list[_Operation], list[_Operation]]:
    """Split the queue at the size limit of a batch; see `GroupCommit`."""
    size_bytes = leader.size_bytes
    count = 0
    while count < min(len(queue), BATCH_OPERATIONS - 1) and size_bytes < BATCH_BYTES:
        size_bytes += queue[count].size_bytes
        count += 1
    return [leader, *queue[:count]], list(queue[count:])


class SQLiteWriter:
    """The writing connection of a file, with its queue."""

    def __init__(self, file: DatabaseFile) -> None:
        self.commits = 0
        """Number of committed transactions."""
        self.writes = 0
        """Number of committed operations."""
        self._file = file
        self._connection = self._connect()
        self._group = GroupCommit(self._write, _choose, window_seconds=WINDOW_SECONDS)
        self._log_limit_bytes = LARGEST_LOG_BYTES
        self._unchecked_bytes = 0
        """Approximate growth of the log since the last check."""

    def execute(
        self, steps: Sequence[Step], query: BatchedRead | None = None, *, size_bytes: int = 0
    ) -> tuple[int, list[tuple[object, ...]]]:
        """Run steps up to the first without an effect, then a query.

        The query is part of the transaction and sees the state at its commit: no other process
        writes meanwhile, and all writes of the batch precede the query.

        Returns:
            The number of steps with an effect, and the rows of the query.

        Raises:
            StoreUnavailable: Nothing was changed.
            OutcomeUnknown: The commit failed, and may have been applied.
            StoreClosed: The writer was closed.
        """
        done = self._group.run(_Operation(steps, size_bytes, query))
        return done.done, done.found

    def close(self) -> None:
        """Commit the writes in the queue, then close the connection."""
        if self._group.close():
            self._connection.close()

    def _write(self, batch: Batch[_Operation]) -> None:
        """Take the file lock; collect and commit a batch; see `GroupCommit`."""
        error: OutcomeUnknown | None
        try:
            locked_out = self._begin()
            operations = batch.fill()
            error = locked_out or self._finish(operations)
            if not locked_out and isinstance(error, StoreUnavailable) and len(operations) > 1:
                self._write_each(operations)
                error = None
        except Exception as unexpected:  # noqa: BLE001 - the writes need a result in any case
            error = self._unknown(unexpected)
        self._unchecked_bytes += sum(
            operation.size_bytes + _ROW_BYTES * sum(len(rows) for _, rows in operation.steps)
            for operation in batch.writes
        )
        if self._unchecked_bytes >= LOG_CHECK_BYTES:
            self._unchecked_bytes = 0
            with suppress(sqlite3.Error, OSError):
                self._bound_log()
        if error:
            raise error

    def _write_each(self, operations: Sequence[_Operation]) -> None:
        """Commit each operation separately, so that a failure has no effect on the rest."""
        locked_out: OutcomeUnknown | None = None
        for operation in operations:
            locked_out = copy_error(locked_out) if locked_out else self._begin()
            operation.error = locked_out or self._finish([operation])

    def _begin(self) -> StoreUnavailable | None:
        """Take the file lock, shared with other processes."""
        give_up_at = time.monotonic() + LOCK_SECONDS
        pause = _SHORTEST_PAUSE_SECONDS
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if not is_busy(error):
                    self._replace_connection()
                    return self._file.failure(error)
                if time.monotonic() > give_up_at:
                    return StoreLocked(
                        f"another process kept {self._file.path} locked for {LOCK_SECONDS:g}"
                        " seconds: stop it, or let it finish its transaction"
                    )
            else:
                return None
            time.sleep(pause)
            pause = min(pause * 1.2, _LONGEST_PAUSE_SECONDS)

    def _finish(self, batch: list[_Operation]) -> OutcomeUnknown | None:
        """Run the operations in the current transaction, and commit it."""
        try:
            for each in batch:
                each.run(self._connection)
            self._fetch(batch)
        except Exception as error:  # noqa: BLE001 - rolled back after any error
            self._roll_back()
            return self._file.failure(error)
        try:
            self._commit()
        except sqlite3.Error as error:
            if error_code(error) == sqlite3.SQLITE_FULL:
                self._roll_back()
                return self._file.failure(error)
            return self._unknown(error)
        self.commits += 1
        self.writes += len(batch)
        return None

    def _fetch(self, batch: list[_Operation]) -> None:
        """Run the queries of a batch, which see all of its writes."""
        made: dict[BatchedRead, list[tuple[object, ...]]] = {}
        for each in batch:
            if each.query is not None:
                if each.query not in made:
                    made[each.query] = self._connection.execute(*each.query).fetchall()
                each.found = made[each.query]

    def _commit(self) -> None:
        self._connection.execute("COMMIT")

    def _roll_back(self) -> None:
        try:
            # SQLite rolls back by itself after some errors.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._replace_connection()

    def _unknown(self, error: Exception) -> OutcomeUnknown:
        """Invalidate the remains of a failed commit, and return its error."""
        _LOGGER.warning("a commit to %s failed: %s", self._file.path, error)
        self._replace_connection()
        # The log may contain the complete failed commit, which a recovery after a crash would
        # apply. The next commit overwrites that part of the log, so make an empty commit. Even if
        # this fails, the callers must get their result.
        with suppress(Exception):
            if self._begin() is None:
                self._connection.execute("PRAGMA user_version = 0")
                self._connection.execute("COMMIT")
        unknown = OutcomeUnknown(f"a commit to {self._file.path} failed: {error}")
        unknown.__cause__ = error
        return unknown

    def _bound_log(self) -> None:
        size_bytes = self._file.log_bytes()
        if size_bytes < self._log_limit_bytes:
            return
        patience_ms = int(_READERS_PATIENCE_SECONDS * 1000)
        self._connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
        try:
            busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._connection.execute("PRAGMA busy_timeout = 0")
        if busy:
            _LOGGER.warning(
                "the log of %s has %d bytes, and cannot be truncated while it is read",
                self._file.path,
                size_bytes,
            )
        # A long-running reader must not block the writers repeatedly.
        self._log_limit_bytes = 2 * size_bytes if busy else LARGEST_LOG_BYTES

    def _replace_connection(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()
            self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = self._file.connect()
        connection.execute("PRAGMA busy_timeout = 0")  # `_begin` does the waiting
        return connection
