"""A bounded map that evicts the least recently used values."""

from collections import OrderedDict
from typing import Generic, TypeVar

from lakebed.base.runtime import Runtime

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class LRU(Generic[KeyT, ValueT]):
    """Thread-safe map, bounded by the sum of the costs of its values.

    By default every value costs 1, so the bound is a number of values. Methods block only on a lock
    held only briefly.
    """

    def __init__(self, runtime: Runtime, *, cost_max: int) -> None:
        self._cost_max = cost_max
        self._lock = runtime.lock()
        self._entries: OrderedDict[KeyT, tuple[ValueT, int]] = OrderedDict()
        self.cost = 0
        """Total cost of the cached values."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: KeyT) -> ValueT | None:
        """Return a value and make it the most recently used, or return None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: KeyT, value: ValueT, *, cost: int = 1) -> None:
        """Cache a value, evicting the least recently used values to stay within the bound.

        A value that alone exceeds the bound is not cached.
        """
        with self._lock:
            self._drop(key)
            if cost > self._cost_max:
                return
            self._entries[key] = value, cost
            self.cost += cost
            while self.cost > self._cost_max:
                self._drop(next(iter(self._entries)))

    def pop(self, key: KeyT) -> ValueT | None:
        """Remove a value and return it, or None if missing."""
        with self._lock:
            return self._drop(key)

    def _drop(self, key: KeyT) -> ValueT | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        value, cost = entry
        self.cost -= cost
        return value
