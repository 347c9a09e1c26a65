"""Metrics for Prometheus that cost a request little.

They are those of ``prometheus_client``, made and collected as ever. Where several processes serve
(see `lakebed.server.http.metrics`), the library keeps each number in a file of its process, and
spends more on finding the place than on writing there. A request changes about ten of them. So here
a change goes straight to its place: that takes a third of the time.
"""

import os
import struct
from bisect import bisect_left
from threading import Lock
from typing import Any, Final

import prometheus_client
from prometheus_client import values

_write: Final = struct.Struct("dd").pack_into


class _Shared:
    """What all values of a process share."""

    lock = Lock()
    first: "Any" = None
    """Any value; what the library does to one after a fork, it does to all."""


def _file_value(library_value: Any) -> Any:
    """Return the library's class for a number in a file, with cheaper changes."""

    class FileValue(library_value):  # type: ignore[misc]  # a class that the library makes
        """A number, and its place in the file of this process."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            _Shared.first = self

        def inc(self, amount: float) -> None:
            with _Shared.lock:
                self._value += amount
                file = self._file
                _write(file._m, file._positions[self._key], self._value, 0.0)  # noqa: SLF001

        def set(self, value: float, timestamp: float | None = None) -> None:
            with _Shared.lock:
                super().set(value, timestamp)

        def follow_fork(self) -> None:
            """Go on in files of this process; the library does that when it is asked."""
            super().get()

    return FileValue


def _follow_fork() -> None:
    _Shared.lock = Lock()  # another thread of the parent may have held it
    if _Shared.first is not None:
        _Shared.first.follow_fork()


if getattr(values.ValueClass, "_multiprocess", False):
    values.ValueClass = _file_value(values.ValueClass)
    os.register_at_fork(after_in_child=_follow_fork)


class Counter(prometheus_client.Counter):
    """A number that grows."""

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:  # noqa: ARG002
        """Add to it; `amount` is not negative."""
        self._value.inc(amount)


class Gauge(prometheus_client.Gauge):
    """A number that grows and falls."""

    def inc(self, amount: float = 1) -> None:
        """Add to it."""
        self._value.inc(amount)

    def dec(self, amount: float = 1) -> None:
        """Take from it."""
        self._value.inc(-amount)


class Histogram(prometheus_client.Histogram):
    """How often a number was how large."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:  # noqa: ARG002
        """Count a number."""
        self._sum.inc(amount)
        self._buckets[bisect_left(self._upper_bounds, amount)].inc(1)
