"""Runs that go on, as somebody sees them who watches."""

import threading
from collections.abc import Iterable

import pytest

from lakebed.block import Address, PutResult
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.lake.hooks.errors import RunNotFound
from lakebed.lake.hooks.events import HookEvent
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.runs import HookRunInfo, HookRunRecord
from tests.kit.lake import TurnableClock
from tests.kit.served import eventually
from tests.lake.hooks.run_kit import LAKE, HookLake

FIRST = "0000_0000"


@pytest.mark.slow
@pytest.mark.parametrize("event_type", ["pre-commit", "post-commit"])
def test_a_run_that_goes_on_is_shown_to_those_who_ask_for_it(event_type: str) -> None:
    lake = HookLake()
    runs = lake.actions.runs
    seen: list[tuple[HookRunRecord, HookRunInfo]] = []

    def look(event: HookEvent, output: HookOutput) -> None:
        output.print("looking")
        eventually(lambda: runs.output(LAKE, event.run_id, FIRST) == b"looking\n")
        assert event.run_id not in [run.id for run in runs.list(LAKE)]
        with pytest.raises(RunNotFound):
            runs.get(LAKE, event.run_id)
        with pytest.raises(RunNotFound):
            runs.hooks(LAKE, event.run_id)
        (run,) = runs.list(LAKE, running=True)
        assert run == runs.get(LAKE, event.run_id, running=True)
        assert [run] == list(runs.list(LAKE, branch="main", running=True))
        (hook,) = runs.hooks(LAKE, event.run_id, running=True)
        seen.append((run, hook))

    lake.answers.deeds["check"] = look
    lake.put_action("watched", event_type)
    lake.commit()
    lake.actions.post.run_waiting()
    ((run, hook),) = seen
    assert (run.event_type, run.branch, run.ended, hook.ended) == (event_type, "main", None, None)
    (after,) = runs.list(LAKE)
    assert (after.id, after.passed) == (run.id, True)
    assert after.ended is not None
    assert [after] == list(runs.list(LAKE, running=True))


def test_prepared_runs_are_not_listed() -> None:
    lake = HookLake()
    lake.put_action("watched", "post-commit")
    lake.commit()
    assert list(lake.actions.runs.list(LAKE, running=True)) == []


class SlowLogs(MemoryBlockStore):
    """The first log that it stores, it stores late: when a later one is stored, or it seems so."""

    def __init__(self) -> None:
        super().__init__(TurnableClock())
        self.logs: list[bytes] = []
        self.has_begun = threading.Event()
        self._is_overtaken = threading.Event()

    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        if not str(address).endswith(".log"):
            return super().put(address, chunks)
        content = b"".join(chunks)
        if self.has_begun.is_set():
            self._is_overtaken.set()
        else:
            self.has_begun.set()
            self._is_overtaken.wait(0.5)
        self.logs.append(content)
        return super().put(address, [content])


@pytest.mark.slow
def test_the_whole_log_is_what_is_stored_last() -> None:
    block = SlowLogs()
    lake = HookLake(block=block)

    def print_twice(_event: HookEvent, output: HookOutput) -> None:
        output.print("one")
        assert block.has_begun.wait(60)
        output.print("two")

    lake.answers.deeds["check"] = print_twice
    lake.put_action("watched", "pre-commit")
    lake.commit()
    assert block.logs == [b"one\n", b"one\ntwo\n"]
