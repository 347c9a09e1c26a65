"""When and with what a store may be called, and when what it holds may be given back."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.base.runtime import Runtime, about_to_wait
from lakebed.kv.errors import StoreClosed
from lakebed.kv.store import Limits, Put

OVERHEAD_BYTES: Final = 64
"""What a key takes in a request beyond its bytes."""


class Lifetime:
    """The time from opening a store to its close, in the process that opened it.

    A call that lost a reply needs the database to settle what became of its write, even if another
    thread closed the store meanwhile. So the last call gives back what is held.

    Args:
        runtime: For its locks.
        give_back: Closes connections; called once.
        limits: What the store holds; larger arguments are refused.
        shared: Whether the store is shared between processes, so that a child made by ``fork`` must
            not use it.
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
        """Refuse a call to a closed store, and what the store could not hold.

        Raises:
            StoreClosed: It is closed, or was opened in another process.
            InvalidArgument: As `Limits.check`.
        """
        if self._closed:
            raise StoreClosed
        if self._process is not None and os.getpid() != self._process:
            raise StoreClosed("the store was opened in another process")
        self._limits.check(partition, key, value)

    def begin(self, partition: bytes, key: bytes = b"any", value: bytes = b"") -> None:
        """Check a call that waits for the network, and can do without `call`.

        It settles what became of its write by a connection that `close` does not take from it.

        Raises:
            StoreClosed: As `check`.
            InvalidArgument: As `check`.
        """
        self.check(partition, key, value)
        about_to_wait()

    def chunks(
        self, writes: Iterable[Put], *, keys_max: int, bytes_max: int
    ) -> Iterator[list[Put]]:
        """Check writes, and give them out in chunks; one too large is a chunk of its own.

        The last value of a key in a chunk replaces those before.

        Raises:
            StoreClosed: As `check`.
            InvalidArgument: As `check`.
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
        """Keep the database open while a call lasts, which waits for the network or the disk.

        Raises:
            StoreClosed: The store is closed.
            InvalidArgument: As `check`.
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
        """Let no new call begin; give back what is held now, or when the last call ends."""
        with self._lock:
            was_open, self._closed = not self._closed, True
            idle = self._is_over()
        if was_open and idle:
            self._give_back()

    def _is_over(self) -> bool:
        return self._closed and self._running == 0
