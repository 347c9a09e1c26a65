"""Runs the code of a protocol one call at a time, in an order drawn from a seed.

A `Simulation` has some actors: simulated processes, each with a clock, a `Runtime` and any number
of tasks of its own. The tasks are greenlets that run the same code as production. A task gives way
to the scheduler at every call to a store, at every sleep, and at every lock that is taken. Between
two such points it runs alone, so the seed alone decides what happens in a run.

At every call the simulation may

- reorder: the call, and its reply, wait for a random time, and others go first;
- stall: that time is minutes, as when a machine sleeps or a network hangs;
- fail before: the store never gets the call;
- fail after: the store applies the call, and the reply is lost;
- kill: the actor dies with all its tasks, before or after the call is applied;
- apply late (only if asked for): the caller gets an error, and the call is applied later.

Time is simulated: when every task waits, the clock jumps to the time when the next one is due, so
minutes cost nothing. The wall clock of each actor is wrong by a different amount, and its clocks
run at a different rate.

Nothing of a killed actor runs any more: its tasks are ended, and a call that one makes in a
``finally`` block meanwhile raises `ActorKilledError` instead of reaching the store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from lakebed.testing.simulation.runtime import SimulatedRuntime
from lakebed.testing.simulation.scheduler import ActorKilledError, Scheduler, SimulatedProcess

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often a call meets each fault, as probabilities, and how far clocks are off."""

    fail_before: float = 0.0
    fail_after: float = 0.0
    kill: float = 0.0
    late: float = 0.0
    stall: float = 0.0
    stall_seconds: float = 300.0
    skew_seconds: float = 0.0
    until_step: int = 1 << 60
    """From this step on nothing fails, so that a run can show that everything ends."""


NO_FAULTS = Faults()


class Simulation(Scheduler):
    """A seeded scheduler, its actors and what goes wrong for them.

    Args:
        seed: Decides everything: the same seed gives the same run.
        faults: What goes wrong, and how often.
        steps_max: A run that takes more steps is stuck.
    """

    latest: ClassVar["Simulation | None"] = None
    """The simulation made last, so that its trace can be shown after a failure."""

    def __init__(self, seed: int, faults: Faults = NO_FAULTS, *, steps_max: int = 100_000) -> None:
        super().__init__(seed, steps_max=steps_max)
        self.faults = faults
        self.trace: list[tuple[object, ...]] = []
        Simulation.latest = self

    def actor(self, name: str) -> SimulatedProcess:
        """Add a process."""
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
        """Make a call of an actor to something shared, with all that may go wrong.

        Args:
            actor: Who calls.
            label: What the trace shows of the call.
            apply: The call itself; what it raises is an answer like any other.
            lost: Makes the error for a caller that gets no reply; its argument says whether the
                caller can know that nothing happened.

        Raises:
            ActorKilledError: The actor died at this call, or before.
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
