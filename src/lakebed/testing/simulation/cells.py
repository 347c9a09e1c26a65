"""A simulated database with compare-and-swap of single keys, shared by actors.

Each call may meet any fault of the simulation, above all the delayed write, against which
`lakebed.kv.fenced` protects. Tombstones expire by the database's clock.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from sortedcontainers import SortedDict

from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.errors import OutcomeUnknown, StoreUnavailable
from lakebed.kv.fenced import Cell, CellDatabase, CellPage
from lakebed.testing.simulation.runtime import EPOCH
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Simulation
from lakebed.testing.simulation.store import AppliedWrite

ResultT = TypeVar("ResultT")

TOMBSTONE_SECONDS: Final = 200.0
"""Much longer than the maximum delay of a simulated request."""


class SimulatedDatabase:
    """Cells shared by all actors."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.applied: list[AppliedWrite] = []
        """Applied writes and deletes, in order, without touches."""
        self.erased: list[AppliedWrite] = []
        """Applied erasures, in order."""
        self._cells: SortedDict[tuple[bytes, bytes], Cell] = SortedDict()

    def handle(
        self, actor: SimulatedProcess, *, tombstone_seconds: float = TOMBSTONE_SECONDS
    ) -> CellDatabase:
        """Return the database as seen by an actor."""
        return _SimulatedCells(self, actor, tombstone_seconds)

    def find(self, partition: bytes, key: bytes) -> Cell | None:
        """Return the current cell of a key, or None."""
        cell = self._cells.get((partition, key))
        if cell is not None and self._is_over(cell):
            del self._cells[partition, key]
            return None
        return cell

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        there = self.find(partition, key)
        if (None if there is None else there.stamp) != stamp:
            return there
        self._cells[partition, key] = new
        lived = there is not None and there.value is not None
        if new.value is None:
            if there is not None and lived:
                self._note("delete_if", partition, key, there)
        elif there is None or there.version != new.version:
            self._note("set", partition, key, new)
        return new

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        keys = [key for of, key in self._cells.irange((partition, start)) if of == partition]
        cells = [(key, self.find(partition, key)) for key in keys[:limit]]
        after = keys[limit] if len(keys) > limit else None
        return [(key, cell) for key, cell in cells if cell is not None], after

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        there = self.find(partition, key)
        if there is not None and there.stamp == stamp:
            del self._cells[partition, key]
            step = self.simulation.step
            self.erased.append(AppliedWrite(step, "erase", partition, key, there.version))

    def partition_page(self) -> tuple[list[bytes], bytes | None]:
        return sorted({partition for partition, _ in self._cells}), None

    def _is_over(self, cell: Cell) -> bool:
        return cell.expires is not None and cell.expires < EPOCH + self.simulation.seconds

    def _note(self, operation: str, partition: bytes, key: bytes, cell: Cell) -> None:
        step = self.simulation.step
        self.applied.append(AppliedWrite(step, operation, partition, key, cell.version))


class _SimulatedCells(CellDatabase):
    """Handle of an actor; dies with the actor."""

    name = "simulated"
    erases = True
    limits = MemoryStore.limits
    shared_between_processes = False

    def __init__(
        self, database: SimulatedDatabase, actor: SimulatedProcess, tombstone_seconds: float
    ) -> None:
        self._database = database
        self._actor = actor
        self.tombstone_seconds = tombstone_seconds

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        return self._call("read", partition, key, lambda: self._database.find(partition, key))

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        return self._call(
            "swap", partition, key, lambda: self._database.swap(partition, key, stamp, new)
        )

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        self._call("erase", partition, key, lambda: self._database.erase(partition, key, stamp))

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        return self._call(
            "page", partition, start, lambda: self._database.page(partition, start, limit)
        )

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        return self._call("partition_page", b"", cursor, self._database.partition_page)

    def close(self) -> None:
        pass

    def _call(
        self, operation: str, partition: bytes, key: bytes, apply: Callable[[], ResultT]
    ) -> ResultT:
        def lost(known: bool) -> Exception:
            if known or operation not in {"swap", "erase"}:
                return StoreUnavailable(f"injected: {operation} did not reach the database")
            return OutcomeUnknown(f"injected: no reply to {operation}")

        label = (operation, partition, key)
        return self._database.simulation.call(self._actor, label, apply, lost)
