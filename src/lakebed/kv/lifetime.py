"""Check calls against a store's state and limits; release its resources after the last call."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.base.runtime import Runtime, about_to_wait
from lakebed.kv.errors import StoreClosed
from lakebed.kv.store import Limits, Put

OVERHEAD_BYTES: Final = 64
"""Size of a key in a request in addition to its bytes."""


@contextmanager
def closing_on_error(close: Callable[[], object]) -> Iterator[None]:
    """Call `close` if the block raises, as for an object that is being constructed."""
    try:
        yield
    except BaseException:
        close()
        raise


class Lifetime:
    """The time between opening and closing a store, in the process that opened it.

    A call that lost a reply needs the database to determine the outcome of its write, even if
    another thread closes the store meanwhile. So the last running call releases the resources.

    Args:
        runtime: Provides locks.
        give_back: Closes connections; called once.
        limits: Limits of the arguments.
        shared: Whether the store is shared between processes; then a forked child must not use it.
    """

    def __init__(
        self, runtime: Runtime, give_back: Callable[[], None], *, limits: Limits, shared: bool
    ) -> None:
        self._give_back = give_back
        self._limits = limits
        self._process = os.getpid() if shared else None
        self._lock = runtime.lock()
        self._running = 0
        self._closed = False

    def check(self, partition: bytes, key: bytes, value: bytes = b"") -> None:
        """Reject calls to a closed store, and arguments beyond the limits.

        Raises:
            StoreClosed: The store is closed, or was opened in another process.
            InvalidArgument: As `Limits.check`.
        """
        if self._closed:
            raise StoreClosed
        if self._process is not None and os.getpid() != self._process:
            raise StoreClosed("the store was opened in another process: open it again after a fork")
        self._limits.check(partition, key, value)

    def begin(self, partition: bytes, key: bytes = b"any", value: bytes = b"") -> None:
        """Check a network call outside `call`.

        Such a call reads back the outcome of its write on a connection that `close` leaves open.
        Raises as `check`.
        """
        self.check(partition, key, value)
        about_to_wait()

    def chunks(
        self, writes: Iterable[Put], *, keys_max: int, bytes_max: int
    ) -> Iterator[list[Put]]:
        """Check writes and split them into chunks; a write above `bytes_max` is its own chunk.

        Of several values of a key in a chunk the last one wins. Raises as `check`.
        """
        chunk: dict[tuple[bytes, bytes], Put] = {}
        size = 0
        for put in writes:
            partition, key, value, _, _ = put
            self.check(partition, key, value)
            added = len(partition) + len(key) + len(value) + OVERHEAD_BYTES
            if len(chunk) == keys_max or (chunk and size + added > bytes_max):
                yield list(chunk.values())
                chunk, size = {}, 0
            chunk[partition, key] = put
            size += added
        if chunk:
            yield list(chunk.values())

    @contextmanager
    def call(self, partition: bytes, key: bytes = b"any", value: bytes = b"") -> Iterator[None]:
        """Check a call before its network or disk access; keep the database open during the call.

        Raises as `check`.
        """
        self.check(partition, key, value)
        about_to_wait()
        with self._lock:
            if self._closed:
                raise StoreClosed
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                last = self._is_over()
            if last:
                self._give_back()

    def close(self) -> None:
        """Reject new calls; release the resources now, or when the last call ends."""
        with self._lock:
            was_open, self._closed = not self._closed, True
            idle = self._is_over()
        if was_open and idle:
            self._give_back()

    def _is_over(self) -> bool:
        return self._closed and self._running == 0
