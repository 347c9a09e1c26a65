"""One read of a record for many callers that want it at the same time.

Callers may share a read, but only one that *starts after* they asked. A read that is already under
way may return a state from before the call: a writer that checks whether its token is still current
could be misled by a read that began before it wrote.

So there are at most two reads of a record at a time: the one under way, and the next one, which is
for all who ask meanwhile and starts when the first is over.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed.kv import StoreUnavailable
from lakebed.runtime import Event, Runtime

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class _Batch(Generic[ValueT]):
    """Callers that share a read: the first of them makes it when its turn comes."""

    __slots__ = ("done", "error", "turn", "value")

    def __init__(self, runtime: Runtime) -> None:
        self.turn: Event = runtime.event()
        self.done: Event = runtime.event()
        self.value: ValueT | None = None
        # Until the read is made: if its reader dies, the others get an error, not an empty answer.
        self.error: Exception | None = StoreUnavailable("a shared read was given up")


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
        with self._lock:
            if key not in self._under_way:
                self._under_way[key] = None
                batch = None
                leads = True
            else:
                batch = self._under_way[key]
                leads = batch is None
                if batch is None:
                    batch = self._under_way[key] = _Batch(self._runtime)
        if batch is None:
            return self._read_now(key)
        if leads:
            batch.turn.wait()
            self._read_for(key, batch)
        else:
            batch.done.wait()
        if batch.error is not None:
            raise batch.error
        return batch.value  # type: ignore[return-value]  # set, where there is no error

    def _read_now(self, key: KeyT) -> ValueT:
        try:
            return self._read(key)
        finally:
            self._pass_on(key)

    def _read_for(self, key: KeyT, batch: _Batch[ValueT]) -> None:
        try:
            batch.value = self._read_now(key)
            batch.error = None
        except Exception as error:  # noqa: BLE001 - every caller of the batch raises it
            batch.error = error
        finally:
            batch.done.set()

    def _pass_on(self, key: KeyT) -> None:
        """Let the next batch begin, if there is one."""
        with self._lock:
            following = self._under_way.pop(key)
            if following is not None:
                self._under_way[key] = None
                following.turn.set()
