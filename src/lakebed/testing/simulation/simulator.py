"""Runs the code of a protocol one call at a time, in an order determined by a seed.

A `Simulation` has actors: simulated processes, each with a clock, a `Runtime` and any number of
tasks. Tasks are greenlets that run production code. A task yields to the scheduler at every store
call, every sleep, and every lock. Between two such points it runs alone, so the seed alone
determines a run.

At every call the simulation may

- reorder: call and reply are delayed for a random time, and other tasks go first;
- stall: the delay is minutes, like a sleeping machine or a hanging network;
- fail before: the call does not reach the store;
- fail after: the store applies the call, and the reply is lost;
- kill: the actor dies with all its tasks, before or after the call is applied;
- apply late (only on request): the caller gets an error, and the call is applied later.

Time is simulated: when all tasks wait, the clock jumps to the next due time, so minutes cost
nothing. The wall clock of each actor is wrong by a different amount, and its clocks run at a
different rate.

Killed actors do not run any more: their tasks are ended, and a call made in a ``finally`` block
meanwhile raises `ActorKilledError` instead of reaching the store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from lakebed.testing.simulation.runtime import SimulatedRuntime
from lakebed.testing.simulation.scheduler import ActorKilledError, Scheduler, SimulatedProcess

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities of each fault for a call, and the skew of clocks."""

    fail_before: float = 0.0
    fail_after: float = 0.0
    kill: float = 0.0
    late: float = 0.0
    stall: float = 0.0
    stall_seconds: float = 300.0
    skew_seconds: float = 0.0
    until_step: int = 1 << 60
    """Step after which faults stop, so that a run can show that everything ends."""


NO_FAULTS = Faults()


class Simulation(Scheduler):
    """A seeded scheduler with actors and faults.

    Args:
        seed: Determines the run.
        faults: Kinds and probabilities of faults.
        steps_max: Maximum number of steps; a longer run counts as stuck.
    """

    latest: ClassVar["Simulation | None"] = None
    """The latest simulation, to print its trace after a failure."""

    def __init__(self, seed: int, faults: Faults = NO_FAULTS, *, steps_max: int = 100_000) -> None:
        super().__init__(seed, steps_max=steps_max)
        self.faults = faults
        self.trace: list[tuple[object, ...]] = []
        Simulation.latest = self

    def actor(self, name: str) -> SimulatedProcess:
        actor = SimulatedProcess(self, name)
        actor.runtime = SimulatedRuntime(self, actor, skew_seconds=self.faults.skew_seconds)
        return actor

    def latency(self) -> float:
        faults = self._faults_now()
        if faults.stall and self.random.random() < faults.stall:
            return self.random.random() * faults.stall_seconds
        return super().latency()

    def call(
        self,
        actor: SimulatedProcess,
        label: tuple[object, ...],
        apply: Callable[[], ResultT],
        lost: Callable[[bool], Exception],
    ) -> ResultT:
        """Make a call of an actor to a shared resource, injecting faults.

        Args:
            actor: The caller.
            label: Text of the call in the trace.
            apply: The call itself; its exceptions are results like any other.
            lost: Returns the error for a caller without a reply; its argument says whether the
                caller can know that the call had no effect.

        Raises:
            ActorKilledError: The actor was killed at or before this call.
        """
        self.pause(actor)
        faults = self._faults_now()
        draw = self.random.random
        if draw() < faults.kill:
            self._die(actor, label, "killed before")
        if draw() < faults.fail_before:
            self._note(actor, label, "failed before")
            raise lost(draw() < 0.5)
        if draw() < faults.late:
            self._apply_late(actor, label, apply)
            raise lost(False)
        result: ResultT | Exception
        try:
            result = apply()
            self._note(actor, label, "applied")
        except Exception as error:  # noqa: BLE001 - raised below, when the reply arrives
            result = error
            self._note(actor, label, repr(error))
        if draw() < faults.kill:
            self._die(actor, label, "killed after")
        self.pause(actor)
        if draw() < faults.fail_after:
            self._note(actor, label, "reply lost")
            raise lost(False)
        if isinstance(result, Exception):
            raise result
        return result

    def _faults_now(self) -> Faults:
        return self.faults if self.step < self.faults.until_step else NO_FAULTS

    def _die(self, actor: SimulatedProcess, label: tuple[object, ...], what: str) -> None:
        self._note(actor, label, what)
        actor.kill()
        raise ActorKilledError(actor.name)

    def _apply_late(
        self, actor: SimulatedProcess, label: tuple[object, ...], apply: Callable[[], ResultT]
    ) -> None:
        def late() -> None:
            try:
                apply()
            except Exception as error:  # noqa: BLE001 - nobody is there to hear it
                self._note(actor, label, f"late: {error!r}")
            else:
                self._note(actor, label, "applied late")

        self._note(actor, label, "failed, to be applied late")
        self.after(self.random.random() * 10, late)

    def _note(self, actor: SimulatedProcess, label: tuple[object, ...], what: str) -> None:
        self.trace.append((self.step, round(self.seconds, 4), actor.name, *label, what))
