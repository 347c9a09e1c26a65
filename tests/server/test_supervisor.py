"""The supervisor, on its side: what the system may refuse it, and which workers it ends."""

import multiprocessing
import os
import socket
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn

import pytest

from lakebed.server.http import metrics
from lakebed.server.processes.supervisor import CHECK_SECONDS, _Child, _Supervisor, _Worker
from lakebed.server.settings import DatabaseSettings, ProcessSettings, ServerSettings

NOTHING = "builtins:int"
HANG_SECONDS = 5


def supervisor_of(folder: Path, settings: ServerSettings | None = None) -> _Supervisor:
    made = _Supervisor(
        settings or ServerSettings(), folder, NOTHING, lambda _endpoint: None, socket.socket()
    )
    made._listener.close()
    return made


class Silent(_Worker):
    """A worker of which the test says what it does."""

    def __init__(self, name: str) -> None:
        super().__init__(NOTHING)
        self.name = name
        self.is_running = True
        self._heartbeats, self.sends = multiprocessing.Pipe(duplex=False)
        os.set_blocking(self._heartbeats.fileno(), False)

    @property
    def is_alive(self) -> bool:
        return self.is_running

    @property
    def label(self) -> str:
        return self.name

    def beat(self) -> None:
        os.write(self.sends.fileno(), b".")

    def kill(self) -> None:
        self.is_running = False

    def come_back(self) -> None:
        self.is_running, self.is_starting, self.silent_checks = True, True, 0


def watched(
    folder: Path, count: int, settings: ServerSettings | None = None
) -> tuple[_Supervisor, list[Silent]]:
    """Return a supervisor and workers that have all shown once that they serve."""
    processes = ProcessSettings(hang_seconds=HANG_SECONDS)
    supervisor = supervisor_of(folder, settings or ServerSettings(processes=processes))
    workers = [Silent(f"worker {number}") for number in range(count)]
    supervisor._workers = list(workers)
    for worker in workers:
        worker.beat()
    supervisor._kill_hanging_worker()
    return supervisor, workers


def look(supervisor: _Supervisor, *serving: Silent, times: int = 1) -> None:
    for _ in range(times):
        for worker in serving:
            worker.beat()
        supervisor._kill_hanging_worker()


LOOKS = int(HANG_SECONDS / CHECK_SECONDS)


def test_a_worker_that_is_silent_for_too_long_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor, (hung, serving) = watched(tmp_path, 2)
    look(supervisor, serving, times=LOOKS - 1)
    assert hung.is_running
    look(supervisor, serving)
    assert (hung.is_running, serving.is_running) == (False, True)
    assert "worker 0 has not served for 5 seconds: killing and replacing it" in caplog.text


def test_a_worker_that_goes_on_in_time_lives(tmp_path: Path) -> None:
    supervisor, (slow, serving) = watched(tmp_path, 2)
    for _ in range(3):
        look(supervisor, serving, times=LOOKS - 1)
        look(supervisor, slow, serving)
    assert slow.is_running


def test_workers_are_killed_one_after_the_other(tmp_path: Path) -> None:
    supervisor, workers = watched(tmp_path, 3)
    look(supervisor, times=LOOKS)
    assert [each.is_running for each in workers] == [False, True, True]
    workers[0].come_back()
    look(supervisor, times=LOOKS - 1)
    assert [each.is_running for each in workers] == [True, True, True]
    look(supervisor, workers[0])
    assert [each.is_running for each in workers] == [True, False, True]
    # A replacement that does not come up keeps the next one no longer than another silence.
    workers[1].come_back()
    look(supervisor, workers[0], times=LOOKS - 1)
    assert workers[2].is_running
    look(supervisor, workers[0])
    assert [each.is_running for each in workers] == [True, True, False]


def test_a_worker_that_has_not_begun_to_serve_is_not_killed(tmp_path: Path) -> None:
    supervisor, (starting, serving) = watched(tmp_path, 2)
    starting.come_back()
    look(supervisor, serving, times=10 * LOOKS)
    assert starting.is_running


def test_time_in_which_the_supervisor_was_stopped_does_not_count(tmp_path: Path) -> None:
    supervisor, workers = watched(tmp_path, 2)
    look(supervisor, times=LOOKS - 2)
    # However long it was stopped, as the whole machine may have been: this is one more look.
    look(supervisor)
    assert all(each.is_running for each in workers)
    look(supervisor, *workers, times=LOOKS)
    assert all(each.is_running for each in workers)


def test_a_worker_with_all_data_in_memory_is_not_killed(tmp_path: Path) -> None:
    settings = ServerSettings(database=DatabaseSettings(url="memory:"))
    assert settings.in_memory
    supervisor, (hung,) = watched(tmp_path, 1, settings)
    look(supervisor, times=10 * LOOKS)
    assert hung.is_running


def test_no_worker_is_killed_where_that_is_set(tmp_path: Path) -> None:
    settings = ServerSettings(processes=ProcessSettings(hang_seconds=0))
    supervisor, (hung,) = watched(tmp_path, 1, settings)
    look(supervisor, times=100)
    assert hung.is_running


def test_a_process_that_cannot_be_started_again_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    supervisor = supervisor_of(tmp_path)
    supervisor._is_ready.set()
    child = _Child("background", NOTHING)
    supervisor._workers, supervisor._background = [], child
    child.start()
    assert child._process is not None
    child._process.join()
    first = child.pid

    def refuse(_process: BaseProcess) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(BaseProcess, "start", refuse)
        supervisor._check_children()
        supervisor._check_children()
    assert child.pid == first
    supervisor._check_children()
    assert child.pid != first
    supervisor._end()
