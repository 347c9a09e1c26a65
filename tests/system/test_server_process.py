"""The processes of a server: they are counted, come back, end, and leave nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import psutil
import pytest

from lakebed.server.http import metrics
from lakebed.server.processes import metrics as process_metrics
from lakebed.server.processes.metrics import ProcessMetrics
from tests.kit.served import PATIENCE_SECONDS, Served, Servers, eventually
from tests.server.metrics_kit import values


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )


def background_of(served: Served, workers: set[int]) -> psutil.Process:
    """The process that is neither a worker nor the one that Python tracks its resources with."""
    others = [
        child
        for child in served.processes()
        if child.pid not in workers and "resource_tracker" not in " ".join(child.cmdline())
    ]
    (process,) = others
    return process


SECRET: Final = "a-secret-of-the-environment"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for the tests that leave it as it is."""
    servers = Servers(tmp_path_factory.mktemp("served"), [])
    secret = "LAKEBED_SERVER__BLOCKSTORE__S3__SECRET_ACCESS_KEY"
    yield servers.serve(environment={secret: SECRET})
    servers.end()


def test_two_workers_count_together(served: Served) -> None:
    assert len(served.worker_pids(2)) == 2
    for _ in range(20):
        served.get("slow/0")
    counted = {
        'lakebed_http_seconds_count{operation="slow",status="200"} 20.0',
        "lakebed_http_requests_in_progress 1.0",
    }
    for _ in range(4):  # whichever worker answers; a request is counted after its answer
        eventually(lambda: counted <= set(served.get("metrics").text.splitlines()))
    # What the background process does with the store is counted too.
    eventually(lambda: 'lakebed_kv_seconds_count{driver="sqlite"' in served.get("metrics").text)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate()


def test_processes_are_summed_by_role_until_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: "subprocess.Popen[bytes]"
) -> None:
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(process_metrics, "_SAMPLE_SECONDS", 0.0)  # every look samples
    metrics.register_process("worker")
    (tmp_path / f"process-worker-{child.pid}").touch()
    known = ProcessMetrics(tmp_path)
    known.write()
    both = values(tmp_path)
    assert both["count", "worker"] == 2
    assert both["resident_memory_bytes", "worker"] > 10 << 20
    assert both["open_fds", "worker"] >= 6
    assert both["cpu_seconds_total", "worker"] > 0
    assert both["start_time_seconds", "worker"] > 1.7e9
    child.communicate()
    known.write()
    one = values(tmp_path)
    assert one["count", "worker"] == 1
    assert one["cpu_seconds_total", "worker"] >= both["cpu_seconds_total", "worker"]
    assert [path.name for path in tmp_path.glob("process-*")] == [f"process-worker-{os.getpid()}"]


def test_no_secret_is_in_a_command_line_or_shown_to_requests(served: Served) -> None:
    assert SECRET not in served.get("environment").text
    lines = [" ".join(process.cmdline()) for process in served.processes()]
    assert lines
    assert not any(SECRET in line or "a key for tests" in line for line in lines)


def test_a_second_server_at_the_same_port_is_refused(served: Served, servers: Servers) -> None:
    assert "in use" in fails(servers, servers.settings(listen={"port": served.port}))[0]


def test_a_worker_that_is_killed_comes_back_every_time(servers: Servers) -> None:
    served = servers.serve()
    workers = served.worker_pids(2)
    lost = served.connect(b"GET /slow/60 HTTP/1.1\r\nHost: x\r\n\r\n")
    eventually(lambda: "in_progress 2.0" in served.get("metrics").text)
    for pid in workers:  # both at once
        os.kill(pid, signal.SIGKILL)
    lost.close()
    eventually(lambda: _answers(served))
    # The dead do not count.
    eventually(lambda: "in_progress 1.0" in served.get("metrics").text)
    victim = min(served.worker_pids(2))
    assert victim not in workers
    known = {process.pid for process in served.processes()}
    for _ in range(3):  # and each as soon as it is there
        os.kill(victim, signal.SIGKILL)
        victim = eventually(lambda: _child_besides(served, known))
        known.add(victim)
    assert len(served.worker_pids(2)) == 2
    assert served.process.poll() is None


def _child_besides(served: Served, known: set[int]) -> int | None:
    return next((each.pid for each in served.processes() if each.pid not in known), None)


def _answers(served: Served) -> bool:
    try:
        return served.get("healthcheck").status_code == 200
    except httpx.TransportError:
        return False


def test_the_background_process_cleans_and_comes_back(servers: Servers) -> None:
    served = servers.serve(logging={"level": "debug"}, cleaner={"interval_seconds": 0.1})
    eventually(lambda: served.log().count("cleaner: CleanerCounts(ran=True") >= 2)
    for once in ("storage: None", "backups: 0"):  # what is asked of the storage at the start
        assert served.log().count(once) == 1, once
    process = background_of(served, served.worker_pids(2))
    process.kill()
    eventually(lambda: "background process ended" in served.log())
    assert eventually(lambda: background_of(served, served.worker_pids(2))).pid != process.pid
    served.process.terminate()
    assert served.wait() == 0


