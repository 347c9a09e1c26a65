"""Settings of the engine; the defaults suit most installations."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Times and bounds of the engine's protocols."""

    grace_seconds: float = 900.0
    """How long the Cleaner leaves a dropped token alone; must exceed the longest request."""

    scan_limit_seconds: float = 600.0
    """Maximum age of a scan of staged changes when they are published."""

    sealed_tokens_max: int = 16
    """With this many sealed tokens, a committer first publishes the tokens of earlier commits."""

    tries_max: int = 100
    """How often an operation is retried after concurrent changes of the same record."""

    noted_tombstones_min: int = 2_000
    """Tombstones in a row after which a listing notes the run for later listings."""

    large_commit_keys: int = 1_000
    """Staged keys from which a commit is built in a build process."""

    large_merge_rows: int = 100_000
    """Entries to read from which a merge is built in a build process."""

    expiring_seconds: float = 86_400.0
    """How long a commit is marked before final expiry; a new ref still saves the commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Caches of the files of committed entries."""

    memory_bytes: int = 256 << 20
    """Maximum size of the decoded files that each process caches in memory."""

    disk_folder: Path | None = None
    """A folder on a local disk, shared by all processes of the machine; None for no disk cache.

    Useful if the storage is remote; a cache of a local disk would only be a copy."""

    disk_bytes: int = 10 << 30
    """Maximum size of the folder."""
