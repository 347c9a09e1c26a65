"""A small cache of what was read lately, and how stale it may be."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.runtime import Runtime

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """What an installation may set about users and permissions."""

    cache_seconds: float = 5.0
    """How long a process may still let in whom another one has shut out; 0: not at all."""

    cache_entries_max: int = 1024
    """How many access keys, tokens and users, each, a process remembers."""

    refused: frozenset[str] = frozenset()
    """Access keys that open nothing here, whoever has them."""


class Cache(Generic[KeyT, ValueT]):
    """Keeps what `load` returned for some seconds, counted from before it was read.

    So nothing is answered that was changed more than that long ago, by whomever; and nothing that
    this process changed before it called `clear`. Failures are not kept.
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
        """Return what is kept, or load it."""
        now = self._runtime.monotonic()
        entry = self._entries.get(key)
        if entry is not None and now < entry[1]:
            return entry[0]
        clears = self._clears
        value = self._load(key)
        with self._lock:
            # What was read before a change of our own must not outlive it.
            if clears == self._clears:
                self._entries.pop(key, None)
                if len(self._entries) >= self._entries_max:
                    del self._entries[next(iter(self._entries))]
                self._entries[key] = value, now + self._seconds
        return value

    def clear(self) -> None:
        """Forget everything, also what is being loaded."""
        with self._lock:
            self._clears += 1
            self._entries.clear()
