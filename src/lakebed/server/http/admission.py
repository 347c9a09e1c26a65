"""Admission: a request gets a slot, waits for one for a while, or is refused.

A request that waits for a thread of the server cannot be refused, and waits for as long as the
slowest. So there are more threads than requests that have a slot or wait for one: the threads that
are left over refuse requests, and answer those that need no slot, such as health checks. Nothing
that may last is done without a slot.

The kinds of slots:

- *work*: requests for metadata;
- *transfers*: requests that move the bytes of objects, and last as long as their clients are slow;
- *bodies*: requests for metadata whose body is not there yet. They leave their slot for work to
  others for as long as they wait;
- *hooks*: requests that wait for hooks, and leave their slot likewise;
- *sign-ins*: requests whose credentials are read from the store, because this process has not read
  them lately.

Bodies that are kept whole take memory until their request ends. All of them together are bounded.

**One slot, once the user is known.** A request is authenticated first. If the records of its
credentials are cached, which takes no time, it takes one slot, for its user. If they are not, it
holds a slot for sign-ins while the store is read, and gives it back before it takes the other one.
So each read of the store is made with a slot, and requests with invented credentials, which are
never cached, keep each other waiting: not the users whose credentials are cached, nor requests that
need none.

**No client gets all slots.** One user holds at most three quarters of the slots of a kind, and of
the memory for bodies. All clients that are not signed in count as one user, since it is easy to
have many addresses; one address of theirs holds at most three quarters of that. While credentials
are read from the store, the address of a client stands for its user. Clients take turns: see
`fair_pool`.

**No cycle of waiting.** A request that waits for memory, for a slot for bodies or for hooks holds
no slot for work. One that waits for a slot for work may hold memory. One that has a slot for work
or for sign-ins waits for nothing else.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.server.http.fair_pool import FairPool, Holder, WaitingRoom
from lakebed.server.http.metrics import REFUSED, SLOTS, SLOTS_USED
from lakebed.server.http.request import RequestRecord, current_record
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
        self._sign_ins = _slots("sign-ins", limits.sign_in_slots, room)
        self._memory = FairPool(
            _LARGEST_AT_ONCE * limits.json_bytes_max,
            "bytes for the bodies of requests",
            room,
            refusal=partial(_refuse, "memory"),
        )

    def admit(self, record: RequestRecord, *, is_transfer: bool) -> None:
        """Take a slot for a request, until its end; it counts for its user, or for its address.

        Args:
            record: The request; its user is known, unless it is open to anyone.
            is_transfer: Whether it moves the bytes of an object.

        Raises:
            Overloaded: None came free in time, or the user or address holds as many as it may.
        """
        slots, for_body = (
            (self._transfers, self._transfers) if is_transfer else (self._work, self._bodies)
        )
        holder = (record.user, "" if record.user else record.client)
        slots.take(1, holder)
        record.slot = _Held(holder, slots, for_body, self._hooks, self._memory, slots)

    def while_signing_in(self) -> AbstractContextManager[None]:
        """Hold a slot for sign-ins while credentials are read from the store.

        Outside of requests, and in one that has a slot already, nothing is held.

        Raises:
            Overloaded: None came free in time.
        """
        record = current_record()
        if record is None or record.slot is not None:
            return nullcontext()
        return self._signing_in(("", record.client))

    @contextmanager
    def _signing_in(self, holder: Holder) -> Iterator[None]:
        self._sign_ins.take(1, holder)
        try:
            yield
        finally:
            self._sign_ins.give_back(1, holder)


@dataclass(slots=True, eq=False)
class _Held:
    """What one request holds."""

    holder: Holder
    slots: FairPool
    """The kind of slot that it took."""
    for_body: FairPool
    for_hooks: FairPool
    memory: FairPool
    now: FairPool | None
    """The kind of slot that it holds now, or None while it waits for one."""
    bytes: int = 0
    """The memory that it holds."""

    @contextmanager
    def while_reading(self, size: int) -> Iterator[None]:
        """Hold a slot for bodies instead, if that is another one, and memory until the end.

        Raises:
            Overloaded: No memory, no slot for bodies, or none for work afterwards, came free.
        """
        if self.for_body is self.slots:
            self._take_memory(size)
            yield
            return
        self._leave()
        self._take_memory(size)
        self._take(self.for_body)
        yield
        self._leave()
        self._take(self.slots)

    @contextmanager
    def while_waiting(self) -> Iterator[None]:
        """Hold a slot for hooks instead: others go on meanwhile, however long hooks take.

        Raises:
            Overloaded: No slot for hooks, or none for work afterwards, came free.
        """
        self._leave()
        self._take(self.for_hooks)
        yield
        self._leave()
        self._take(self.slots)

    def end(self) -> None:
        """Give everything back."""
        if self.bytes:
            self.memory.give_back(self.bytes, self.holder)
            self.bytes = 0
        self._leave()

    def _take_memory(self, size: int) -> None:
        self.memory.take(size, self.holder)
        self.bytes += size

    def _take(self, slots: FairPool) -> None:
        """Take a slot; the request has none before."""
        slots.take(1, self.holder)
        self.now = slots

    def _leave(self) -> None:
        if self.now is not None:
            self.now.give_back(1, self.holder)
            self.now = None


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
