"""Group commit: whoever comes first writes for all who wait, many writes to a transaction.

A durable commit costs a wait for the disk, however little it carries. So callers queue up, and the
first of them leads. The *leader* takes the lock on the file and only then collects what has queued
up, so that the time it waits for another process makes its batch larger. It runs the whole batch in
one transaction, and every caller gets its result after the commit. That holds for a failed
predicate too: it may rest on a write of the same batch, which is not certain before. The first of
those who have queued up meanwhile leads the next batch. If several callers wrote in the last batch,
the leader waits a little for more. A caller that finds nobody before it writes by itself, and no
thread is woken for it: that costs more than the write.

Callers wait without a timeout: a caller that went away might see its write applied afterwards. The
leader owes everyone an answer, and gives one whatever happens. So nothing may break it off, as
Ctrl-C can anywhere in the main thread: a thread of the writer stands in for that one.
"""

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from lakebed.kv.drivers.sqlite.file import DatabaseFile, error_code, is_busy
from lakebed.kv.errors import OutcomeUnknown, StoreClosed, StoreLocked, StoreUnavailable
from lakebed.runtime import about_to_wait

Row = tuple[bytes | None, ...]


class Query(NamedTuple):
    """What to read behind the writes of a batch; equal ones are made once."""

    statement: str
    parameters: Row


# How long to wait for the lock. Other servers give it back after each batch; a program that keeps
# it for longer may keep it for hours, and whoever waits for an answer had better know soon.
LOCK_SECONDS: Final = 5.0

# A batch ends when it has reached either; other processes wait for the lock meanwhile.
BATCH_OPERATIONS: Final = 1000
BATCH_BYTES: Final = 16 << 20

# SQLite moves the log into the file when it has grown a little, and then starts it anew; but never
# while anyone reads from it, and on a busy store someone always does. Beyond this size, hold up
# the writers until the readers are through.
LARGEST_LOG_BYTES: Final = 64 << 20

# How much has to be written until the log is looked at again, and about what a row adds to it.
LOOK_BYTES: Final = 1 << 20
_ROW_BYTES: Final = 16 << 10
_READERS_PATIENCE_SECONDS: Final = 1.0

# How long a leader waits for others before it begins, if the last batch shows that there are some:
# for them and for itself, a larger batch is worth it. Whoever is alone never waits.
_COMPANY_SECONDS: Final = 0.0002

# SQLite's own waiting sleeps for up to 100 ms at a time, many times what a commit takes.
_SHORTEST_PAUSE_SECONDS: Final = 0.0001
_LONGEST_PAUSE_SECONDS: Final = 0.0005

_END: Final = ""
"""The statement of the operation behind which there is no other."""

_LOGGER: Final = logging.getLogger(__name__)


class _Operation:
    """A statement run for each of some rows, all or none; and its result, once it has one."""

    __slots__ = (
        "answered",
        "changed",
        "error",
        "following",
        "found",
        "latch",
        "leads",
        "query",
        "rows",
        "size_bytes",
        "statement",
    )

    def __init__(
        self, statement: str, rows: Sequence[Row], size_bytes: int, query: Query | None = None
    ) -> None:
        self.statement = statement
        self.rows = rows
        self.size_bytes = size_bytes
        self.query = query
        self.changed = 0
        self.found: list[tuple[Any, ...]] = []
        """The rows of its query."""
        self.error: OutcomeUnknown | None = None
        self.answered = False
        self.leads = False
        # The cheapest way to wait for another thread: a lock that the other one releases.
        self.latch = threading.Lock()
        self.latch.acquire()
        self.following: _Operation | None = None

    def wait(self) -> None:
        """Wait for the answer, or for the lead; wake the next caller, if there is an answer."""
        self.latch.acquire()
        if self.following is not None:
            self.following.latch.release()


def _answer(operations: list[_Operation], error: OutcomeUnknown | None) -> None:
    """Hand over the result of the operations.

    Only the first caller is woken; each wakes the next. If all woke at once, they would get in each
    other's way: only one thread can run Python at a time.
    """
    waiting = [operation for operation in operations if not operation.answered]
    for operation in waiting:
        if error is not None:
            # One for each caller: raising the same exception in many threads would mix them up.
            operation.error = type(error)(*error.args)
            operation.error.__cause__ = error.__cause__
        operation.answered = True
    asleep = [operation for operation in waiting if not operation.leads]
    for operation, following in pairwise(asleep):
        operation.following = following
    if asleep:
        asleep[0].latch.release()


