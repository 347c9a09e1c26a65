"""A `Store` over a database that can only compare-and-swap single keys.

Such a database may apply a write after its client gave up: the request waits in a socket or a queue
and is applied later. A driver implements `CellDatabase`: `read`, `swap` and `page`. This wrapper
implements the contract of `Store`, *no delayed writes* included, by **touch and tombstone**:

- A key contains a `Cell`: a version, a stamp and a value. Every swap names the expected stamp and
  writes a new one, so a request can match at most once. The first stamp of a write is its version,
  so a caller that knows the version need not read before it writes.
- After a lost reply the wrapper reads the key. With the version of the write, the write was
  applied. With the expected stamp, the wrapper **touches** the key: it swaps in the same version
  and value with a new stamp. From then on the lost request cannot match, and the call has changed
  nothing. With any other stamp, the request cannot match either, but may have been applied and
  overwritten: `OutcomeUnknown`.
- A touch keeps the version, since a version identifies a write. A writer with that version as
  predicate then fails to match the stamp, finds the version unchanged, and swaps again.
- A missing key has no stamp, so a deletion leaves a **tombstone**: a cell that reads as missing,
  and whose stamp the next create must match. A lost create is fenced by a tombstone, too.
- Tombstones are removed after `CellDatabase.tombstone_seconds`, when no request can be delayed
  longer. A lost create that finds an older tombstone first renews it: it might be removed before
  the lost request is applied.
- Tombstones of keys that are never read or written again are removed earlier, at the caller's
  request (`drop_tombstones`). The removal compares the stamp of the tombstone, so a delayed removal
  removes that tombstone or nothing, and needs no fence. A create delayed even longer leaves a cell
  without readers.

If a fence cannot be finished within `FENCE_SECONDS`, the wrapper **ends the process**: it must not
raise while its write may still be applied. (The write of a dead process may be applied late. The
protocols above this layer tolerate that, and are simulated with it; they do not tolerate it from a
live caller that was told that nothing will be applied later.)
"""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, NamedTuple, NoReturn

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.kv.errors import (
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreClosed,
    StoreUnavailable,
)
from lakebed.kv.lifetime import Lifetime
from lakebed.kv.store import (
    ABSENT,
    ANY,
    EXISTS,
    FIRST_PAGE,
    DeletePredicate,
    Item,
    Limits,
    Put,
    Store,
    Version,
    applied_before,
    check_deletable,
    new_version,
)

FENCE_SECONDS: Final = 60.0
"""How long a fence is tried before the process ends; far below any
`CellDatabase.tombstone_seconds`."""

ERASED_SECONDS: Final = 600.0
"""Minimum age of an erased tombstone, from the last call that may have written its key.

The Cleaner waits for the grace period. If the grace period is shorter, no call lasts this long
anyway."""

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0
RACES: Final = 100
"""Maximum number of attempts; after each failure another writer succeeded."""

BULK_PARALLEL: Final = 16
EXIT_CODE: Final = 70

_LOGGER: Final = logging.getLogger(__name__)


class Expected(NamedTuple):
    """Version and stamp that a writer expects under a key."""

    version: Version
    stamp: bytes


@dataclass(frozen=True, slots=True)
class Cell:
    """The state of a key in the database."""

    version: Version
    """Version of the value."""
    stamp: bytes
    """Unique id of the last swap, which may have been a touch; never reused."""
    value: bytes | None
    """None for a tombstone."""
    expires: float | None = None
    """Expiry time of a tombstone, in seconds since 1970; None: never, or not a tombstone."""

    @property
    def expected(self) -> Expected:
        return Expected(self.version, self.stamp)


CellPage = tuple[list[tuple[bytes, Cell]], bytes | None]
"""Keys with their cells, and the next start."""


