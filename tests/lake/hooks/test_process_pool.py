"""Processes of hooks are bounded, over all hooks of a server process."""

import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from types import ModuleType
from typing import Self

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds import command, lua
from lakebed.lake.hooks.processes import (
    PER_USER_MAX,
    PROCESSES_MAX,
    WAIT_SECONDS_MAX,
    Child,
    ProcessPool,
)
from lakebed.lake.hooks.settings import HookLimits
from tests.kit.lake import TurnableClock
from tests.lake.hooks.kit import EVENT, Ran, run


class Hooks:
    """Hooks of one pool. Each wait takes half a minute of the clock."""

    def __init__(self) -> None:
        self._clock = TurnableClock()
        self._pool = ProcessPool(self._clock)
        self._begun: list[ExitStack] = []

    def begin(
        self, user: str, *, depth: int = 0, is_awaited: bool = True, seconds: float = 600
    ) -> ExitStack:
        """Begin a hook; return its end."""
        until = self._clock.monotonic() + seconds
        deadline = Deadline(self._clock, until, self._wait)
        end = ExitStack()
        end.enter_context(
            self._pool.one(user, depth=depth, deadline=deadline, is_awaited=is_awaited)
        )
        self._begun.append(end)  # else it would end with the last use of it
        return end

    def _wait(self) -> bool:
        self._clock.ahead_seconds += 30
        return False


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.mark.slow
def test_one_user_leaves_a_process_to_others(hooks: Hooks) -> None:
    running = [hooks.begin("jane") for _ in range(PER_USER_MAX)]
    with pytest.raises(HookFailed, match=f"none ended within {WAIT_SECONDS_MAX:g} seconds"):
        hooks.begin("jane")
    others = [hooks.begin("joe") for _ in range(PROCESSES_MAX - PER_USER_MAX)]
    with pytest.raises(HookFailed, match="retry later"):
        hooks.begin("ann")
    others.pop().close()
    hooks.begin("ann").close()
    running.pop().close()
    hooks.begin("jane")


def test_a_hook_that_failed_gives_its_process_back(hooks: Hooks) -> None:
    for _ in range(2 * PROCESSES_MAX):
        with pytest.raises(ValueError, match="oops"), hooks.begin("jane"):
            raise ValueError("oops")


@pytest.mark.slow
def test_nested_hooks_do_not_wait_for_those_that_wait_for_them(hooks: Hooks) -> None:
    for _ in range(PER_USER_MAX):
        hooks.begin("jane")
    with hooks.begin("jane", depth=1):
        with hooks.begin("jane", depth=2):
            pass
        with pytest.raises(HookFailed, match="none ended"):
            hooks.begin("jane", depth=1)
    hooks.begin("jane", depth=1)


@pytest.mark.slow
def test_a_hook_after_an_operation_waits_until_its_deadline(hooks: Hooks) -> None:
    for _ in range(PER_USER_MAX):
        hooks.begin("jane")
    with pytest.raises(HookFailed, match="the hook timed out"):
        hooks.begin("jane", is_awaited=False, seconds=3 * WAIT_SECONDS_MAX)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [lua, command])
def test_no_more_processes_run_at_once(kind: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    running = [0, 0]
    lock = threading.Lock()

    class Counted(Child):
        def __enter__(self) -> Self:
            with lock:
                running[0] += 1
                running[1] = max(running)
            return super().__enter__()

        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)
            with lock:
                running[0] -= 1

    monkeypatch.setattr(kind, "Child", Counted)
    code = "import time; time.sleep(0.2)"
    settings = HookLimits(commands={"mine": (sys.executable, "-I", "-c", code)})
    properties = {"script": "return"} if kind is lua else {"command": "mine"}
    pool = ProcessPool(ThreadRuntime())
    found: list[Ran] = []

    def one(user: str) -> None:
        event = replace(EVENT, username=user)
        name = kind.__name__.rpartition(".")[2]
        found.append(run(name, properties, settings=settings, pool=pool, event=event))

    threads = [threading.Thread(target=one, args=(f"user-{at % 2}",)) for at in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.error for each in found] == [None] * len(threads)
    assert running == [0, PROCESSES_MAX]
