"""Admission: a request gets a slot at once, or is refused at once.

A request that waits for a thread of the server cannot be refused, and waits for as long as the
slowest. So there are more threads than slots: the threads that are left over refuse requests, and
answer those that need no slot, such as health checks. Nothing that may last is done without a slot.

There are three kinds:

- *work*: requests for metadata;
- *transfers*: requests that move the bytes of objects, and last as long as their clients are slow;
- *bodies*: requests for metadata whose body is not there yet. They leave their slot for work to
  others for as long as they wait.

Bodies that are kept whole take memory until their request ends. All of them together are bounded.

**Nobody gets all slots.** One user holds at most three quarters of the slots of a kind, and of the
memory for bodies. For slots, all who are not signed in count as one user, since it is easy to have
many addresses; one address of theirs holds at most three quarters of that.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.errors import LakebedError
from lakebed.server.http.metrics import REFUSED, SLOTS, SLOTS_USED
from lakebed.server.http.request import RequestRecord
from lakebed.server.settings import LimitSettings

Holder = tuple[str, str]
"""A user, or an address of somebody who is not signed in; the other one is empty."""

_STRANGERS: Final[Holder] = ("", "all")
"""All who are not signed in, counted together."""
_NOBODY: Final[Holder] = ("", "")
"""Who asks is not known yet; that lasts for a moment only."""
_LARGEST_AT_ONCE: Final = 4
"""How many bodies of the largest size may be kept at once."""


class Overloaded(LakebedError):  # noqa: N818 - it says what happened
    """The server has as much to do as it may take on; nothing was done. Answered by 503."""

    kind = "overloaded"


class Admission:
    """The slots of one worker."""

    def __init__(self, limits: LimitSettings) -> None:
        self._work = _Slots("work", limits.work_slots, limits.queue_seconds)
        self._transfers = _Slots("transfers", limits.transfer_slots, limits.queue_seconds)
        self._bodies = _Slots("bodies", limits.body_slots, limits.queue_seconds)
        self._memory = _Memory(_LARGEST_AT_ONCE * limits.json_bytes_max)

    def admit_work(self, record: RequestRecord) -> None:
        """Take a slot for a request that works on metadata, until the request's end.

        Raises:
            Overloaded: None is free.
        """
        self._admit(record, self._work, self._bodies)

    def admit_transfer(self, record: RequestRecord) -> None:
        """Take a slot for a request that moves the bytes of an object, until the request's end.

        Raises:
            Overloaded: None is free.
        """
        self._admit(record, self._transfers, self._transfers)

    def claim(self, record: RequestRecord) -> None:
        """Count the slot of a request for its user, or for its address; they are known now.

        Raises:
            Overloaded: The user, or the address, holds as many as one may.
        """
        assert isinstance(record.slot, _Held), "it was admitted"
        record.slot.claim((record.user, "" if record.user else record.client))

    def _admit(self, record: RequestRecord, slots: "_Slots", for_body: "_Slots") -> None:
        record.slot = held = _Held(slots, for_body, self._memory)
        record.at_end(held.end)


class _Held:
    """The slot that one request holds."""

    def __init__(self, slots: "_Slots", for_body: "_Slots", memory: "_Memory") -> None:
        self._now: _Slots | None = None
        self._slots = slots
        self._for_body = for_body
        self._memory = memory
        self._bytes = 0
        self._holder = _NOBODY
        self._take(slots)

    def claim(self, holder: Holder) -> None:
        self._holder = self._slots.change_holder(self._holder, holder)

    @contextmanager
    def while_reading(self, size: int) -> Iterator[None]:
        """Hold a slot for bodies instead, if that is another one, and memory until the end.

        Raises:
            Overloaded: No slot for bodies is free, or none for work afterwards, or no memory.
        """
        self._memory.take(size, self._holder)
        self._bytes += size
        if self._for_body is self._slots:
            yield
            return
        self._take(self._for_body)
        yield
        self._take(self._slots)

    def end(self) -> None:
        self._memory.give_back(self._bytes, self._holder)
        self._leave()

    def _leave(self) -> None:
        if self._now is not None:
            self._now.give_back(self._holder)
            self._now = None

    def _take(self, slots: "_Slots") -> None:
        self._leave()
        slots.take(self._holder)
        self._now = slots


class _Slots:
    """The slots of one kind."""

    def __init__(self, name: str, count: int, queue_seconds: float) -> None:
        self._name = name
        self._count = count
        self._share = share_of(count)
        self._queue_seconds = queue_seconds
        self._free = threading.BoundedSemaphore(count)
        self._lock = threading.Lock()
        self._held: Counter[Holder] = Counter()
        self._refused = REFUSED.labels(name)
        self._used = SLOTS_USED.labels(name)
        SLOTS.labels(name).set(count)

    def take(self, holder: Holder) -> None:
        if not self._free.acquire(timeout=self._queue_seconds):
            self._refused.inc()
            raise Overloaded(
                f"the server is busy: all its slots for {self._name} are taken; try again soon"
            )
        try:
            self.change_holder(_NOBODY, holder)
        except Overloaded:
            self._free.release()
            raise
        self._used.inc()

    def change_holder(self, before: Holder, after: Holder) -> Holder:
        """Count a slot for somebody else than before; return that one."""
        with self._lock:
            for each, share in self._shares(after):
                if self._held[each] >= share:
                    self._refused.inc()
                    whose = "those who are not signed in" if each == _STRANGERS else "yours"
                    raise Overloaded(
                        f"the server is busy with other requests of {whose}: they hold {share} of"
                        f" its {self._count} slots for {self._name}; try again when some have ended"
                    )
            self._forget(before)
            self._held.update(each for each, _ in self._shares(after))
        return after

    def give_back(self, holder: Holder) -> None:
        with self._lock:
            self._forget(holder)
        self._used.dec()
        self._free.release()

    def _forget(self, holder: Holder) -> None:
        for each, _ in self._shares(holder):
            self._held[each] -= 1
            if not self._held[each]:
                del self._held[each]

    def _shares(self, holder: Holder) -> list[tuple[Holder, int]]:
        """Return for whom a slot of somebody counts, and how many each of them may hold."""
        if holder == _NOBODY:
            return []
        user, _ = holder
        if user:
            return [(holder, self._share)]
        return [(holder, share_of(self._share)), (_STRANGERS, self._share)]


class _Memory:
    """What the bodies that are kept whole may take together. One alone is always taken."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._share = share_of(bytes_max)
        self._lock = threading.Lock()
        self._used = 0
        self._held: Counter[Holder] = Counter()

    def take(self, size: int, holder: Holder) -> None:
        with self._lock:
            held = self._held[holder]
            if held and held + size > self._share:
                raise Overloaded(
                    f"the server is busy with other requests of yours: their bodies hold {held} of"
                    f" the {self._bytes_max} bytes that it has for them; try again soon"
                )
            if self._used and self._used + size > self._bytes_max:
                raise Overloaded(
                    f"the server is busy: bodies of other requests hold {self._used} of the"
                    f" {self._bytes_max} bytes that it has for them; try again soon"
                )
            self._used += size
            self._held[holder] += size

    def give_back(self, size: int, holder: Holder) -> None:
        with self._lock:
            self._used -= size
            self._held[holder] -= size
            if not self._held[holder]:
                del self._held[holder]


def share_of(count: int) -> int:
    """Return how many of so many one user, or all strangers together, may hold."""
    return max(1, count - count // 4)
