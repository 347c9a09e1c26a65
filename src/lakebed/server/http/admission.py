"""Admission: a request gets a slot at once, or is refused at once.

A request that waits for a thread of the server cannot be refused, and waits for as long as the
slowest. So there are more threads than slots: the threads left over are those that say no. The
requests that move the bytes of objects last as long as their clients are slow, and have slots of
their own, so that they cannot keep the others out.
"""

from threading import BoundedSemaphore

from lakebed.errors import LakebedError
from lakebed.server.http.logs import Trace
from lakebed.server.http.metrics import REFUSED
from lakebed.server.settings import LimitSettings


class Overloaded(LakebedError):  # noqa: N818 - it says what happened
    """The server has as much to do as it may take on; nothing was done. Answered by 503."""

    kind = "overloaded"

    def __init__(self, slot: str) -> None:
        super().__init__(f"the server is busy: all its slots for {slot} are taken; try again soon")


class Admission:
    """The slots of one worker."""

    def __init__(self, limits: LimitSettings) -> None:
        self._work = _Slots("work", limits.work_slots, limits.queue_seconds)
        self._transfers = _Slots("transfers", limits.transfer_slots, limits.queue_seconds)

    def admit_work(self, trace: Trace) -> None:
        """Take a slot for a request that works on metadata, until the request's end.

        Raises:
            Overloaded: None is free.
        """
        self._work.take(trace)

    def admit_transfer(self, trace: Trace) -> None:
        """Take a slot for a request that moves the bytes of an object, until the request's end.

        Raises:
            Overloaded: None is free.
        """
        self._transfers.take(trace)


class _Slots:
    def __init__(self, name: str, count: int, queue_seconds: float) -> None:
        self._name = name
        self._queue_seconds = queue_seconds
        self._free = BoundedSemaphore(count)
        self._refused = REFUSED.labels(name)

    def take(self, trace: Trace) -> None:
        if not self._free.acquire(timeout=self._queue_seconds):
            self._refused.inc()
            raise Overloaded(self._name)
        trace.at_end(self._free.release)
