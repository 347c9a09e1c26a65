"""Connections for the threads of one store: few at first, more when they are all in use.

Connections are made by the thread that needs one, so that its call fails with the reason, and not
in the background. A connection that ended while it was idle, as all do when the server restarts,
is replaced without any call failing (unless it was used just a moment before: see `Link`).
"""

import os
from collections.abc import Callable
from threading import Condition
from typing import Final

import psycopg

from lakebed.kv.drivers.postgresql.link import Link
from lakebed.kv.errors import StoreClosed, StoreUnavailable

POOL_SIZE: Final = 20
TURN_SECONDS: Final = 10.0


class Pool:
    """At most `POOL_SIZE` connections; the one used last is used next."""

    def __init__(self, connect: Callable[[], Link]) -> None:
        self._connect = connect
        self._changed = Condition()
        self._idle: list[Link] = []
        self._in_use = 0
        self._closed = False
        self._process = os.getpid()

    def take(self) -> Link:
        """Take a connection; `give_back` must follow.

        Raises:
            StoreClosed: The pool was closed.
            StoreUnavailable: The server cannot be reached, or all connections are busy.
        """
        if os.getpid() != self._process:
            raise StoreClosed("the store was opened in another process")
        link = self._wait_for_turn()
        if link is not None and link.is_usable():
            return link
        made: Link | None = None
        try:
            made = self._connect()
        except psycopg.Error as error:
            raise StoreUnavailable(f"cannot connect to postgresql: {explain(error)}") from error
        finally:
            if link is not None:
                link.close()
            if made is None:
                self._return(None)
        return made

    def give_back(self, taken: Link, kept: Link | None) -> None:
        """Return a connection: itself, or another in its place, or none if it is broken."""
        if kept is not taken:
            taken.close()
        self._return(kept)

    def close(self) -> None:
        """Close the idle connections now, the others when they come back.

        Not in a child of the process that opened them: the server would take that for the parent's
        farewell.
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for link in idle:
            link.close()

    def _return(self, link: Link | None) -> None:
        with self._changed:
            self._in_use -= 1
            self._changed.notify()
            if link is not None and not self._closed:
                self._idle.append(link)
                return
        if link is not None:
            link.close()

    def _wait_for_turn(self) -> Link | None:
        """Wait for the right to use a connection; return an idle one, or None to make a new one."""
        with self._changed:
            if not self._changed.wait_for(self._has_turn, TURN_SECONDS):
                raise StoreUnavailable(
                    f"all {POOL_SIZE} connections to postgresql were busy for {TURN_SECONDS} s"
                )
            if self._closed:
                raise StoreClosed
            self._in_use += 1
            return self._idle.pop() if self._idle else None

    def _has_turn(self) -> bool:
        # Idle connections count too: together they never exceed the size of the pool.
        return self._closed or bool(self._idle) or self._in_use < POOL_SIZE


def explain(error: psycopg.Error) -> str:
    """What went wrong, in one line."""
    message = error.diag.message_primary or str(error)
    return " ".join(message.split()) or type(error).__name__
