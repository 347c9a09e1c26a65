"""What an installation may set about the engine; the defaults suit most."""

from dataclasses import dataclass


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
    """How often an operation begins again because others changed the same record first."""

    noted_tombstones_min: int = 2_000
    """A listing that met this many tombstones in a row notes where, for the listings after it."""
