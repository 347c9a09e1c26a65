"""Admission: a request gets a slot, waits for one for a while, or is refused.

A request that waits for a thread of the server cannot be refused, and waits for as long as the
slowest. So there are more threads than requests that have a slot or wait for one: the threads that
are left over refuse requests, and answer those that need no slot, such as health checks. Nothing
that may last is done without a slot.

There are three kinds:

- *work*: requests for metadata;
- *transfers*: requests that move the bytes of objects, and last as long as their clients are slow;
- *bodies*: requests for metadata whose body is not there yet. They leave their slot for work to
  others for as long as they wait.

Bodies that are kept whole take memory until their request ends. All of them together are bounded.

**Nobody gets all slots.** One user holds at most three quarters of the slots of a kind, and of the
memory for bodies. All who are not signed in count as one user, since it is easy to have many
addresses; one address of theirs holds at most three quarters of that. Clients take turns: see
`fair_pool`. Before a request is known to be somebody's, its address stands for its user. That lasts
for a moment, so who waits for a share of a user holds no slot meanwhile.

**Nobody waits for somebody who waits for him.** A request that waits for memory or for a slot for
bodies holds no slot for work. One that waits for a slot for work may hold memory, and who has such
a slot waits for nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from lakebed.errors import LakebedError
from lakebed.server.http.fair_pool import NOBODY, FairPool, Holder, Line, WaitingRoom, unknown
from lakebed.server.http.metrics import REFUSED, SLOTS, SLOTS_USED
from lakebed.server.http.request import RequestRecord
from lakebed.server.settings import LimitSettings

_LARGEST_AT_ONCE: Final = 4
"""How many bodies of the largest size may be kept at once."""


class Overloaded(LakebedError):
    """The server has as much to do as it may take on; nothing was done. Answered by 503."""

    kind = "overloaded"


class Admission:
    """The slots of one worker."""

    def __init__(self, limits: LimitSettings) -> None:
        room = WaitingRoom(limits.queue_length, limits.queue_seconds)
        self._work = _slots("work", limits.work_slots, room)
        self._transfers = _slots("transfers", limits.transfer_slots, room)
        self._bodies = _slots("bodies", limits.body_slots, room)
        self._hooks = _slots("hooks", limits.hook_slots, room)
        self._memory = FairPool(
            _LARGEST_AT_ONCE * limits.json_bytes_max,
            "bytes for the bodies of requests",
            room,
            refusal=partial(_refuse, "memory"),
        )

    def admit_work(self, record: RequestRecord) -> None:
        """Take a slot for a request that works on metadata, until the request's end.

        Raises:
            Overloaded: None came free in time.
        """
        self._admit(record, self._work, self._bodies)

    def admit_transfer(self, record: RequestRecord) -> None:
        """Take a slot for a request that moves the bytes of an object, until the request's end.

        Raises:
            Overloaded: None came free in time.
        """
        self._admit(record, self._transfers, self._transfers)

    def claim(self, record: RequestRecord) -> None:
        """Count the slot of a request for its user, or for its address; they are known now.

        Raises:
            Overloaded: The user, or the address, holds as many as one may.
        """
        assert isinstance(record.slot, _Held), "it was admitted"
        record.slot.claim((record.user, "" if record.user else record.client))

    def _admit(self, record: RequestRecord, slots: FairPool, for_body: FairPool) -> None:
        held = _Held(slots, for_body, self._hooks, self._memory)
        held.take(slots, unknown(record.client))
        record.slot = held
        record.at_end(held.end)


class _Held:
    """What one request holds."""

    def __init__(
        self, slots: FairPool, for_body: FairPool, for_hooks: FairPool, memory: FairPool
    ) -> None:
        self._now: FairPool | None = None
        self._slots = slots
        self._for_body = for_body
        self._for_hooks = for_hooks
        self._memory = memory
        self._bytes = 0
        self._holder = NOBODY

    def take(self, slots: FairPool, line: Line) -> None:
        """Take a slot; there is none before."""
        slots.take(1, self._holder, line)
        self._now = slots

    def claim(self, holder: Holder) -> None:
        """Count the slot for somebody."""
        slots, self._now = self._slots, None
        slots.claim(1, holder)
        self._now, self._holder = slots, holder

    @contextmanager
    def while_reading(self, size: int) -> Iterator[None]:
        """Hold a slot for bodies instead, if that is another one, and memory until the end.

        Raises:
            Overloaded: No memory, no slot for bodies, or none for work afterwards, came free.
        """
        if self._for_body is self._slots:
            self._take_memory(size)
            yield
            return
        self._leave()
        self._take_memory(size)
        self.take(self._for_body, self._holder)
        yield
        self._leave()
        self.take(self._slots, self._holder)

    @contextmanager
    def while_waiting(self) -> Iterator[None]:
        """Hold a slot for hooks instead: others go on meanwhile, however long hooks take.

        Raises:
            Overloaded: No slot for hooks, or none for work afterwards, came free.
        """
        self._leave()
        self.take(self._for_hooks, self._holder)
        yield
        self._leave()
        self.take(self._slots, self._holder)

    def end(self) -> None:
        """Give everything back."""
        if self._bytes:
            self._memory.give_back(self._bytes, self._holder)
            self._bytes = 0
        self._leave()

    def _take_memory(self, size: int) -> None:
        self._memory.take(size, self._holder, self._holder)
        self._bytes += size

    def _leave(self) -> None:
        if self._now is not None:
            self._now.give_back(1, self._holder)
            self._now = None


def _slots(name: str, count: int, room: WaitingRoom) -> FairPool:
    SLOTS.labels(name).set(count)
    return FairPool(
        count,
        f"slots for {name}",
        room,
        refusal=partial(_refuse, name),
        on_change=SLOTS_USED.labels(name).inc,
    )


def _refuse(name: str, reason: str) -> Overloaded:
    REFUSED.labels(name).inc()
    return Overloaded(reason)
