"""One read of a record for many callers that want it at the same time.

Callers may share a read, but only one that *starts after* they asked. A read that is already under
way may return a state from before the call: a writer that checks whether its token is still current
could be misled by a read that began before it wrote.

So there are at most two reads of a record at a time: the one under way, and the next one, which is
for all who ask meanwhile and starts when the first is over.

Ctrl-C can break off a caller anywhere. If that one was to read for others, they ask anew.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed.base.runtime import Event, Runtime

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class _Batch(Generic[ValueT]):
    """Callers that share a read: the first of them makes it when its turn comes."""

    __slots__ = ("done", "error", "turn", "values")

    def __init__(self, runtime: Runtime) -> None:
        self.turn: Event = runtime.event()
        self.done: Event = runtime.event()
        self.values: list[ValueT] = []
        """The value that was read; empty after an error, or if the first was broken off."""
        self.error: Exception | None = None

    def read(self, read: Callable[[KeyT], ValueT], key: KeyT) -> None:
        try:
            self.values.append(read(key))
        except Exception as error:  # noqa: BLE001 - every caller of the batch raises it
            self.error = error


class SharedReads(Generic[KeyT, ValueT]):
    """Shares reads among the threads of a process."""

    def __init__(self, runtime: Runtime, read: Callable[[KeyT], ValueT]) -> None:
        self._runtime = runtime
        self._read = read
        self._lock = runtime.lock()
        # Keys being read, each with the batch that is to be read next, if anyone asked meanwhile.
        self._under_way: dict[KeyT, _Batch[ValueT] | None] = {}

    def get(self, key: KeyT) -> ValueT:
        """Return what a read of `key` returns that starts after this call; raise what it raises."""
        batch: _Batch[ValueT] | None = None
        reads = False
        try:
            with self._lock:
                if key not in self._under_way:
                    reads = True
                    self._under_way[key] = None
                else:
                    batch = self._under_way[key]
                    if batch is None:
                        batch = _Batch(self._runtime)
                        reads = True
                        self._under_way[key] = batch
            if batch is None:
                return self._read(key)
            if reads:
                batch.turn.wait()
                batch.read(self._read, key)
        finally:
            if reads:
                self._pass_on(key, batch)
        if not reads:
            batch.done.wait()
        if batch.error is not None:
            raise batch.error
        return batch.values[0] if batch.values else self.get(key)

    def _pass_on(self, key: KeyT, batch: _Batch[ValueT] | None) -> None:
        """Let the next batch begin, if there is one; wake the callers of the one that has ended.

        A batch whose first caller was broken off before its turn is the next one itself. Then the
        read that is under way goes on, with none behind it yet.
        """
        with self._lock:
            following = self._under_way.pop(key)
            if following is not None:
                self._under_way[key] = None
                following.turn.set()
        if batch is not None:
            batch.done.set()
