"""Kills an actor at a certain call, so that a test can try every step."""

from collections.abc import Callable
from contextlib import suppress

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import ResultT
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Simulation


class KillsAt(Simulation):
    """Lets the actor called "victim" die at a certain call, before or after it is applied."""

    def __init__(self, at: int, *, after: bool) -> None:
        super().__init__(at)
        self.calls = 0
        self._at = at
        self._after = after

    def call(
        self,
        actor: SimulatedProcess,
        label: tuple[object, ...],
        apply: Callable[[], ResultT],
        lost: Callable[[bool], Exception],
    ) -> ResultT:
        if actor.name != "victim":
            return super().call(actor, label, apply, lost)
        self.calls += 1
        if self.calls == self._at and self._after:
            with suppress(LakebedError):
                apply()
        if self.calls == self._at:
            self._die(actor, label, "killed")
        return super().call(actor, label, apply, lost)
