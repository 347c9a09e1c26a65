"""A simulated key-value store: handles for actors, and a record of every applied write."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lakebed.kv.store import Store, Version
from lakebed.testing.faults import FaultyStore, StoreCall, lost
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Simulation

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class AppliedWrite:
    """A write applied by the store."""

    step: int
    operation: str
    partition: bytes
    key: bytes
    version: Version | None


class _UnbatchedStore(FaultyStore):
    """Splits bulk calls into a call for each key, like a basic driver."""

    get_many = Store.get_many
    write = Store.write


class SimulatedStore:
    """Shares a store among actors; each call may meet any fault.

    Args:
        simulation: Simulation of the actors.
        inner: The store.
        piecemeal: Whether bulk calls are split by key, with other calls in between.
    """

    def __init__(self, simulation: Simulation, inner: Store, *, unbatched: bool = False) -> None:
        self.inner = inner
        self._simulation = simulation
        self._handle = _UnbatchedStore if unbatched else FaultyStore
        self.applied: list[AppliedWrite] = []
        """Applied writes, in order: the reference for checkers."""

    def handle(self, actor: SimulatedProcess) -> Store:
        """Return the store as seen by an actor; the handle dies with the actor."""

        def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
            def apply_and_record() -> ResultT:
                result = apply()
                if call.writes:
                    step = self._simulation.step
                    write = (call.operation, call.partition, call.key, call.version)
                    self.applied.append(AppliedWrite(step, *write))
                return result

            label = (call.operation, call.partition, call.key)
            return self._simulation.call(
                actor, label, apply_and_record, lambda known: lost(call, known=known)
            )

        return self._handle(self.inner, intercept)
