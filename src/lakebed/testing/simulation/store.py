"""A key-value store under the simulator: handles for actors, and the truth about every write."""

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
    """A write that the store applied."""

    step: int
    operation: str
    partition: bytes
    key: bytes
    version: Version | None


class _PiecemealStore(FaultyStore):
    """Makes a call for each key of a bulk call, as a driver may that knows no better."""

    get_many = Store.get_many
    write = Store.write


class SimulatedStore:
    """Shares one store among actors; each call of theirs may meet any fault.

    Args:
        simulation: Whose actors share it.
        inner: The store.
        piecemeal: Whether bulk calls are made key by key, with others in between.
    """

    def __init__(self, simulation: Simulation, inner: Store, *, piecemeal: bool = False) -> None:
        self.inner = inner
        self._simulation = simulation
        self._handle = _PiecemealStore if piecemeal else FaultyStore
        self.applied: list[AppliedWrite] = []
        """Every write that took effect, in order: what checkers compare answers with."""

    def handle(self, actor: SimulatedProcess) -> Store:
        """The store as this actor sees it; the handle dies with the actor."""

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
