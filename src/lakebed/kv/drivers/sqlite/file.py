"""The file: finding it by its URL, creating it once, refusing files of others, connecting to it.

A Lakebed file carries an application id in its header. Any other file is refused and left as it
is, byte for byte. That takes care, since to open a database in the ordinary way can change it:
SQLite finishes what a crashed program left behind, and the last connection to close tidies up. So
the header is read through a connection that promises SQLite that the file is immutable. (Reading
it with ``open`` would be worse: closing a file drops all the locks that this process holds on it,
those of SQLite in other stores included.)
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
"""How long to wait for a lock that another process holds."""

_LOGGER: Final = logging.getLogger(__name__)

APPLICATION_ID: Final = int.from_bytes(b"LBKV")
_PREFIX: Final = "sqlite:///"
_PAUSE_SECONDS: Final = 0.002
_LEAST_ROOM_BYTES: Final = 1 << 16

# Ordered by bytes, since blobs compare as memcmp does. Without rowid: one tree, no second look-up.
_CREATE_TABLE: Final = """
    CREATE TABLE entries (
        partition BLOB NOT NULL,
        key BLOB NOT NULL,
        value BLOB NOT NULL,
        version BLOB NOT NULL,
        PRIMARY KEY (partition, key)
    ) WITHOUT ROWID
"""

# FULL: the log is on disk before a commit returns. The second asks the same of macOS, where a plain
# fsync does not reach the disk.
_SETTINGS: Final = ("PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON")


def path_of(url: str) -> Path:
    """Return the absolute path of the file that a URL names; see `lakebed.kv.open_store`.

    Raises:
        InvalidArgument: The URL does not name a file.
    """
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
    # Absolute, because connections are opened later too, when the working directory may be another.
    return Path(name).absolute()


class DatabaseFile:
    """A Lakebed database, created if it was not there."""

    def __init__(self, path: Path) -> None:
        """Find or create the file.

        Raises:
            InvalidArgument: It lies on a network file system.
            ForeignStore: What is there is not a Lakebed database.
            StoreUnavailable: It cannot be created or opened.
        """
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
        """Open a connection without transactions of its own; any thread may use it, one at a time.

        It waits with patience for locks, of which even a setting may need one.

        Raises:
            sqlite3.Error: SQLite cannot open it.
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
        """What to raise for an error of SQLite that changed nothing."""
        code = error_code(error)
        # Making room for its shared memory, SQLite calls a full disk an I/O error.
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._is_disk_full()):
            return StoreFull(f"no room for the write to {self.path}: the disk is full")
        return StoreUnavailable(f"cannot use {self.path}: {error}")

    def _is_disk_full(self) -> bool:
        status = os.statvfs(self.path.parent)
        return status.f_bavail * status.f_frsize < _LEAST_ROOM_BYTES

    def log_bytes(self) -> int:
        """The size of the write-ahead log beside the file."""
        try:
            return self.log_path.stat().st_size
        except FileNotFoundError:
            return 0

    def _refuse_foreign(self) -> None:
        # First the log: a racing creator makes it only after it has filled the file.
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
                f"{self.path} is empty or missing, but its log {self.log_path.name} is there:"
                f" bring back the file, or remove the log to begin anew"
            )
        if not is_new and self._application_id() != APPLICATION_ID:
            raise ForeignStore(f"{self.path} is a database, but not Lakebed's")

    def _application_id(self) -> int:
        uri = f"{self.path.as_uri()}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            # Or SQLite would call a file damaged that another process is making longer just now.
            connection.execute("PRAGMA writable_schema = ON")
            try:
                return _pragma(connection, "application_id")
            except sqlite3.DatabaseError as error:
                if error_code(error) == sqlite3.SQLITE_NOTADB:
                    raise ForeignStore(f"{self.path} is not a Lakebed database") from error
                raise

    def _initialise(self) -> None:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        with closing(self.connect(create=True)) as connection:
            while True:
                try:
                    self._create_table(connection)
                    # Others that open the file at the same moment can make this fail at once.
                    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                    break
                except sqlite3.OperationalError as error:
                    if not is_busy(error) or time.monotonic() > give_up_at:
                        raise
                    time.sleep(_PAUSE_SECONDS)
        if mode != "wal":
            raise StoreUnavailable(f"the file system of {self.path} cannot hold a write-ahead log")

    def _create_table(self, connection: sqlite3.Connection) -> None:
        if _pragma(connection, "application_id") == APPLICATION_ID:
            return
        # Before the switch to the log: the mark must be in the file itself, where the check looks.
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _pragma(connection, "application_id") != APPLICATION_ID:
                if self.path.stat().st_size > 0:
                    raise ForeignStore(f"{self.path} is a database, but not Lakebed's")
                connection.execute(_CREATE_TABLE)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                _LOGGER.info("creating the store %s", self.path)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        sync_folder(self.path.parent)


def error_code(error: Exception) -> int:
    """The primary result code of SQLite, or 0."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock."""
    return error_code(error) == sqlite3.SQLITE_BUSY


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
