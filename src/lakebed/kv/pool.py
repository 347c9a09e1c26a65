"""Connection pool of a store; it grows on demand.

A call waits at most `TAKE_SECONDS` for a new connection; after a failure to connect,
`RETAKE_SECONDS`. Then it fails without having changed anything, so callers soon see that a
database is down. If the database is reachable but all connections are busy, a call waits up to
`BUSY_SECONDS` for a returned connection.

Each connection is made by its own thread, which continues after the call has given up. If it
succeeds later, the next call gets the connection.

A connection that ended while idle, as after a restart of the server, is replaced without a failed
call (unless it was used just before: see `is_usable`).
"""

import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition, Thread
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

from lakebed.kv.errors import KVError, StoreClosed, StoreUnavailable, StoreUnreachable

POOL_SIZE: Final = 20
"""Default for the maximum number of connections of a store."""

TAKE_SECONDS: Final = 2.5
"""Enough for a second host if the first does not answer: each gets up to two seconds."""

RETAKE_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 10.0

_LOGGER: Final = logging.getLogger(__name__)


class Link(Protocol):
    """A connection."""

    def is_usable(self) -> bool:
        """Return whether the connection is open, as far as known without calling the server."""

    def close(self) -> None:
        """Close the connection."""


LinkT = TypeVar("LinkT", bound=Link)


class Pool(Generic[LinkT]):
    """At most `size` connections; the most recently used is reused first.

    Args:
        connect: Makes a connection.
        size: Maximum number of connections.
        database: Database name, for messages.
        explain: Returns a one-line message for an error of `connect`.
    """

    def __init__(
        self,
        connect: Callable[[], LinkT],
        size: int,
        *,
        database: str,
        explain: Callable[[BaseException], str],
    ) -> None:
        self._connect = connect
        self._size = size
        self._database = database
        self._explain = explain
        self._changed = Condition()
        self._idle: list[LinkT] = []
        self._count = 0
        """Number of connections: idle, in use, and being made."""
        self._waiting = 0
        self._closed = False
        self._is_reachable = True
        self._process = os.getpid()

    def take(self, seconds: float | None = None) -> LinkT:
        """Take a connection, within `seconds` if given; `give_back` must follow.

        Raises:
            StoreClosed: The pool was closed.
            StoreUnavailable: All connections are busy; `StoreUnreachable`: the server cannot be
                reached.
        """
        self.check_process()
        if self._closed:
            raise StoreClosed
        link = self._pop_idle()
        if link is not None and link.is_usable():
            return link
        usual = TAKE_SECONDS if self._is_reachable else RETAKE_SECONDS
        connect_by = monotonic() + (seconds or usual)
        if link is None:
            link = self._wait_for_connection(connect_by, seconds or BUSY_SECONDS)
            if link is not None and link.is_usable():
                return link
        if link is not None:
            link.close()  # replaced by a new connection
        if seconds is None and self._is_reachable:
            # All connections were in use until now, which tells nothing about the server.
            connect_by = monotonic() + TAKE_SECONDS
        return self._make(connect_by)

    def check_process(self) -> None:
        """Reject calls in a child of the process that made the pool."""
        if os.getpid() != self._process:
            raise StoreClosed("the store was opened in another process: open it again after a fork")

    def give_back(self, taken: LinkT, kept: LinkT | None) -> None:
        """Return a connection, or its replacement, or None if it is broken."""
        if kept is not taken:
            taken.close()
        self._return(kept)

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned.

        A no-op in a forked child: closing would end the connections of the parent.
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._close_idle()

    def _close_idle(self) -> None:
        while (link := self._pop_idle()) is not None:
            link.close()

    def _pop_idle(self) -> LinkT | None:
        # Without the lock, to avoid contention.
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _return(self, link: LinkT | None) -> None:
        """Make a connection available to other threads, or free its slot if None."""
        if link is None:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            return
        self._idle.append(link)
        # Only after the append: waiting threads increment `_waiting` before they look for an idle
        # connection, so either this thread sees the waiter or the waiter sees the connection.
        if self._closed:
            self._close_idle()
        elif self._waiting:
            with self._changed:
                self._changed.notify()

    def _wait_for_connection(self, connect_by: float, seconds: float) -> LinkT | None:
        """Wait for an idle connection or a free slot; return the connection, or None for a slot.

        If the server becomes unreachable meanwhile, the wait ends at `connect_by`.
        """
        with self._changed, self._counted_as_waiting():
            give_up_at = monotonic() + seconds
            while True:
                if self._closed:
                    raise StoreClosed
                link = self._pop_idle()
                if link is not None:
                    return link
                if self._count < self._size:
                    self._count += 1
                    return None
                now = monotonic()
                if not self._is_reachable and now >= connect_by:
                    raise self._unreachable("timed out")
                if now >= give_up_at:
                    raise StoreUnavailable(
                        f"all {self._size} connections to {self._database} were busy for"
                        f" {seconds:g} seconds"
                    )
                # Woken when a connection is returned, or the server found unreachable.
                self._changed.wait(
                    give_up_at - now if self._is_reachable else min(connect_by, give_up_at) - now
                )

    @contextmanager
    def _counted_as_waiting(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _make(self, give_up_at: float) -> LinkT:
        """Make a connection in the slot taken by the caller."""
        attempt: Future[LinkT] = Future()
        thread = Thread(target=self._attempt, args=[attempt], name="lakebed-connect", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread left in the system
            self._return(None)
            raise self._unreachable(str(error)) from error
        try:
            return attempt.result(max(0.0, give_up_at - monotonic()))
        except BaseException as error:  # connection failure, timeout or Ctrl-C
            if not attempt.cancel() and attempt.exception() is None:
                self._return(attempt.result())  # it succeeded at this very moment
            if not isinstance(error, TimeoutError):
                raise
            self._note_unreachable()
            raise self._unreachable("timed out") from None

    def _note_unreachable(self) -> None:
        """Wake all waiting threads: their time limit is now that of a new connection."""
        with self._changed:
            self._is_reachable = False
            self._changed.notify_all()

    def _attempt(self, attempt: "Future[LinkT]") -> None:
        """Connect; if the call has given up meanwhile, free the slot here."""
        try:
            link = self._connect()
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            self._note_unreachable()
            self._return(None)
            if attempt.set_running_or_notify_cancel():
                attempt.set_exception(self._failure(error))
            else:
                _LOGGER.debug("an abandoned attempt to connect failed: %s", error)
            return
        self._is_reachable = True
        if attempt.set_running_or_notify_cancel():
            attempt.set_result(link)
        else:
            self._return(link)
            _LOGGER.info(
                "a slow connection to %s was made after its call had timed out", self._database
            )

    def _failure(self, error: BaseException) -> BaseException:
        """Return the exception to raise in the thread that waits for the connection."""
        if isinstance(error, KVError) or not isinstance(error, Exception):
            return error
        failure = self._unreachable(self._explain(error))
        failure.__cause__ = error
        return failure

    def _unreachable(self, reason: str) -> StoreUnreachable:
        return StoreUnreachable(f"cannot connect to {self._database}: {reason}")


def bound_by_kernel(connected: socket.socket, seconds: float) -> None:
    """Limit each operation on a blocking socket; on time-out it fails with `EAGAIN`.

    Python's own time-outs poll before each operation, and each poll lets other threads run first.
    With many threads, this takes longer than the rest of a call.
    """
    bound = struct.pack("ll", *divmod(int(seconds * 1_000_000), 1_000_000))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connected.setsockopt(socket.SOL_SOCKET, option, bound)
