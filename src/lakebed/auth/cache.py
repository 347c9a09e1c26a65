"""A small cache of what was read lately. What it returns is at most some seconds old."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakebed.auth.errors import AuthenticationFailed
from lakebed.base.runtime import Runtime

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")
KeptT = TypeVar("KeptT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthCacheSettings:
    """Settings of users and permissions."""

    cache_seconds: float = 5.0
    """How long this process may still go by what another one has changed; 0: not at all."""

    cache_entries_max: int = 1024
    """How many access keys, unknown ones, tokens and users a process remembers, of each so many."""

    refused: frozenset[str] = frozenset()
    """Ids of access keys that are never accepted."""


class ExpiringCache(Generic[KeyT, ValueT]):
    """Keeps what `load` returned for some seconds, counted from before it was read.

    A change by another process counts after that time at the latest. A change by this process
    counts at once, because it calls `clear`. Failures are not kept.
    """

    def __init__(
        self,
        load: Callable[[KeyT], ValueT],
        runtime: Runtime,
        settings: AuthCacheSettings,
        *,
        keeps_failures: bool = False,
    ) -> None:
        self._runtime = runtime
        self._load = load
        self._seconds = settings.cache_seconds
        self._entries_max = settings.cache_entries_max
        self._entries: dict[KeyT, tuple[ValueT, float]] = {}
        self._keeps_failures = keeps_failures
        self._failures: dict[KeyT, tuple[str, float]] = {}
        """The reason, and until when it is kept."""
        self._lock = runtime.lock()
        self._clears = 0

    def get(self, key: KeyT) -> ValueT:
        """Return the value that is kept, or load it.

        Raises:
            AuthenticationFailed: Loading failed so, now or within the last seconds.
            Exception: Whatever `load` raises.
        """
        now = self._runtime.monotonic()
        entry = self._entries.get(key)
        if entry is not None and now < entry[1]:
            return entry[0]
        failure = self._failures.get(key)
        if failure is not None and now < failure[1]:
            raise AuthenticationFailed(failure[0])
        clears = self._clears
        try:
            value = self._load(key)
        except AuthenticationFailed as error:
            if self._keeps_failures:
                self._keep(self._failures, key, (error.reason, now + self._seconds), clears)
            raise
        self._keep(self._entries, key, (value, now + self._seconds), clears)
        return value

    def _keep(self, kept: dict[KeyT, KeptT], key: KeyT, value: KeptT, clears: int) -> None:
        with self._lock:
            # A value that was read before a change by this process must not be kept after it.
            if clears == self._clears:
                kept.pop(key, None)
                if len(kept) >= self._entries_max:
                    del kept[next(iter(kept))]
                kept[key] = value

    def clear(self) -> None:
        """Forget all values, and do not keep those that are being loaded now."""
        with self._lock:
            self._clears += 1
            self._entries.clear()
            self._failures.clear()