class CellDatabase(ABC):
    """A database that can compare-and-swap single keys; implemented by drivers.

    Arguments are already checked. Errors are those of `lakebed.kv.errors`: reads raise
    `StoreUnavailable` if the database does not answer. A failed call must not be retried
    internally, neither by the driver nor by its library.
    """

    name: str
    limits: Limits
    shared_between_processes: bool

    tombstone_seconds: float | None
    """How long tombstones are kept; None: forever. Longer than `FENCE_SECONDS`, and than the time
    after which the database surely refuses a delayed request, with a margin for clock skew. The
    database removes tombstones by `Cell.expires`."""

    erases: bool = False
    """Whether `erase` removes tombstones; False: the database removes all of them itself."""

    @abstractmethod
    def read(self, partition: bytes, key: bytes) -> Cell | None:
        """Return the cell of a key, or None; it reflects every swap answered before."""

    @abstractmethod
    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        """Replace a cell if it has this stamp; None: if the key has no cell.

        Returns:
            The current cell: `new` if the swap succeeded, else the conflicting cell, or None if the
                key has no cell.

        Raises:
            StoreUnavailable: The database refused, or was never called: the swap will not be
                applied.
            OutcomeUnknown: No reply; the swap may have been applied, or may be later.
        """

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        """Remove a cell without leaving a tombstone, if it has this stamp; called if `erases`.

        Raises:
            OutcomeUnknown: The cell may have been removed, or may be later.
        """
        raise NotImplementedError

    @abstractmethod
    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        """Return about `limit` keys at or after `start`, with their cells, tombstones included.

        Returns:
            The cells in key order, and the next start; None at the end of the partition.
        """

    @abstractmethod
    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        """Return a page of partitions and the next cursor, as `Store.partition_page`.

        Partitions with only tombstones may be included.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the resources; no call follows."""


class _Outcome(Enum):
    """Outcome of a request whose reply was lost, once it can no longer be applied."""

    APPLIED = auto()
    NEVER = auto()
    UNKNOWN = auto()


def end_process() -> NoReturn:
    """End this process at once, with all its threads."""
    os._exit(EXIT_CODE)


