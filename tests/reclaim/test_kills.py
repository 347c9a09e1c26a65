"""A run in one process that dies at any of its calls to the storage; the next one ends right."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.leases import LeaseState
from lakebed.block import BlockStore, MemorySettings
from lakebed.formats.gc_files import GCRunID
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.report import RunSummary
from lakebed.reclaim.collector.storage import Storage
from tests.kit.lake import TurnableClock, open_lake
from tests.kit.rounds import rounds
from tests.spark.lakes import GCLake, LocalServer

ONE_WAY = rounds(1, long=0)
"""Whether to die before or after each call, and not both."""


class Killed(BaseException):
    """The process died; nobody catches that."""


class Mortal:
    """Counts the calls to a storage, and ends everything at one of them: before it, or after."""

    def __init__(self, block: BlockStore, *, at: int | None, after: bool) -> None:
        self._block = block
        self._at = at
        self._after = after
        self._lock = threading.Lock()
        self.calls: list[str] = []
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._block, name)
        return self._watched(name, found) if callable(found) else found

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            with self._lock:  # a run calls from many threads
                self.check()
                self.calls.append(name)
                is_last = len(self.calls) == self._at
                self.is_dead = is_last
            if is_last and not self._after:
                raise Killed
            result = call(*arguments, **options)
            self.check()
            return result

        return watched

    def check(self) -> None:
        if self.is_dead:
            raise Killed


@dataclass(frozen=True)
class MortalStorage(Storage):
    mortal: Any = None

    @property
    def block(self) -> BlockStore:
        return self.mortal  # type: ignore[no-any-return]


class MortalServer(LocalServer):
    """The server lives; the run that asks it may be dead."""

    mortal: Mortal

    def take_lease(self, holder: str, over: str) -> LeaseState:
        self.mortal.check()
        return super().take_lease(holder, over)

    def end_run(self, holder: str, *, is_good: bool, next_us: int) -> None:
        self.mortal.check()
        super().end_run(holder, is_good=is_good, next_us=next_us)

    def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
        self.mortal.check()
        super().check_still_there(unique_id, run_id)


def run(
    lake: GCLake, *, at: int | None = None, after: bool = False
) -> tuple[RunSummary, list[str]]:
    mortal = Mortal(lake.lake.block, at=at, after=after)
    repository = lake.lake.repository
    storage = MortalStorage(
        lake.settings, repository.namespace, repository.unique_id, mortal=mortal
    )
    server = MortalServer(lake.lake)
    server.mortal = mortal
    executor = ArrowExecutor(storage, lake.lake.clock)
    job = CollectorJob(executor, server, storage, runtime=lake.lake.clock)
    return job.run(CollectorOptions()), mortal.calls


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_next_run_ends_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(clock: TurnableClock, seconds: float) -> None:
        clock.ahead_seconds += seconds

    monkeypatch.setattr(TurnableClock, "sleep", sleep)
    with open_lake("memory", tmp_path) as opened:
        lake = GCLake(opened, MemorySettings(), None)
        kept = {lake.upload("kept", "1")}
        lake.commit()
        kept.add(lake.upload("staged", "2"))
        lake.later(24 * 9)

        def make_garbage() -> None:
            for number in range(3):
                lake.upload("a", str(number))
            lake.delete("a")
            lake.later(26)
            summary, _ = run(lake)
            assert summary.waiting == 3
            lake.later()

        make_garbage()
        summary, calls = run(lake)
        assert (summary.deleted, lake.stored()) == (3, kept)
        assert {"create", "read", "list_objects", "replace", "put"} <= set(calls)
        for at in range(1, len(calls) + 1):
            for after in [at % 2 == 0] if ONE_WAY else [False, True]:
                make_garbage()
                with pytest.raises(Killed):
                    run(lake, at=at, after=after)
                assert kept <= lake.stored()
                lake.later()
                run(lake)
                assert lake.stored() == kept, f"killed at call {at}, {calls[at - 1]}"
                assert lake.lake.text("main", b"staged") == "2"
