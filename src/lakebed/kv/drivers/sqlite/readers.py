"""Connections for reading, shared by the threads of a store."""

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from lakebed.kv.drivers.sqlite.file import DatabaseFile
from lakebed.kv.errors import StoreClosed
from lakebed.kv.store import Item

ResultT = TypeVar("ResultT")
Row = tuple[Any, ...]

as_item = cast("Callable[[Row], Item]", partial(tuple.__new__, Item))
"""As ``Item._make``, without a frame of Python for each row."""


class Readers:
    """A pool of idle connections; the one used last, whose cache is warm, goes first.

    A query is always read to its end, so that no connection keeps a snapshot: it would show old
    data and keep the log from being emptied.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._process = os.getpid()

    def fetch(self, query: str, parameters: Row) -> list[Row]:
        """Return the rows of a query; raises as `fetch_items`."""
        return self._fetch(query, parameters, tuple)

    def fetch_items(self, query: str, parameters: Row) -> list[Item]:
        """Return the rows of a query, which has the columns of an item.

        Raises:
            StoreUnavailable: SQLite could not answer.
            StoreClosed: The pool was closed.
        """
        return self._fetch(query, parameters, as_item)

    def _fetch(self, query: str, parameters: Row, make: Callable[[Row], ResultT]) -> list[ResultT]:
        connection = self._take()
        try:
            # Each row is made into its result at once: twice the objects would mean twice the work
            # for the garbage collector, which costs more than the query.
            rows = list(map(make, connection.execute(query, parameters)))
        except sqlite3.Error as error:
            connection.close()
            raise self._file.failure(error) from error
        self._give_back(connection)
        return rows

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they come back."""
        self._closed = True
        if os.getpid() == self._process:
            self._close_idle()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed
        if os.getpid() != self._process:
            # SQLite forbids to use a connection in a child, even to close it.
            raise StoreClosed("the store was opened in another process")

    def _take(self) -> sqlite3.Connection:
        self._check_open()
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return self._file.connect()
        except sqlite3.Error as error:
            raise self._file.failure(error) from error

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        # In this order: either we see that the pool was closed, or close() sees this connection.
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return
