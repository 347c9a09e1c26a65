"""What is remembered of files: their hashes, and the objects that they are the same as.

It is a cache: without it, files are read again. It lies in the user's own folder of caches and not
in the working copy, where other tools would take it for data.

A file whose size, times and inode are as they were is not read again, unless it was written so
shortly before it was read that a later edit could have left the same times.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TICK_NS: Final = 2_000_000_000
"""The coarsest time stamps that file systems have."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER,
    md5 TEXT, checksum TEXT, is_settled INTEGER
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file as the disk describes it."""

    path: str
    """Relative to the working copy, with `/` between the parts."""
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a file."""

    md5: str
    checksum: str
    """Of the object that held the same bytes; that of one from several parts is no MD5."""
    is_current: bool
    """Whether the file cannot have changed since."""


class Hashes:
    """The cache of one working copy. Used by one thread."""

    def __init__(self, file: Path | None) -> None:
        """Open a cache; None, or a file that cannot be one: it lasts as long as the process."""
        self._database = _opened(file)

    def find(self, file: LocalFile) -> Known | None:
        """Return what is known of a file."""
        found = self._execute(
            "SELECT size, mtime_ns, ctime_ns, inode, md5, checksum, is_settled"
            " FROM files WHERE path = ?",
            file.path,
        )
        if not found:
            return None
        row = found[0]
        stamps = (file.size, file.mtime_ns, file.ctime_ns, file.inode)
        return Known(row[4], row[5], is_current=bool(row[6]) and row[:4] == stamps)

    def note(self, file: LocalFile, md5: str, checksum: str, *, read_ns: int) -> None:
        """Remember a file that was read at a time, and the object that it is the same as."""
        is_settled = file.mtime_ns < read_ns - _TICK_NS
        self._execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(file.path, file.size, file.mtime_ns, file.ctime_ns, file.inode),
            *(md5, checksum, is_settled),
        )

    def link(self, file: LocalFile, checksum: str) -> None:
        """Remember that a file whose hash is known is the same as an object."""
        self._execute("UPDATE files SET checksum = ? WHERE path = ?", checksum, file.path)

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; none if the disk is full, for example."""
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error:
            return []

    def close(self) -> None:
        """Keep what was noted."""
        with suppress(sqlite3.Error):  # it is a cache
            self._database.commit()
        self._database.close()


def cache_file(root: Path, environ: Mapping[str, str]) -> Path | None:
    """Return where the cache of a working copy is; None if the user has no such folder."""
    if caches := environ.get("XDG_CACHE_HOME"):
        folder = Path(caches)
    elif home := environ.get("HOME"):
        folder = Path(home, ".cache")
    else:
        return None
    name = hashlib.sha256(str(root.resolve()).encode(errors="surrogateescape")).hexdigest()[:32]
    return folder / "lakebed" / "working-copies" / f"{name}.sqlite"


def _opened(file: Path | None) -> sqlite3.Connection:
    for _ in range(2 if file else 0):
        assert file is not None
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(file)
            database.execute(_SCHEMA)
            database.execute("SELECT * FROM files LIMIT 1").fetchone()
        except (sqlite3.Error, OSError):
            # Damaged, or of another version: it is made anew.
            with suppress(OSError):
                file.unlink()
        else:
            return database
    database = sqlite3.connect(":memory:")
    database.execute(_SCHEMA)
    return database
