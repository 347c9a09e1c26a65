import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from lakebed.catalog.errors import CatalogError
from lakebed.server.http import metrics
from lakebed.server.processes import background
from lakebed.server.processes import metrics as process_metrics
from lakebed.server.processes.background import Job
from lakebed.server.processes.metrics import ProcessMetrics


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the metrics of a server; every look samples."""
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(process_metrics, "_SAMPLE_SECONDS", 0.0)
    return tmp_path


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate()


def values(folder: Path) -> dict[tuple[str, str], float]:
    text = (folder / metrics.SUPERVISOR_FILE).read_text()
    return {
        (sample.name.removeprefix("lakebed_process_"), sample.labels["role"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_processes_are_summed_by_role_until_they_end(
    folder: Path, child: "subprocess.Popen[bytes]"
) -> None:
    metrics.mark_process("worker")
    (folder / f"process-worker-{child.pid}").touch()
    known = ProcessMetrics(folder)
    known.write()
    both = values(folder)
    assert both["count", "worker"] == 2
    assert both["resident_memory_bytes", "worker"] > 10 << 20
    assert both["open_fds", "worker"] >= 6
    assert both["cpu_seconds_total", "worker"] > 0
    assert both["start_time_seconds", "worker"] > 1.7e9
    child.communicate()
    known.write()
    one = values(folder)
    assert one["count", "worker"] == 1
    assert one["cpu_seconds_total", "worker"] >= both["cpu_seconds_total", "worker"]
    assert [path.name for path in folder.glob("process-*")] == [f"process-worker-{os.getpid()}"]


def test_restarts_are_counted_and_shown_by_whoever_is_asked(folder: Path) -> None:
    known = ProcessMetrics(folder)
    known.count_restart("worker")
    known.write()
    assert values(folder)["restarts_total", "worker"] == 1
    assert b'lakebed_process_restarts_total{role="worker"} 1.0' in metrics.render()


def test_passes_of_the_background_are_counted_by_outcome() -> None:
    def fail() -> None:
        raise CatalogError("away")

    before = {outcome: counted(outcome) for outcome in ("success", "failure")}
    background.run(Job("of-the-test", lambda: None))
    for _ in range(2):
        background.run(Job("of-the-test", fail))
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
