"""A pool of something that requests share, such as slots: who finds too little waits for a turn.

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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lakebed.base.runtime import about_to_wait

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
