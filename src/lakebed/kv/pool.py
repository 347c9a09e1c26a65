"""Connections for the threads of one store: few at first, more when they are all in use.

A call waits for a new connection for `TAKE_SECONDS` at most; after a failure to connect, for
`TAKE_AGAIN_SECONDS`. Then it fails, having changed nothing. So callers soon know that a database is
down. A database that answers and is busy is another matter: a call waits for `TURN_SECONDS` until
somebody gives a connection back.

A new connection is made by a thread of its own, which goes on when the call has given up. If it
succeeds after all, the next call gets the connection.

A connection that ended while it was idle, as all do when the server restarts, is replaced without
any call failing (unless it was used just a moment before: see `is_usable`).
"""

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition, Thread
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

from lakebed.kv.errors import KVError, StoreClosed, StoreUnavailable, StoreUnreachable

POOL_SIZE: Final = 20
"""How many connections a store has at most, unless its URL says otherwise."""

TAKE_SECONDS: Final = 2.5
"""Enough for a second host if the first does not answer: each gets up to two seconds."""

TAKE_AGAIN_SECONDS: Final = 1.0
TURN_SECONDS: Final = 10.0

_LOGGER: Final = logging.getLogger(__name__)


class Link(Protocol):
    """A connection."""

    def is_usable(self) -> bool:
        """Whether it is still open, as far as one can tell without asking the server."""

    def close(self) -> None:
        """Close it."""


LinkT = TypeVar("LinkT", bound=Link)


class Pool(Generic[LinkT]):
    """At most `size` connections; the one used last is used next.

    Args:
        connect: Makes a connection.
        size: How many there are at most.
        database: Its name, for messages.
        explain: What an error of `connect` means, in one line.
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
        """How many there are, idle or not, those included that are being made."""
        self._waiting = 0
        self._closed = False
        self._is_reachable = True
        self._process = os.getpid()

    def take(self, seconds: float | None = None) -> LinkT:
        """Take a connection, within a time if one is given; `give_back` must follow.

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
        connect_by = monotonic() + (seconds or self._connect_seconds())
        if link is None:
            link = self._wait_for_turn(connect_by, seconds or TURN_SECONDS)
            if link is not None and link.is_usable():
                return link
        if link is not None:
            link.close()  # another one is made in its place
        if seconds is None and self._is_reachable:
            # Others had all connections till now, which says nothing about the server.
            connect_by = monotonic() + TAKE_SECONDS
        return self._make(connect_by)

    def check_process(self) -> None:
        """Refuse a child of the process that made the pool.

        Raises:
            StoreClosed: This is one.
        """
        if os.getpid() != self._process:
            raise StoreClosed("the store was opened in another process")

    def _connect_seconds(self) -> float:
        return TAKE_SECONDS if self._is_reachable else TAKE_AGAIN_SECONDS

    def give_back(self, taken: LinkT, kept: LinkT | None) -> None:
        """Return a connection: itself, or another in its place, or none if it is broken."""
        if kept is not taken:
            taken.close()
        self._return(kept)

    def close(self) -> None:
        """Close the idle connections now, the others when they come back.

        Not in a child of the process that opened them: that would end the connections of the
        parent.
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
        # Without the lock, for which threads would wait for each other.
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _return(self, link: LinkT | None) -> None:
        """Let others have a connection, or the room of one that there is no more."""
        if link is None:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            return
        self._idle.append(link)
        # Only now: whoever waits said so before it found none, so one of us sees the other.
        if self._closed:
            self._close_idle()
        elif self._waiting:
            with self._changed:
                self._changed.notify()

    def _wait_for_turn(self, connect_by: float, seconds: float) -> LinkT | None:
        """Wait for the right to use a connection; return an idle one, or None to make a new one.

        If the server turns out to be unreachable meanwhile, the wait ends at `connect_by`.
        """
        with self._changed, self._said_to_wait():
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
                    raise self._unreachable("no answer in time")
                if now >= give_up_at:
                    raise StoreUnavailable(
                        f"all {self._size} connections to {self._database} were busy for"
                        f" {seconds:g} seconds"
                    )
                # Woken by whoever gives a connection back, or finds the server unreachable.
                self._changed.wait(
                    give_up_at - now if self._is_reachable else min(connect_by, give_up_at) - now
                )

    @contextmanager
    def _said_to_wait(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _make(self, give_up_at: float) -> LinkT:
        """Make a connection, by right of a turn that the caller has got."""
        attempt: Future[LinkT] = Future()
        thread = Thread(target=self._attempt, args=[attempt], name="lakebed-connect", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._return(None)
            raise self._unreachable(str(error)) from error
        try:
            return attempt.result(max(0.0, give_up_at - monotonic()))
        except BaseException as error:  # it failed, the time is over, or Ctrl-C
            if not attempt.cancel() and attempt.exception() is None:
                self._return(attempt.result())  # it came at this very moment
            if not isinstance(error, TimeoutError):
                raise
            self._note_unreachable()
            raise self._unreachable("no answer in time") from None

    def _note_unreachable(self) -> None:
        """Let everybody who waits know, so that nobody waits longer than for a connection."""
        with self._changed:
            self._is_reachable = False
            self._changed.notify_all()

    def _attempt(self, attempt: "Future[LinkT]") -> None:
        """Connect; whoever waited may have gone meanwhile, and then the turn is given back here."""
        try:
            link = self._connect()
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            self._note_unreachable()
            self._return(None)
            if attempt.set_running_or_notify_cancel():
                attempt.set_exception(self._failure(error))
            else:
                _LOGGER.debug("the attempt to connect that a call gave up on failed: %s", error)
            return
        self._is_reachable = True
        if attempt.set_running_or_notify_cancel():
            attempt.set_result(link)
        else:
            self._return(link)
            _LOGGER.info(
                "a slow connection to %s has come up after its call gave up", self._database
            )

    def _failure(self, error: BaseException) -> BaseException:
        """Return what to raise where somebody waits for a connection."""
        if isinstance(error, KVError) or not isinstance(error, Exception):
            return error
        failure = self._unreachable(self._explain(error))
        failure.__cause__ = error
        return failure

    def _unreachable(self, reason: str) -> StoreUnreachable:
        return StoreUnreachable(f"cannot connect to {self._database}: {reason}")
