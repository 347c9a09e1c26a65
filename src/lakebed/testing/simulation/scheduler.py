"""Greenlets under a seeded scheduler with simulated time: the core of the simulator.

A task runs alone until it yields. The seed determines which task continues, so the same seed gives
the same run. When all tasks wait, the clock jumps to the next due time.
"""

import heapq
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from greenlet import getcurrent, greenlet

from lakebed.base.runtime import Runtime


class ActorKilledError(BaseException):
    """Unwinds the tasks of a killed actor; not an `Exception`, so that no handler swallows it."""


class SimulationStuckError(AssertionError):
    """The tasks wait for each other, or took too many steps."""


class TaskFailedError(AssertionError):
    """A task raised an exception that its scenario did not expect."""


class SimulatedProcess:
    """A simulated process: tasks that share a clock and die together."""

    runtime: Runtime

    def __init__(self, scheduler: "Scheduler", name: str) -> None:
        self.name = name
        self.alive = True
        self._scheduler = scheduler

    def start(self, body: Callable[[], object]) -> None:
        """Add a concurrent task."""
        self._scheduler.add_task(self, body)

    def kill(self) -> None:
        self.alive = False


class _Task:
    """Greenlet of an actor."""

    __slots__ = ("actor", "greenlet")

    def __init__(self, actor: SimulatedProcess, body: Callable[[], object], hub: greenlet) -> None:
        self.actor = actor
        self.greenlet = greenlet(body, hub)


class Scheduler:
    """Runs tasks one at a time, in simulated time.

    Args:
        seed: Determines the run.
        steps_max: Maximum number of steps; a longer run counts as stuck.
    """

    def __init__(self, seed: int, *, steps_max: int) -> None:
        self.random = random.Random(seed)
        self.step = 0
        self.seconds = 0.0
        self._steps_max = steps_max
        self._due: list[tuple[float, float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._tasks: dict[_Task, None] = {}
        self._current: _Task | None = None
        self._hub = getcurrent()

    @property
    def current_task(self) -> object:
        """The running task, or None outside of all tasks."""
        return self._current

    def latency(self) -> float:
        """Return the duration of a task's next pause, in simulated seconds."""
        return self.random.random() * 0.01

    def add_task(self, actor: SimulatedProcess, body: Callable[[], object]) -> None:
        """Add a task of an actor; the scheduler starts it later."""
        task = _Task(actor, body, self._hub)
        self._tasks[task] = None
        self.after(self.latency(), partial(self._resume, task))

    def run(self) -> None:
        """Run until every task has ended.

        Raises:
            TaskFailedError: A task raised an exception.
            SimulationStuckError: The tasks wait for each other, or took too many steps.
        """
        try:
            while self._due:
                self.step += 1
                if self.step > self._steps_max:
                    raise SimulationStuckError(f"not finished after {self._steps_max} steps")
                self.seconds, _, _, action = heapq.heappop(self._due)
                action()
            stuck = sorted(task.actor.name for task in self._tasks if task.actor.alive)
            if stuck:
                raise SimulationStuckError(f"tasks wait forever: {', '.join(stuck)}")
        finally:
            self._unwind()

    def pause(self, actor: SimulatedProcess, seconds: float | None = None) -> None:
        """Yield to other tasks, for `seconds` or a random time.

        Raises:
            ActorKilledError: The actor has been killed.
        """
        task = self._running(actor)
        self.after(self.latency() if seconds is None else seconds, partial(self._resume, task))
        self._hub.switch()

    def park(self, actor: SimulatedProcess, ready: Callable[[Callable[[], None]], None]) -> None:
        """Wait until the function passed to `ready` is called; repeated calls are harmless.

        Raises:
            ActorKilledError: The actor has been killed.
        """
        resume: list[Callable[[], None]] = [partial(self._resume, self._running(actor))]

        def wake() -> None:
            if resume:
                self.after(0.0, resume.pop())

        ready(wake)
        self._hub.switch()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule an action; actions due at the same time run in random order."""
        self._sequence += 1
        entry = (self.seconds + seconds, self.random.random(), self._sequence, action)
        heapq.heappush(self._due, entry)

    def _running(self, actor: SimulatedProcess) -> _Task:
        if not actor.alive:
            raise ActorKilledError(actor.name)
        task = self._current
        assert task is not None, "simulated calls are made by tasks, not by the test"
        assert task.actor is actor, f"a task of {task.actor.name} used a handle of {actor.name}"
        return task

    def _resume(self, task: _Task) -> None:
        self._current = task
        try:
            if task.actor.alive:
                task.greenlet.switch()
            else:
                task.greenlet.throw(ActorKilledError(task.actor.name))
        except ActorKilledError:
            pass
        except Exception as error:
            raise TaskFailedError(f"a task of {task.actor.name} raised {error!r}") from error
        finally:
            self._current = None
            if task.greenlet.dead:
                del self._tasks[task]

    def _unwind(self) -> None:
        """End all remaining tasks now: no ``finally`` block may run at a random later moment."""
        for task in list(self._tasks):
            task.actor.kill()
            # Exceptions of a task being ended are not a result of the run.
            with suppress(TaskFailedError):
                self._resume(task)
