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
are read from the store, the address of a client stands for its user. Clients take turns.

**No cycle of waiting.** A request that waits for memory, for a slot for bodies or for hooks holds
no slot for work. One that waits for a slot for work may hold memory. One that has a slot for work
or for sign-ins waits for nothing else.

Each kind is a `FairPool`.

**Turns.** Each client has a line of its own, and the lines take turns: a client that sends a
thousand requests does not keep another one waiting for a thousand. Within a line, the first is
first.

**Shares.** Nobody holds all of a pool. Who holds a full share waits without keeping others from
what is left. Who waits for more than is left now keeps others from taking it away bit by bit.

**Bounds.** So many requests wait, in all pools together, and each for so long; then they are
refused. A request waits in its thread: the pool itself does nothing but count.

All pools of a worker have one lock, which is never held while somebody waits.
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import about_to_wait
from lakebed.server.http.metrics import REFUSED, SLOTS, SLOTS_USED
from lakebed.server.http.request import RequestRecord, current_record
from lakebed.server.settings import LimitSettings

Holder = tuple[str, str]
"""A user, or the address of a client that is not signed in; the other one is empty."""

STRANGERS: Final[Holder] = ("", "all")
"""All who are not signed in, counted together."""


def share_of(count: int) -> int:
    """Return how many of so many one user, or all strangers together, may hold."""
    return max(1, count - count // 4)


def counted_for(holder: Holder) -> tuple[Holder, ...]:
    """Return the holders whose shares a slot of `holder` counts for."""
    return (holder,) if holder[0] else (holder, STRANGERS)


class WaitingRoom:
    """Counts the requests that wait in the pools of a worker."""

    def __init__(self, seats: int, seconds: float) -> None:
        self.lock: Final = threading.Lock()
        """That of all pools."""
        self.seconds: Final = seconds
        """How long a request waits, at most."""
        self._seats = seats if seconds else 0
        self._taken = 0
        self._by_holder: Counter[Holder] = Counter()

    def enter(self, holder: Holder) -> bool:
        """Take a seat for a holder; return whether there was one in all of its shares."""
        share, holders = share_of(self._seats), counted_for(holder)
        if self._taken >= self._seats or any(self._by_holder[each] >= share for each in holders):
            return False
        self._taken += 1
        self._by_holder.update(holders)
        return True

    def leave(self, holder: Holder) -> None:
        """Give a seat back."""
        self._taken -= 1
        for each in counted_for(holder):
            self._by_holder[each] -= 1
            if not self._by_holder[each]:
                del self._by_holder[each]


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits."""

    amount: int
    holder: Holder
    """Whose line it stands in, and whom it will count for."""
    bell: threading.Lock = field(default_factory=threading.Lock)
    """Free once the request has what it waits for."""


class FairPool:
    """So much of something."""

    def __init__(
        self,
        capacity: int,
        what: str,
        room: WaitingRoom,
        *,
        refusal: Callable[[str], Exception],
        on_change: Callable[[int], object] = lambda _amount: None,
    ) -> None:
        """Make a pool of which nothing is taken.

        Args:
            capacity: How much there is.
            what: What it is, for messages: ``slots for work``.
            room: Where requests wait.
            refusal: Makes the error for a request that is refused, with the reason.
            on_change: Called with what was taken, or with a negative number for what came back.
        """
        self._capacity = capacity
        self._what = what
        self._room = room
        self._lock = room.lock
        self._refusal = refusal
        self._on_change = on_change
        self._used = 0
        self._share = share_of(capacity)
        """How much one user, or all strangers together, may hold."""
        self._share_of_stranger = share_of(self._share)
        self._held: dict[Holder, int] = {}
        self._lines: OrderedDict[Holder, deque[_Waiting]] = OrderedDict()

    def take(self, amount: int, holder: Holder) -> None:
        """Take some, and wait for it if need be.

        More than there is can be taken if nobody holds anything.

        Args:
            amount: How much.
            holder: Whom it counts for.

        Raises:
            Exception: The `refusal`: it did not come free in time, or too many wait already.
        """
        with self._lock:
            is_free = not self._used or self._used + amount <= self._capacity
            if is_free and not self._lines and self._full_share(holder, amount) is None:
                self._count(holder, amount)
                return
            waiting = self._line_up(amount, holder)
        self._wait(waiting)

    def give_back(self, amount: int, holder: Holder) -> None:
        """Give back what was taken."""
        with self._lock:
            self._count(holder, -amount)
            if self._lines:
                self._serve()

    # Waiting

    def _line_up(self, amount: int, holder: Holder) -> _Waiting:
        if not self._room.enter(holder):
            raise self._refusal(self._reason(holder, amount))
        waiting = _Waiting(amount, holder)
        waiting.bell.acquire()
        self._lines.setdefault(holder, deque()).append(waiting)
        self._serve()
        return waiting

    def _wait(self, waiting: _Waiting) -> None:
        about_to_wait()
        if waiting.bell.acquire(timeout=self._room.seconds):
            return
        with self._lock:
            if not waiting.bell.locked():
                return  # it was served at the last moment
            self._leave_line(waiting)
            self._serve()  # it may have kept others from what is left
            reason = self._reason(waiting.holder, waiting.amount)
        raise self._refusal(f"{reason} (this one waited for {self._room.seconds:g} seconds)")

    def _serve(self) -> None:
        """Give what is free to those who wait, a line after the other."""
        while (waiting := self._next()) is not None:
            self._leave_line(waiting)
            if waiting.holder in self._lines:
                self._lines.move_to_end(waiting.holder)
            self._count(waiting.holder, waiting.amount)
            waiting.bell.release()

    def _next(self) -> _Waiting | None:
        for holder, line in self._lines.items():
            amount = line[0].amount
            if self._full_share(holder, amount) is None:
                is_free = not self._used or self._used + amount <= self._capacity
                return line[0] if is_free else None
        return None

    def _leave_line(self, waiting: _Waiting) -> None:
        line = self._lines[waiting.holder]
        line.remove(waiting)
        if not line:
            del self._lines[waiting.holder]
        self._room.leave(waiting.holder)

    # Counting

    def _full_share(self, holder: Holder, amount: int) -> Holder | None:
        """Return the holder whose share `amount` would exceed, or None if it exceeds none."""
        for each in counted_for(holder):
            is_stranger = not each[0] and each is not STRANGERS
            share = self._share_of_stranger if is_stranger else self._share
            held = self._held.get(each)
            if held and held + amount > share:
                return each
        return None

    def _count(self, holder: Holder, amount: int) -> None:
        """Count an amount that was taken, or a negative one that came back."""
        self._used += amount
        self._on_change(amount)
        for each in counted_for(holder):
            held = self._held.get(each, 0) + amount
            if held:
                self._held[each] = held
            else:
                self._held.pop(each, None)

    def _reason(self, holder: Holder, amount: int) -> str:
        full = self._full_share(holder, amount)
        if full is None:
            return (
                f"the server is busy: {self._used} of its {self._capacity} {self._what} are taken;"
                " try again soon"
            )
        whose = "those who are not signed in" if full == STRANGERS else "yours"
        return (
            f"the server is busy with other requests of {whose}: they hold {self._held[full]} of"
            f" its {self._capacity} {self._what}; try again when some have ended"
        )


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
        if self.for_body is not self.slots:
            self._leave()
        self.memory.take(size, self.holder)
        self.bytes += size
        if self.for_body is self.slots:
            yield
            return
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
