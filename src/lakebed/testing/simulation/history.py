"""Histories of actors' operations, and checks of their consistency.

A history is a list of operations with the steps at which each began and returned. Operation A
*happened before* B if A returned before B began. The rules follow from the design of staging:

- If a write succeeds, later reads return it or a write that did not happen before it.
- A read returns a value whose write began before the read ended.
- A commit contains, for each key, a possible result of a concurrent read.
- The value of a refused write is never shown by a read or commit.

Allowed: reads that see two concurrent writes in different orders, or values alternating between
them.

Some operations write no value of their own: a reset, a merge or a hard reset may restore any value
ever written. They are *wild*: they explain any value, unless a later write was acknowledged before
the read began.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

WILD = "wild"
ABSENT = None


@dataclass(slots=True)
class ActorOperation:
    """An operation of an actor."""

    name: str
    key: bytes | None
    """None: all keys."""
    value: str | None
    """Value after the operation: a value, `ABSENT`, or `WILD`."""
    begun: int
    ended: int | None = None
    """None: the actor died, and the outcome is unknown."""
    succeeded: bool = False
    refused: bool = False
    """Whether the operation certainly has no effect, now or later."""

    def happened_before(self, step: int) -> bool:
        """Return whether the operation ended before a step."""
        return self.ended is not None and self.ended < step

    def concerns(self, key: bytes) -> bool:
        """Return whether the operation could change a key."""
        return (self.key is None or self.key == key) and not self.refused


@dataclass(slots=True)
class WriteHistory:
    """Writes to a branch."""

    writes: list[ActorOperation] = field(default_factory=list)
    elsewhere: list[ActorOperation] = field(default_factory=list)
    """Writes to branches from which a merge may bring values."""

    def explains(self, key: bytes, value: str | None, begun: int, ended: int) -> bool:
        """Return whether a read of a key from `begun` to `ended` may return a value."""
        of_key = [write for write in self.writes if write.concerns(key)]
        settled = [
            write
            for write in of_key
            if write.succeeded and write.value != WILD and write.happened_before(begun)
        ]
        initially_absent = ActorOperation("initially", key, ABSENT, -1, -1, succeeded=True)
        anywhere = [*of_key, *(write for write in self.elsewhere if write.concerns(key))]
        written = {write.value for write in anywhere if write.begun <= ended} | {ABSENT}
        return any(
            write.begun <= ended
            and (write.value == value or (write.value == WILD and value in written))
            and not any(write.happened_before(later.begun) for later in settled)
            for write in [initially_absent, *of_key]
        )

    def is_unsettled(self, key: bytes, begun: int) -> bool:
        """Return whether a value was written without being acknowledged before a step."""
        return any(
            write.key == key
            and not write.refused
            and write.value != ABSENT
            and not (write.succeeded and write.happened_before(begun))
            for write in self.writes
        )

    def check_read(
        self, what: str, contents: dict[bytes, str], keys: Iterable[bytes], begun: int, ended: int
    ) -> None:
        """Check the contents of a read, listing or commit for some keys."""
        for key in keys:
            value = contents.get(key, ABSENT)
            assert self.explains(key, value, begun, ended), (
                f"{what}, from step {begun} to {ended}, shows {key!r} as {value!r}; writes:"
                f" {[write for write in self.writes if write.concerns(key)]}"
            )

    def check_creates(self, keys: Iterable[bytes]) -> None:
        """Check that a delete may lie between any two successful creates of a key."""
        for key in keys:
            creates = [
                w for w in self.writes if w.name == "create" and w.key == key and w.succeeded
            ]
            removals = [w for w in self.writes if w.concerns(key) and w.value in (ABSENT, WILD)]
            for one, other in combinations(creates, 2):
                begun = min(one.begun, other.begun)
                ended = max(one.ended or 0, other.ended or 0)
                assert any(
                    not removal.happened_before(begun) and removal.begun <= ended
                    for removal in removals
                ), f"{key!r} was created twice: {one} and {other}"
