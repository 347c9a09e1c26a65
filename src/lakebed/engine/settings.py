"""What an installation may set about the engine; the defaults suit most."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Times and bounds of the engine's protocols."""

    grace_seconds: float = 900.0
    """How long the Cleaner leaves a dropped token alone; longer than any request may take."""

    scan_limit_seconds: float = 600.0
    """How old a committer's scan of staged changes may be when it publishes them."""

    sealed_tokens_max: int = 16
    """From this many sealed tokens on, a committer first publishes what others left behind."""

    tries_max: int = 100
    """How often an operation starts over because others changed the same record first."""

    noted_tombstones_min: int = 2_000
    """A listing that met this many tombstones in a row notes where, for the listings after it."""

    large_commit_keys: int = 1_000
    """A commit of this many staged keys or more is built in a process for large commits."""

    large_merge_rows: int = 100_000
    """A merge that has to read this many entries or more is made in such a process too."""

    expiring_seconds: float = 86_400.0
    """How long a commit is marked before it expires for good: a new ref to it still saves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """What is kept of the files of committed entries, so that they are not fetched every time."""

    memory_bytes: int = 256 << 20
    """The most that each process keeps in memory, decoded."""

    disk_folder: Path | None = None
    """A folder on a local disk to keep files in, for all processes of the machine; None: nowhere.

    Useful when the storage is far away. Of one on the local disk it would only be a copy.
    """

    disk_bytes: int = 10 << 30
    """The most that is kept in that folder."""
