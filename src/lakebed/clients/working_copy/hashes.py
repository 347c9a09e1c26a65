"""A cache of file hashes and of the matching objects' checksums.

Without the cache, files are read again. The cache lies in the user's cache directory: inside the
working copy, other tools would take it for data.

A file with unchanged size, times and inode is not read again, unless it was modified so shortly
before it was read that a later edit could have the same time stamps.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TICK_NS: Final = 2_000_000_000
"""The coarsest resolution of file time stamps."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER,
    md5 TEXT, checksum TEXT, is_settled INTEGER
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file and its status on disk."""

    path: str
    """Relative to the working copy, with `/` between the parts."""
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Known:
    """Cached hashes of a file."""

    md5: str
    checksum: str
    """Checksum of the object with the same bytes; for a multipart object, not an MD5."""
    is_current: bool
    """Whether the file cannot have changed since it was hashed."""


class Hashes:
    """The hash cache of one working copy. For one thread."""

    def __init__(self, file: Path | None) -> None:
        """Open a cache; in memory if `file` is None or not usable."""
        self._database = _opened(file)

    def find(self, file: LocalFile) -> Known | None:
        """Return the cached hashes of a file, if any."""
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
        """Cache the hash of a file read at `read_ns`, and the checksum of its object."""
        is_settled = file.mtime_ns < read_ns - _TICK_NS
        self._execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(file.path, file.size, file.mtime_ns, file.ctime_ns, file.inode),
            *(md5, checksum, is_settled),
        )

    def link(self, file: LocalFile, checksum: str) -> None:
        """Cache the checksum of the object that a hashed file is equal to."""
        self._execute("UPDATE files SET checksum = ? WHERE path = ?", checksum, file.path)

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, or none if it fails, for example on a full disk."""
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error:
            return []

    def close(self) -> None:
        """Commit and close the cache."""
        with suppress(sqlite3.Error):  # only a cache
            self._database.commit()
        self._database.close()


def cache_file(root: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the cache file of a working copy, or None without a cache directory."""
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
            # Damaged, or of another version: recreate.
            with suppress(OSError):
                file.unlink()
        else:
            return database
    database = sqlite3.connect(":memory:")
    database.execute(_SCHEMA)
    return database
