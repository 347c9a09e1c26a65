from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from lakebed.lake.errors import CatalogError
from lakebed.server import background
from lakebed.server.http import metrics
from lakebed.server.processes import metrics as process_metrics
from lakebed.server.processes.metrics import ProcessMetrics
from tests.server.metrics_kit import values


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the metrics of a server; every look samples."""
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(process_metrics, "_SAMPLE_SECONDS", 0.0)
    return tmp_path


def test_restarts_are_counted_and_shown_by_whoever_is_asked(folder: Path) -> None:
    known = ProcessMetrics(folder)
    known.count_restart("worker")
    known.write()
    assert values(folder)["restarts_total", "worker"] == 1
    assert b'lakebed_process_restarts_total{role="worker"} 1.0' in metrics.render()


def test_a_folder_that_is_gone_ends_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = ProcessMetrics(folder)
    gone = folder.rename(f"{folder}-gone")
    metrics.register_process("worker")
    metrics.forget_process(1, folder)
    known.write()
    known.write()
    assert sum("cannot write the metrics" in text for text in caplog.messages) == 1
    gone.rename(folder)
    known.write()
    assert values(folder)["restarts_total", "worker"] == 0


def test_passes_of_the_background_are_counted_by_outcome() -> None:
    def fail() -> None:
        raise CatalogError("away")

    before = {outcome: counted(outcome) for outcome in ("success", "failure")}
    background.run("of-the-test", lambda: None)
    for _ in range(2):
        background.run("of-the-test", fail)
    assert counted("success") == before["success"] + 1
    assert counted("failure") == before["failure"] + 2
    last = REGISTRY.get_sample_value(
        "lakebed_background_last_success_timestamp_seconds", {"task": "of-the-test"}
    )
    assert last is not None
    assert last > 1.7e9


def counted(outcome: str) -> float:
    labels = {"task": "of-the-test", "outcome": outcome}
    return REGISTRY.get_sample_value("lakebed_background_runs_total", labels) or 0.0
