"""A small cache of recent reads with bounded staleness."""

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
    """Maximum staleness after a change by another process; 0: no cache."""

    cache_entries_max: int = 1024
    """Maximum number of cached entries, each for access keys, unknown keys, tokens and users."""

    refused: frozenset[str] = frozenset()
    """Ids of access keys that are never accepted."""


class ExpiringCache(Generic[KeyT, ValueT]):
    """Cache of the results of `load`, valid for some seconds from before the read.

    A change by another process is visible after that time at the latest. A change by this process
    is visible at once, because it calls `clear`. Failures are not cached by default.
    """

    def __init__(
        self,
        load: Callable[[KeyT], ValueT],
        runtime: Runtime,
        settings: AuthCacheSettings,
        *,
        caches_failures: bool = False,
    ) -> None:
        self._runtime = runtime
        self._load = load
        self._seconds = settings.cache_seconds
        self._entries_max = settings.cache_entries_max
        self._entries: dict[KeyT, tuple[ValueT, float]] = {}
        self._caches_failures = caches_failures
        self._failures: dict[KeyT, tuple[str, float]] = {}
        """The reason, and its time of expiry."""
        self._lock = runtime.lock()
        self._clears = 0

    def get(self, key: KeyT) -> ValueT:
        """Return the cached value, or load the value.

        Raises:
            AuthenticationFailed: Loading failed, now or within the last seconds.
            Exception: As raised by `load`.
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
            if self._caches_failures:
                self._keep(self._failures, key, (error.reason, now + self._seconds), clears)
            raise
        self._keep(self._entries, key, (value, now + self._seconds), clears)
        return value

    def _keep(self, kept: dict[KeyT, KeptT], key: KeyT, value: KeptT, clears: int) -> None:
        with self._lock:
            # Do not cache a value read before a change by this process.
            if clears == self._clears:
                kept.pop(key, None)
                if len(kept) >= self._entries_max:
                    del kept[next(iter(kept))]
                kept[key] = value

    def clear(self) -> None:
        """Forget all values, and do not cache values that are being loaded."""
        with self._lock:
            self._clears += 1
            self._entries.clear()
            self._failures.clear()
