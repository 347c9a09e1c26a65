"""Admission control: a request gets a slot, waits for one for a bounded time, or is refused.

Requests that wait for a thread of the server cannot be refused. So the server has more threads than
slots and waiting places: the spare threads refuse requests, and answer requests without need of a
slot, such as health checks. No long operation runs without a slot.

The kinds of slots:

- *work*: requests for metadata;
- *transfers*: requests with the bytes of objects, at the pace of their clients;
- *bodies*: requests for metadata that wait for their body. They give up their slot for work
  meanwhile;
- *hooks*: requests waiting for hooks. They give up their slot likewise;
- *sign-ins*: requests whose credentials are not cached and are read from the store.

Bodies held in memory until their request ends are bounded in total.

**One slot, once the user is known.** A request is authenticated first. With cached credentials, the
request takes one slot, for its user. Otherwise, the request holds a slot for sign-ins while the
store is read, and returns this slot before taking the other. So each read of the store is made with
a slot, and requests with invented credentials, which are never cached, delay each other but not
users with cached credentials. The credentials in a form are part of its body: the form is read in a
slot of its address.

**No client gets all slots.** A user holds at most three quarters of the slots of a kind, and of the
memory for bodies. All unauthenticated clients count as one user, since addresses are easy to
collect; each of their addresses holds at most three quarters of their share. While credentials are
read from the store, the client's address stands for its user.

**No deadlock.** A request waiting for memory, or for a slot for bodies or hooks, holds no slot for
work. A request waiting for a slot for work may hold memory. A request with a slot for work or for
sign-ins never waits.

Each kind is a `FairPool`.

**Fair queueing.** Each client has a queue, and the queues are served round-robin: a client with a
thousand requests does not delay another client by a thousand. Each queue is FIFO.

**Shares.** A client with its full share waits without blocking other clients. A request for more
than is free blocks later ones, so that small requests cannot starve large requests.

**Bounds.** The number of waiting requests of all pools together and the time of each are bounded;
beyond them, requests are refused. A request waits in its thread: the pool only counts.

All pools of a worker share one lock, which is never held while waiting.
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

Share = tuple[str, str]
"""A user, or the address of an unauthenticated client; the other element is empty."""

ANONYMOUS: Final[Share] = ("", "all")
"""All unauthenticated clients, counted together."""

Holder = tuple[Share, ...]
"""The shares that a slot counts for: of a user, or of an address and of `ANONYMOUS`."""


def share_of(count: int) -> int:
    """Return the share of `count` for one user, or for all unauthenticated clients."""
    return max(1, count - count // 4)


class WaitLimit:
    """Number of requests that wait in the pools of a worker."""

    def __init__(self, seats: int, seconds: float) -> None:
        self.lock: Final = threading.Lock()
        self.seconds: Final = seconds
        """The maximum waiting time of a request."""
        self._seats = seats if seconds else 0
        self._taken = 0
        self._by_share: Counter[Share] = Counter()

    def enter(self, holder: Holder) -> bool:
        """Take a seat for a holder; return False if no seat or share is left."""
        most = share_of(self._seats)
        if self._taken >= self._seats or any(self._by_share[each] >= most for each in holder):
            return False
        self._taken += 1
        self._by_share.update(holder)
        return True

    def leave(self, holder: Holder) -> None:
        """Return a seat."""
        self._taken -= 1
        for each in holder:
            self._by_share[each] -= 1
            if not self._by_share[each]:
                del self._by_share[each]


@dataclass(slots=True, eq=False)
class _Waiting:
    amount: int
    holder: Holder
    """The owner of its queue and of the slot it will get."""
    wake: threading.Lock = field(default_factory=threading.Lock)
    """Released when the request is served."""


class FairPool:
    """A pool of identical units, shared fairly among holders."""

    def __init__(
        self,
        capacity: int,
        what: str,
        wait_limit: WaitLimit,
        *,
        refusal: Callable[[str], Exception],
    ) -> None:
        """Create a pool of `capacity` free units, called `what` in messages: ``slots for work``.

        `refusal` creates the error of a refused request from the reason.
        """
        self._capacity = capacity
        self._what = what
        self._wait_limit = wait_limit
        self._lock = wait_limit.lock
        self._refusal = refusal
        self.used = 0
        """Number of units taken."""
        self._share = share_of(capacity)
        """The units that one user, or all unauthenticated clients together, may hold."""
        self._share_of_address = share_of(self._share)
        self._in_use: dict[Share, int] = {}
        self._lines: OrderedDict[Holder, deque[_Waiting]] = OrderedDict()

    def take(self, amount: int, holder: Holder) -> None:
        """Take `amount` units for `holder`, waiting if needed.

        More than the capacity can be taken from a pool that is entirely free.

        Raises:
            Exception: The `refusal`: the wait timed out, or too many requests wait already.
        """
        with self._lock:
            is_free = not self.used or self.used + amount <= self._capacity
            if is_free and not self._lines and self._full_share(holder, amount) is None:
                self._count(holder, amount)
                return
            waiting = self._line_up(amount, holder)
        self._wait(waiting)

    def give_back(self, amount: int, holder: Holder) -> None:
        """Return units."""
        with self._lock:
            self._count(holder, -amount)
            if self._lines:
                self._serve()

    # Waiting

    def _line_up(self, amount: int, holder: Holder) -> _Waiting:
        if not self._wait_limit.enter(holder):
            raise self._refusal(self._reason(holder, amount))
        waiting = _Waiting(amount, holder)
        waiting.wake.acquire()
        self._lines.setdefault(holder, deque()).append(waiting)
        self._serve()
        return waiting

    def _wait(self, waiting: _Waiting) -> None:
        about_to_wait()
        if waiting.wake.acquire(timeout=self._wait_limit.seconds):
            return
        with self._lock:
            if not waiting.wake.locked():
                return  # served at the last moment
            self._leave_line(waiting)
            self._serve()  # it may have blocked smaller requests
            reason = self._reason(waiting.holder, waiting.amount)
        raise self._refusal(f"{reason} (this request waited {self._wait_limit.seconds:g} seconds)")

    def _serve(self) -> None:
        """Give the free units to waiting requests, round-robin over the queues."""
        while (waiting := self._next()) is not None:
            self._leave_line(waiting)
            if waiting.holder in self._lines:
                self._lines.move_to_end(waiting.holder)
            self._count(waiting.holder, waiting.amount)
            waiting.wake.release()

    def _next(self) -> _Waiting | None:
        for holder, line in self._lines.items():
            amount = line[0].amount
            if self._full_share(holder, amount) is None:
                is_free = not self.used or self.used + amount <= self._capacity
                return line[0] if is_free else None
        return None

    def _leave_line(self, waiting: _Waiting) -> None:
        line = self._lines[waiting.holder]
        line.remove(waiting)
        if not line:
            del self._lines[waiting.holder]
        self._wait_limit.leave(waiting.holder)

    # Counting

    def _full_share(self, holder: Holder, amount: int) -> Share | None:
        """Return the share that `amount` would exceed, or None."""
        for each in holder:
            # Only an address has another share behind its own.
            most = self._share if each is holder[-1] else self._share_of_address
            in_use = self._in_use.get(each)
            if in_use and in_use + amount > most:
                return each
        return None

    def _count(self, holder: Holder, amount: int) -> None:
        """Count units taken, or a negative number returned."""
        self.used += amount
        for each in holder:
            in_use = self._in_use.get(each, 0) + amount
            if in_use:
                self._in_use[each] = in_use
            else:
                self._in_use.pop(each, None)

    def _reason(self, holder: Holder, amount: int) -> str:
        full = self._full_share(holder, amount)
        if full is None:
            return (
                f"the server is busy: {self.used} of {self._capacity} {self._what} are in use;"
                " try again soon"
            )
        whose = "unauthenticated clients" if full == ANONYMOUS else "yours"
        return (
            f"the server is busy with other requests of {whose}, which hold {self._in_use[full]} of"
            f" {self._capacity} {self._what}; try again when some have ended"
        )


_LARGEST_AT_ONCE: Final = 4
"""The number of bodies of the largest size that fit into memory at once."""


class Overloaded(LakebedError):
    """The server is at its limits; the request had no effect. Answered by 503."""

    kind = "overloaded"


class Admission:
    """The slots of one worker."""

    def __init__(self, limits: LimitSettings) -> None:
        wait_limit = WaitLimit(limits.queue_length, limits.queue_seconds)
        self._work = _slots("work", limits.work_slots, wait_limit)
        self._transfers = _slots("transfers", limits.transfer_slots, wait_limit)
        self._bodies = _slots("bodies", limits.body_slots, wait_limit)
        self._hooks = _slots("hooks", limits.hook_slots, wait_limit)
        self._sign_ins = _slots("sign-ins", limits.sign_in_slots, wait_limit)
        self._memory = FairPool(
            _LARGEST_AT_ONCE * limits.json_bytes_max,
            "bytes of memory for request bodies",
            wait_limit,
            refusal=partial(_refuse, "memory"),
        )

    def update_metrics(self) -> None:
        """Set the metric of slots in use; called about once a second."""
        for name, slots in (
            ("work", self._work),
            ("transfers", self._transfers),
            ("bodies", self._bodies),
            ("hooks", self._hooks),
            ("sign-ins", self._sign_ins),
        ):
            SLOTS_USED.labels(name).set(slots.used)

    def admit(self, record: RequestRecord, *, is_transfer: bool) -> None:
        """Take a slot for a request, until its end; it counts for its user or its address.

        A slot that the request has, from before its user was known, is returned first.

        Raises:
            Overloaded: The wait timed out, or the user or address holds its full share.
        """
        slots, for_body = (
            (self._transfers, self._transfers) if is_transfer else (self._work, self._bodies)
        )
        holder: Holder = ((record.user, ""),) if record.user else (("", record.client), ANONYMOUS)
        if record.slot is not None:
            record.slot.end()
            record.slot = None
        slots.take(1, holder)
        record.slot = _RequestSlot(holder, slots, for_body, self._hooks, self._memory, slots)

    def while_signing_in(self) -> AbstractContextManager[None]:
        """Hold a slot for sign-ins meanwhile, if this is a request without a slot."""
        record = current_record()
        if record is None or record.slot is not None:
            return nullcontext()
        return self._signing_in((("", record.client), ANONYMOUS))

    @contextmanager
    def _signing_in(self, holder: Holder) -> Iterator[None]:
        self._sign_ins.take(1, holder)
        try:
            yield
        finally:
            self._sign_ins.give_back(1, holder)


@dataclass(slots=True, eq=False)
class _RequestSlot:
    """Slot and memory of one request."""

    holder: Holder
    slots: FairPool
    for_body: FairPool
    for_hooks: FairPool
    memory: FairPool
    now: FairPool | None
    """The kind of slot held at present, or None while waiting."""
    bytes: int = 0

    @contextmanager
    def while_reading(self, size: int) -> Iterator[None]:
        """Exchange a slot for work for one for bodies meanwhile; take memory until the end."""
        if self.for_body is not self.slots:
            self._exchange(None)
        self.memory.take(size, self.holder)
        self.bytes += size
        if self.for_body is self.slots:
            yield
            return
        self._exchange(self.for_body)
        yield
        self._exchange(self.slots)

    @contextmanager
    def while_waiting(self) -> Iterator[None]:
        """Hold a slot for hooks instead, so that slow hooks do not block other requests."""
        self._exchange(self.for_hooks)
        yield
        self._exchange(self.slots)

    def end(self) -> None:
        """Return everything."""
        if self.bytes:
            self.memory.give_back(self.bytes, self.holder)
            self.bytes = 0
        self._exchange(None)

    def _exchange(self, slots: FairPool | None) -> None:
        """Return the slot held, if any, then take another, if any."""
        if self.now is not None:
            self.now.give_back(1, self.holder)
            self.now = None
        if slots is not None:
            slots.take(1, self.holder)
            self.now = slots


def _slots(name: str, count: int, wait_limit: WaitLimit) -> FairPool:
    SLOTS.labels(name).set(count)
    return FairPool(
        count,
        f"slots for {name}",
        wait_limit,
        refusal=partial(_refuse, name),
    )


def _refuse(name: str, reason: str) -> Overloaded:
    REFUSED.labels(name).inc()
    return Overloaded(reason)
