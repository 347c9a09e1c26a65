"""A small cache of what was read lately. What it returns is at most some seconds old."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.runtime import Runtime

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """Settings of users and permissions."""

    cache_seconds: float = 5.0
    """How long this process may still go by what another one has changed; 0: not at all."""

    cache_entries_max: int = 1024
    """How many access keys, how many tokens and how many users a process remembers."""

    refused: frozenset[str] = frozenset()
    """Ids of access keys that are never accepted."""


class Cache(Generic[KeyT, ValueT]):
    """Keeps what `load` returned for some seconds, counted from before it was read.

    A change by another process counts after that time at the latest. A change by this process
    counts at once, because it calls `clear`. Failures are not kept.
    """

    def __init__(
        self, load: Callable[[KeyT], ValueT], runtime: Runtime, settings: AuthSettings
    ) -> None:
        self._runtime = runtime
        self._load = load
        self._seconds = settings.cache_seconds
        self._entries_max = settings.cache_entries_max
        self._entries: dict[KeyT, tuple[ValueT, float]] = {}
        self._lock = runtime.lock()
        self._clears = 0

    def get(self, key: KeyT) -> ValueT:
        """Return the value that is kept, or load it."""
        now = self._runtime.monotonic()
        entry = self._entries.get(key)
        if entry is not None and now < entry[1]:
            return entry[0]
        clears = self._clears
        value = self._load(key)
        with self._lock:
            # A value that was read before a change by this process must not be kept after it.
            if clears == self._clears:
                self._entries.pop(key, None)
                if len(self._entries) >= self._entries_max:
                    del self._entries[next(iter(self._entries))]
                self._entries[key] = value, now + self._seconds
        return value

    def clear(self) -> None:
        """Forget all values, and do not keep those that are being loaded now."""
        with self._lock:
            self._clears += 1
            self._entries.clear()