class Writer:
    """The connection that writes to a file, and the queue before it."""

    def __init__(self, file: DatabaseFile) -> None:
        """Connect, and start the thread that stands in for the main one.

        Raises:
            sqlite3.Error: The file cannot be opened.
        """
        self.commits = 0
        """Transactions committed so far."""
        self.writes = 0
        """Operations in those transactions."""
        self._file = file
        self._connection = self._connect()
        self._queue: deque[_Operation] = deque()
        """Those that are in no batch yet. If nobody is at work, the first was told to lead."""
        self._is_led = False
        """Whether somebody leads, or was told to."""
        self._has_company = False
        """Whether several callers wrote in the last batch."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._log_limit_bytes = LARGEST_LOG_BYTES
        self._unseen_bytes = 0
        """About what the log has grown by since it was looked at."""
        self._of_main: SimpleQueue[tuple[_Operation, threading.Lock] | None] = SimpleQueue()
        # A daemon: a program that forgets to close its store must be able to end.
        self._thread = threading.Thread(target=self._stand_in, name="lakebed-sqlite", daemon=True)
        self._thread.start()

    def execute(self, statement: str, rows: Sequence[Row], *, size_bytes: int = 0) -> int:
        """Run a statement for each of the rows, all or none; return how many rows it changed.

        Raises:
            StoreUnavailable: Nothing was changed.
            OutcomeUnknown: The commit failed in a way that leaves open whether it was applied.
            StoreClosed: The writer was closed.
        """
        return self._run(_Operation(statement, rows, size_bytes)).changed

    def execute_then_fetch(
        self, statement: str, row: Row, query: Query | None, *, size_bytes: int = 0
    ) -> tuple[int, list[tuple[Any, ...]]]:
        """Run a statement for a row as `execute` does, and a query behind it, if there is one.

        The query is part of the transaction, and sees what was there when that was committed: no
        other process writes meanwhile, and all that is written with it comes before.
        """
        done = self._run(_Operation(statement, [row], size_bytes, query))
        return done.changed, done.found

    def _run(self, operation: _Operation) -> _Operation:
        """Return an operation when it is done; raise what went wrong."""
        if os.getpid() != self._process:
            # Whoever leads stayed in the parent: nobody would ever answer.
            raise StoreClosed("the store was opened in another process")
        if threading.get_ident() == threading.main_thread().ident:
            self._hand_over(operation)
        else:
            with self._lock:  # nothing is queued behind the end
                self._check_open()
                self._enter(operation)
            self._see_through(operation)
        if operation.error is not None:
            raise operation.error
        return operation

    def close(self) -> None:
        """Finish what is queued, then close the connection."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._of_main.put(None)
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed

    def _hand_over(self, operation: _Operation) -> None:
        """Have an operation of the main thread written, and wait for that."""
        done = threading.Lock()
        done.acquire()
        about_to_wait()
        handed = False
        try:
            with self._lock:
                self._check_open()
                handed = True  # first: Ctrl-C may come as soon as it is
                self._of_main.put((operation, done))
            done.acquire()
        except BaseException:
            # Ctrl-C. The write must not be applied after this call has ended: see it through.
            while handed and not operation.answered:
                time.sleep(_LONGEST_PAUSE_SECONDS)
            raise

    def _stand_in(self) -> None:
        """Write for the main thread; at the end, close the connection behind the last one."""
        while (handed := self._of_main.get()) is not None:
            operation, done = handed
            with self._lock:
                self._enter(operation)
            self._see_through(operation)
            done.release()
            del handed, operation  # its value may be large, and the next write a long time away
        end = _Operation(_END, (), 0)
        with self._lock:
            self._enter(end)
        if not end.leads:
            end.wait()
        self._connection.close()

    def _enter(self, operation: _Operation) -> None:
        """Queue up; whoever finds nobody at work leads. The lock is held."""
        self._queue.append(operation)
        if not self._is_led:
            self._is_led = operation.leads = True

    def _see_through(self, operation: _Operation) -> None:
        """Return when an operation is answered; lead, if it comes to that."""
        about_to_wait()
        if not operation.leads:
            operation.wait()
        if operation.leads:
            self._serve_safely([self._queue.popleft()])
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the next in the queue lead, if there is one."""
        with self._lock:
            if not self._queue:
                self._is_led = False
                return
            following = self._queue[0]
            following.leads = True
        following.latch.release()

    def _serve_safely(self, batch: list[_Operation]) -> None:
        try:
            self._serve(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, callers wait for an answer
            _answer(batch, self._unknown(error))
        self._unseen_bytes += sum(
            operation.size_bytes + _ROW_BYTES * len(operation.rows) for operation in batch
        )
        if self._unseen_bytes >= LOOK_BYTES:
            self._unseen_bytes = 0
            with suppress(sqlite3.Error, OSError):
                self._bound_log()

    def _serve(self, batch: list[_Operation]) -> None:
        """Write the batch together with what is queued behind it, and answer every caller."""
        if self._has_company:
            time.sleep(_COMPANY_SECONDS)
        locked_out = self._begin()
        self._collect(batch)
        self._has_company = len(batch) > 1
        if locked_out:
            _answer(batch, locked_out)
            return
        error = self._finish(batch)
        if isinstance(error, StoreUnavailable) and len(batch) > 1:
            self._serve_each(batch)
        else:
            _answer(batch, error)

    def _serve_each(self, batch: list[_Operation]) -> None:
        """Write the operations one by one: the one that failed must not fail the others."""
        for operation in batch:
            locked_out = self._begin()
            if locked_out:
                _answer(batch, locked_out)
                return
            _answer([operation], self._finish([operation]))

    def _collect(self, batch: list[_Operation]) -> None:
        size_bytes = batch[0].size_bytes
        queue = self._queue  # only the leader takes from it
        while queue and len(batch) < BATCH_OPERATIONS and size_bytes < BATCH_BYTES:
            if queue[0].statement == _END:
                return
            operation = queue.popleft()
            batch.append(operation)
            size_bytes += operation.size_bytes

    def _begin(self) -> StoreUnavailable | None:
        """Take the lock on the file, which other processes write to as well."""
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
                        " seconds: end it, or let it finish its transaction"
                    )
            else:
                return None
            time.sleep(pause)
            pause = min(pause * 1.2, _LONGEST_PAUSE_SECONDS)

    def _finish(self, batch: list[_Operation]) -> OutcomeUnknown | None:
        """Run the operations in the transaction just begun, and commit it."""
        try:
            # No cursor is kept in a name: it would keep the lock when the connection is replaced.
            for each in batch:
                each.changed = self._connection.executemany(each.statement, each.rows).rowcount
            self._fetch(batch)
        except Exception as error:  # noqa: BLE001 - the transaction is rolled back, whatever it was
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
        """Make the queries of a batch, which see all of its writes."""
        made: dict[Query, list[tuple[Any, ...]]] = {}
        for each in batch:
            if each.query is not None:
                if each.query not in made:
                    made[each.query] = self._connection.execute(*each.query).fetchall()
                each.found = made[each.query]

    def _commit(self) -> None:
        self._connection.execute("COMMIT")

    def _roll_back(self) -> None:
        try:
            # SQLite may have done it already: it does after some errors.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._replace_connection()

    def _unknown(self, error: Exception) -> OutcomeUnknown:
        """Settle what a failed commit may have left, and say that its outcome is unknown."""
        _LOGGER.warning("a commit to %s failed: %s", self._file.path, error)
        self._replace_connection()
        # The failed commit may lie whole in the log, where a recovery after a crash would find and
        # apply it. The next commit overwrites it there; so make one that changes nothing. Should
        # that fail too, the callers must still get their answer.
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
                "the log of %s has %d bytes, and readers keep it from being emptied",
                self._file.path,
                size_bytes,
            )
        # A reader that does not end must not hold up the writers again and again.
        self._log_limit_bytes = 2 * size_bytes if busy else LARGEST_LOG_BYTES

    def _replace_connection(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()
            self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = self._file.connect()
        connection.execute("PRAGMA busy_timeout = 0")  # `_begin` does the waiting
        return connection