def test_a_slow_request_is_finished_when_the_server_is_told_to_stop(servers: Servers) -> None:
    served = servers.serve()
    processes = served.processes()
    answers: list[str] = []
    client = threading.Thread(target=lambda: answers.append(served.get("slow/2").text))
    client.start()
    eventually(lambda: "in_progress 2.0" in served.get("metrics").text)
    served.process.terminate()
    assert served.wait() == 0
    client.join()
    assert answers == ["done"]
    eventually(lambda: all_gone(processes))
    with pytest.raises(httpx.ConnectError):
        served.get("healthcheck")


def test_requests_that_do_not_finish_are_ended(servers: Servers, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    served = servers.serve(
        processes={"shutdown_seconds": 1}, environment={"TMPDIR": str(temporary)}
    )
    assert len(list(temporary.glob("lakebed-*"))) == 1
    processes = served.processes()
    client = served.connect(b"GET /slow/600 HTTP/1.1\r\nHost: x\r\n\r\n")
    eventually(lambda: "in_progress 2.0" in served.get("metrics").text)
    served.process.send_signal(signal.SIGINT)
    assert served.wait() == 0  # long before the request would end
    assert list(temporary.iterdir()) == []
    eventually(lambda: all_gone(processes))
    client.close()


def test_no_process_outlives_a_supervisor_that_is_killed(servers: Servers) -> None:
    served = servers.serve()
    served.worker_pids(2)
    processes = served.processes()
    assert len(processes) >= 3
    served.process.kill()
    served.wait()
    eventually(lambda: all_gone(processes))


def test_no_process_is_left_when_it_stops_while_it_starts(servers: Servers) -> None:
    process = servers.launch(servers.settings())
    eventually(lambda: len(psutil.Process(process.pid).children()) >= 3)
    processes = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.wait(timeout=PATIENCE_SECONDS)
    eventually(lambda: all_gone(processes))


def fails(servers: Servers, settings: dict[str, dict[str, object]]) -> list[str]:
    process = servers.launch(settings)
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (2, "")
    return (servers.folder / "log").read_text().splitlines()


def test_a_busy_port_is_said_in_one_line(servers: Servers) -> None:
    settings = servers.settings()
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings["listen"]["port"] = port = other.getsockname()[1]
        assert fails(servers, settings) == [
            f"port {port} of 127.0.0.1 is in use: stop the other program, or use --port"
        ]
    assert not (servers.folder / "objects").exists()


def test_a_folder_that_cannot_be_written_is_said_in_one_line(servers: Servers) -> None:
    (servers.folder / "file").touch()
    settings = servers.settings()
    settings["blockstore"]["local"] = {"root": str(servers.folder / "file" / "objects")}
    assert fails(servers, settings) == [
        f"cannot write to {servers.folder}/file/objects: Not a directory"
    ]


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_said_in_one_line(servers: Servers, host: str) -> None:
    (line,) = fails(servers, servers.settings(listen={"host": host}))
    assert line.startswith("cannot listen at ")
    assert host in line


def test_an_application_that_cannot_start_ends_the_server_with_its_message(
    servers: Servers,
) -> None:
    (servers.folder / "refuse").touch()
    settings = servers.settings()
    settings["blockstore"]["default_namespace_prefix"] = str(servers.folder)
    assert fails(servers, settings)[-1] == "told to fail"


def test_workers_that_die_as_they_start_end_the_server(servers: Servers) -> None:
    (servers.folder / "die").touch()
    settings = servers.settings()
    settings["blockstore"]["default_namespace_prefix"] = str(servers.folder)
    assert fails(servers, settings)[-1].startswith("the workers exit at startup")


def test_a_worker_that_cannot_come_back_is_tried_again(servers: Servers) -> None:
    local: dict[str, object] = {"root": str(servers.folder / "objects")}
    served = servers.serve(
        blockstore={"local": local, "default_namespace_prefix": str(servers.folder)}
    )
    refuse = servers.folder / "refuse"
    workers = served.worker_pids(2)
    refuse.touch()
    os.kill(min(workers), signal.SIGKILL)
    eventually(lambda: served.log().count("could not start: told to fail") >= 2)
    assert served.get("healthcheck").status_code == 200
    refuse.unlink()
    assert len(served.worker_pids(2)) == 2


def test_data_in_memory_has_one_worker_and_says_so(servers: Servers) -> None:
    served = servers.serve(database={"url": "memory://"})
    (worker,) = served.worker_pids(1)
    assert "all data is in memory: the server runs one worker" in served.log()
    assert [child.pid for child in served.processes() if _is_worker(child)] == [worker]
    served.process.send_signal(signal.SIGHUP)  # its terminal was closed
    assert served.wait() == 0


def _is_worker(process: psutil.Process) -> bool:
    return "resource_tracker" not in " ".join(process.cmdline())
