"""The database file: locate, create, validate and connect.

A Lakebed file has an application id in its header. Any other file is rejected without changing a
byte. Opening a database in the ordinary way can change it: SQLite recovers after a crash, and the
last connection to close checkpoints. So the header is read through a connection opened as
immutable. (Reading with ``open`` would be worse: closing a file drops all locks of this process on
it, including those of SQLite in other stores.)
"""

import logging
import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from lakebed.kv.drivers.local_disk import check_file_system, make_folder, sync_folder
from lakebed.kv.errors import ForeignStore, InvalidArgument, StoreFull, StoreUnavailable

PATIENCE_SECONDS: Final = 10.0
"""Time limit for waiting for another process's lock."""

_LOGGER: Final = logging.getLogger(__name__)

APPLICATION_ID: Final = int.from_bytes(b"LBKV")
_PREFIX: Final = "sqlite:///"
_PAUSE_SECONDS: Final = 0.002
_LEAST_ROOM_BYTES: Final = 1 << 16

# Blobs compare as memcmp does. Without rowid: one tree, no second lookup.
_CREATE_TABLE: Final = """
    CREATE TABLE entries (
        partition BLOB NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        version BLOB NOT NULL,
        PRIMARY KEY (partition, key)
    ) WITHOUT ROWID
"""

# FULL: the log is on disk before a commit returns. fullfsync: the same on macOS, where a plain
# fsync does not reach the disk.
_SETTINGS: Final = ("PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON")


def path_of(url: str) -> Path:
    """Return the absolute path of the file of a URL; see `lakebed.kv.open_store`."""
    name = url.removeprefix(_PREFIX)
    if not url.startswith(_PREFIX) or not name or name.endswith("/"):
        raise InvalidArgument(
            "a sqlite store is a file: use sqlite:///relative/path.db or"
            f" sqlite:////absolute/path.db, not {url}"
        )
    if name == ":memory:":
        raise InvalidArgument("a sqlite store is a file; for one in memory use memory://")
    if any(character in name for character in "?#\0"):
        raise InvalidArgument(f"a sqlite store has no options: leave out ?, # and NUL in {url!r}")
    # Absolute, because connections are also opened after a change of the working directory.
    return Path(name).absolute()


class DatabaseFile:
    """A Lakebed database file, created if missing."""

    def __init__(self, path: Path) -> None:
        check_file_system(path, "SQLite")
        self.path = path
        self.log_path = path.with_name(f"{path.name}-wal")
        try:
            self._refuse_foreign()
            make_folder(path.parent)
            self._initialise()
        except (OSError, sqlite3.Error) as error:
            raise self.failure(error) from error

    def connect(self, *, create: bool = False) -> sqlite3.Connection:
        """Open a connection in autocommit mode, usable by any thread, one at a time.

        Waits up to `PATIENCE_SECONDS` for locks, which even a setting may need.
        """
        mode = "rwc" if create else "rw"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=PATIENCE_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            for setting in _SETTINGS:
                connection.execute(setting)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def failure(self, error: Exception) -> StoreUnavailable:
        """Return the exception for an error of SQLite that changed nothing."""
        code = error_code(error)
        # When allocating shared memory, SQLite reports a full disk as an I/O error.
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._is_disk_full()):
            return StoreFull(f"cannot write to {self.path}: the disk is full")
        return StoreUnavailable(f"cannot use {self.path}: {error}")

    def _is_disk_full(self) -> bool:
        status = os.statvfs(self.path.parent)
        return status.f_bavail * status.f_frsize < _LEAST_ROOM_BYTES

    def log_bytes(self) -> int:
        """Return the size of the write-ahead log beside the file."""
        try:
            return self.log_path.stat().st_size
        except FileNotFoundError:
            return 0

    def _refuse_foreign(self) -> None:
        # Check the log first: a concurrent creator makes it only after filling the file.
        log_is_there = self.log_bytes() > 0
        try:
            status = self.path.stat()
        except FileNotFoundError:
            is_new = True
        else:
            if not stat.S_ISREG(status.st_mode):
                raise ForeignStore(f"{self.path} is not a file")
            is_new = status.st_size == 0
        if is_new and log_is_there:
            # SQLite would delete the log, and with it the last writes to a file that was moved.
            raise ForeignStore(
                f"{self.path} is empty or missing, but its log {self.log_path.name} exists:"
                " restore the file, or delete the log to start with an empty store"
            )
        if not is_new and self._application_id() != APPLICATION_ID:
            raise ForeignStore(f"{self.path} is a SQLite database, but not a Lakebed store")

    def _application_id(self) -> int:
        uri = f"{self.path.as_uri()}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            # Otherwise SQLite would report a file as damaged while another process extends it.
            connection.execute("PRAGMA writable_schema = ON")
            try:
                return _pragma(connection, "application_id")
            except sqlite3.DatabaseError as error:
                if error_code(error) == sqlite3.SQLITE_NOTADB:
                    raise ForeignStore(f"{self.path} is not a Lakebed store") from error
                raise

    def _initialise(self) -> None:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        with closing(self.connect(create=True)) as connection:
            while True:
                try:
                    self._create_table(connection)
                    # Can fail at once if another process opens the file at the same moment.
                    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                    break
                except sqlite3.OperationalError as error:
                    if not is_busy(error) or time.monotonic() > give_up_at:
                        raise
                    time.sleep(_PAUSE_SECONDS)
        if mode != "wal":
            raise StoreUnavailable(
                f"the file system of {self.path} does not support a write-ahead log"
            )

    def _create_table(self, connection: sqlite3.Connection) -> None:
        if _pragma(connection, "application_id") == APPLICATION_ID:
            return
        # Before the switch to WAL: the id must be in the file itself, where the check reads it.
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _pragma(connection, "application_id") != APPLICATION_ID:
                if self.path.stat().st_size > 0:
                    raise ForeignStore(f"{self.path} is a SQLite database, but not a Lakebed store")
                connection.execute(_CREATE_TABLE)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                _LOGGER.info("creating the store %s", self.path)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        sync_folder(self.path.parent)


def error_code(error: Exception) -> int:
    """Return the primary result code of SQLite, or 0."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the lock."""
    return error_code(error) == sqlite3.SQLITE_BUSY


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
