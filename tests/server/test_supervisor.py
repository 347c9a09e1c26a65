"""The supervisor, on its side: what the system may refuse it."""

from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn

import pytest

from lakebed.server.http import metrics
from lakebed.server.processes.supervisor import _Child, _Supervisor
from lakebed.server.settings import ServerSettings

NOTHING = "builtins:int"


def test_a_process_that_cannot_be_started_again_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    supervisor = _Supervisor(ServerSettings(), tmp_path, NOTHING, lambda _endpoint: None)
    supervisor._is_ready.set()
    child = _Child("worker", NOTHING)
    supervisor._workers, supervisor._background = [child], child
    child.start()
    assert child._process is not None
    child._process.join()
    first = child.pid

    def refuse(_process: BaseProcess) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(BaseProcess, "start", refuse)
        supervisor._look_after()
        supervisor._look_after()
    assert child.pid == first
    supervisor._look_after()
    assert child.pid != first
    supervisor._end()
