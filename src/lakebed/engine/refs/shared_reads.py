"""Shared reads: one read of a record for many concurrent callers.

Callers may share only a read that *starts after* their calls. A read already in progress may return
a state from before the call: a writer checking that its token is still current could be misled by a
read from before its write.

So a record has at most two reads at a time: the current read, and the next, which starts when the
current read ends and serves all callers that arrived meanwhile.

Ctrl-C can interrupt a caller anywhere. If this caller was to read for the rest, these repeat the
call.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed.base.runtime import Event, Runtime

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class _Batch(Generic[ValueT]):
    """Callers that share a read; the first of them reads when the current read ends."""

    __slots__ = ("done", "error", "is_next", "values")

    def __init__(self, runtime: Runtime) -> None:
        self.is_next: Event = runtime.event()
        self.done: Event = runtime.event()
        self.values: list[ValueT] = []
        """The value read; empty after an error, or if the first caller was interrupted."""
        self.error: Exception | None = None

    def read(self, read: Callable[[KeyT], ValueT], key: KeyT) -> None:
        try:
            self.values.append(read(key))
        except Exception as error:  # noqa: BLE001 - every caller of the batch raises it
            self.error = error


class SharedReads(Generic[KeyT, ValueT]):
    """Shared reads among the threads of a process."""

    def __init__(self, runtime: Runtime, read: Callable[[KeyT], ValueT]) -> None:
        self._runtime = runtime
        self._read = read
        self._lock = runtime.lock()
        # Keys being read, each with the next batch, or None if no caller waits.
        self._under_way: dict[KeyT, _Batch[ValueT] | None] = {}

    def get(self, key: KeyT) -> ValueT:
        """Return the result of a read of `key` that starts after this call, or raise its error."""
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
                batch.is_next.wait()
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
        """Start the next batch, if any; wake the callers of the ended batch.

        If the first caller of a batch is interrupted before its read, the ended batch is itself the
        next. Then the current read continues, without a batch behind it.
        """
        with self._lock:
            following = self._under_way.pop(key)
            if following is not None:
                self._under_way[key] = None
                following.is_next.set()
        if batch is not None:
            batch.done.set()
