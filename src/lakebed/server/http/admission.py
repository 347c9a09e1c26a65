"""Admission: a request gets a slot at once, or is refused at once.

A request that waits for a thread of the server cannot be refused, and waits for as long as the
slowest. So there are more threads than slots: the threads that are left over refuse requests.
Requests that move the bytes of objects last as long as their clients are slow. They have slots of
their own, so that they cannot keep the others out.
"""

from threading import BoundedSemaphore

from lakebed.errors import LakebedError
from lakebed.server.http.metrics import REFUSED, SLOTS, SLOTS_USED
from lakebed.server.http.request import RequestRecord
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

    def admit_work(self, record: RequestRecord) -> None:
        """Take a slot for a request that works on metadata, until the request's end.

        Raises:
            Overloaded: None is free.
        """
        self._work.take(record)

    def admit_transfer(self, record: RequestRecord) -> None:
        """Take a slot for a request that moves the bytes of an object, until the request's end.

        Raises:
            Overloaded: None is free.
        """
        self._transfers.take(record)


class _Slots:
    def __init__(self, name: str, count: int, queue_seconds: float) -> None:
        self._name = name
        self._queue_seconds = queue_seconds
        self._free = BoundedSemaphore(count)
        self._refused = REFUSED.labels(name)
        self._used = SLOTS_USED.labels(name)
        SLOTS.labels(name).set(count)

    def take(self, record: RequestRecord) -> None:
        if not self._free.acquire(timeout=self._queue_seconds):
            self._refused.inc()
            raise Overloaded(self._name)
        self._used.inc()
        record.at_end(self._give_back)

    def _give_back(self) -> None:
        self._used.dec()
        self._free.release()