class FencedStore(Store):
    """A store over `CellDatabase`.

    Args:
        cells: The database.
        runtime: Provides clock, randomness and threads.
        give_up: Ends the process; called when a fence cannot be finished.
    """

    def __init__(
        self,
        cells: CellDatabase,
        runtime: Runtime,
        *,
        give_up: Callable[[], NoReturn] = end_process,
    ) -> None:
        self.name = cells.name
        self.limits = cells.limits
        self.shared_between_processes = cells.shared_between_processes
        self._cells = cells
        self._runtime = runtime
        self._give_up = give_up
        self._lifetime = Lifetime(
            runtime, cells.close, limits=cells.limits, shared=cells.shared_between_processes
        )

    def get(self, partition: bytes, key: bytes) -> Item:
        with self._lifetime.call(partition, key):
            cell = self._cells.read(partition, key)
        if cell is None or cell.value is None:
            raise KeyNotFound(partition, key)
        return Item(key, cell.value, cell.version)

    def _set(self, put: Put) -> None:
        partition, key, value, predicate, version = put
        with self._lifetime.call(partition, key, value):
            stamp = version or new_version(self._runtime)
            new = Cell(stamp, stamp, value)
            if predicate is ANY:
                # Most keys are new: trying a create first saves a read.
                self._write(partition, key, None, new, lambda _: True)
            elif predicate is ABSENT:
                self._write(partition, key, None, new, lambda current: not _is_live(current))
            elif predicate is EXISTS:
                cell = self._cells.read(partition, key)
                if cell is None or not _is_live(cell):
                    raise PredicateFailed(partition, key)
                self._write(partition, key, cell.expected, new, _is_live)
            else:
                self._replace(partition, key, predicate, new)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        with self._lifetime.call(partition, key):
            check_deletable(predicate)
            if isinstance(predicate, bytes):
                self._replace(partition, key, predicate, self._tombstone())
                return
            cell = self._cells.read(partition, key)
            if cell is not None and _is_live(cell):
                with suppress(PredicateFailed):  # another caller deleted it
                    self._write(partition, key, cell.expected, self._tombstone(), _is_live)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        with self._lifetime.call(partition):
            return [
                Item(key, cell.value, cell.version)
                for key, cell in self._living(partition, start, limit, end)
                if cell.value is not None
            ]

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        with self._lifetime.call(b"any"):
            return self._cells.partition_page(cursor)

    def _set_all(self, writes: Sequence[Put]) -> None:
        """Write several values in parallel."""
        for put in writes:
            self._lifetime.check(put.partition, put.key, put.value)
        # Keep the last of equal keys: parallel writes would race.
        newest = {(put.partition, put.key): put for put in writes}
        applied: list[None] = []  # one entry per write that was, or may have been, applied

        def write(put: Put) -> None:
            try:
                self._set(put)
            except (StoreUnavailable, StoreClosed):
                raise
            except OutcomeUnknown:
                applied.append(None)
                raise
            applied.append(None)

        try:
            self._runtime.map_parallel(write, newest.values(), limit=BULK_PARALLEL)
        except (StoreUnavailable, StoreClosed) as error:
            with applied_before(any_step=bool(applied)):
                raise error from None

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        if not self._cells.erases:
            return None

        def erase(tombstone: tuple[bytes, Cell]) -> None:
            key, cell = tombstone
            self._cells.erase(partition, key, cell.stamp)

        with self._lifetime.call(partition):
            page, after = self._cells.page(partition, start, limit)
            tombstones = [
                (key, cell) for key, cell in page if not _is_live(cell) and not (end and key >= end)
            ]
            self._runtime.map_parallel(erase, tombstones, limit=BULK_PARALLEL)
        return None if after is None or (end and after >= end) else after

    def close(self) -> None:
        self._lifetime.close()

    def _tombstone(self) -> Cell:
        stamp = new_version(self._runtime)
        return Cell(stamp, stamp, None, self._expiry())

    def _expiry(self) -> float | None:
        keep = self._cells.tombstone_seconds
        return None if keep is None else self._runtime.now() + keep

    def _living(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[tuple[bytes, Cell]]:
        """Return the first `limit` live keys before `end`; fewer only at the end of the range.

        Pages shortened by tombstones are filled up: callers take a short page for the end.
        """
        found: list[tuple[bytes, Cell]] = []
        at: bytes | None = start
        while at is not None and len(found) < limit:
            page, at = self._cells.page(partition, at, max(limit - len(found), FIRST_PAGE))
            found += [(key, cell) for key, cell in page if _is_live(cell)]
            if end is not None and page and page[-1][0] >= end:
                return [(key, cell) for key, cell in found[:limit] if key < end]
        return found[:limit]

    def _replace(self, partition: bytes, key: bytes, version: Version, new: Cell) -> None:
        def is_own_write(current: Cell | None) -> bool:
            return current is not None and _is_live(current) and current.version == version

        # An untouched cell, the common case, has its version as stamp.
        self._write(partition, key, Expected(version, version), new, is_own_write)

    def _write(
        self,
        partition: bytes,
        key: bytes,
        expected: Expected | None,
        new: Cell,
        holds: Callable[[Cell | None], bool],
    ) -> None:
        """Swap a cell in, retrying with the current stamp while the predicate holds."""
        for _ in range(RACES):
            current = self._swap(partition, key, expected, new)
            if current is not None and current.version == new.version:
                return
            if not holds(current):
                raise PredicateFailed(partition, key)
            expected = None if current is None else current.expected
        raise StoreUnavailable(
            f"gave up after {RACES} conflicts with other writers of key {quoted(key)}"
        )

    def _swap(
        self, partition: bytes, key: bytes, expected: Expected | None, new: Cell
    ) -> Cell | None:
        """Swap once; if the call raises, the request will not be applied afterwards."""
        begun = self._runtime.monotonic()
        try:
            return self._cells.swap(
                partition, key, None if expected is None else expected.stamp, new
            )
        except StoreUnavailable:
            raise
        except OutcomeUnknown as error:
            # Log the text only: a stored log record with the exception would keep connections open.
            _LOGGER.warning("lost the reply to a write of key %s: %s", quoted(key), str(error))
            outcome = self._fence(partition, key, expected, new, begun)
            if outcome is _Outcome.APPLIED:
                return new
            if outcome is _Outcome.NEVER:
                raise StoreUnavailable(
                    f"{error}; the write was not applied, and will not be"
                ) from error
            raise
        except BaseException:
            # Ctrl-C, or a signal handler that raises: the write must not be applied later.
            self._fence(partition, key, expected, new, begun)
            raise

    def _fence(
        self, partition: bytes, key: bytes, expected: Expected | None, lost: Cell, begun: float
    ) -> _Outcome:
        """Return when a lost request was applied or can no longer be applied."""
        give_up_at = self._runtime.monotonic() + FENCE_SECONDS
        pause = FIRST_PAUSE_SECONDS
        touches: set[bytes] = set()
        while True:
            try:
                current = self._cells.read(partition, key)
                outcome = self._determine_outcome(current, expected, lost, touches)
                if (
                    outcome is _Outcome.NEVER
                    and expected is None
                    and self._tombstone_may_have_expired(begun)
                ):
                    return _Outcome.UNKNOWN
                if outcome is not None:
                    return outcome
                touched = self._touched(current)
                touches.add(touched.stamp)
                self._cells.swap(
                    partition, key, None if current is None else current.stamp, touched
                )
            except OutcomeUnknown as error:
                if self._runtime.monotonic() >= give_up_at:
                    _LOGGER.critical(
                        "exiting: no reply to a write of key %s, and for %.0f s no confirmation"
                        " that it can no longer be applied: %s",
                        quoted(key),
                        FENCE_SECONDS,
                        str(error),
                    )
                    self._give_up()
                self._runtime.sleep(pause * (0.5 + self._runtime.random()))
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _determine_outcome(
        self,
        current: Cell | None,
        expected: Expected | None,
        lost: Cell,
        touches: AbstractSet[bytes],
    ) -> _Outcome | None:
        """Return the outcome of a lost request, by the current cell; None: it may still be applied.

        The effect of a touch is read here in the next round, so a touch needs no reply.
        """
        if current is not None and current.version == lost.version:
            return _Outcome.APPLIED
        if current is None:
            # The cell was deleted and the tombstone removed: a request with a stamp cannot match.
            return None if expected is None else _Outcome.UNKNOWN
        if current.stamp in touches:
            return (
                _Outcome.UNKNOWN
                if expected is None and current.version not in touches
                else _Outcome.NEVER
            )
        if expected is None:
            # The tombstone may be an old one, and be removed before the request is applied.
            return _Outcome.UNKNOWN if _is_live(current) else None
        if current.stamp == expected.stamp:
            return None
        # Another process's touch keeps the version: nothing was applied.
        return _Outcome.NEVER if current.version == expected.version else _Outcome.UNKNOWN

    def _tombstone_may_have_expired(self, begun: float) -> bool:
        """Return whether a tombstone may have been created and removed since, as during a suspend.

        Then a missing key may have existed meanwhile.
        """
        keep = self._cells.tombstone_seconds
        if self._cells.erases:
            keep = ERASED_SECONDS if keep is None else min(keep, ERASED_SECONDS)
        return keep is not None and self._runtime.monotonic() - begun > keep / 2

    def _touched(self, current: Cell | None) -> Cell:
        """Return the same cell with a new stamp; a tombstone for a missing cell."""
        if current is None:
            return self._tombstone()
        stamp = new_version(self._runtime)
        return replace(current, stamp=stamp, expires=None if _is_live(current) else self._expiry())


def _is_live(cell: Cell | None) -> bool:
    return cell is not None and cell.value is not None
