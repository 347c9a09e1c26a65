"""Airflow 3 itself: what its fake in `test_airflow` stands for. Only in `make test-all`."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from lakebed.testing.servers.object_stores import free_ports
from tests.lake.hooks.kit import Ran, run

pytestmark = [pytest.mark.slow, pytest.mark.airflow]

BIN: Final = Path(__file__).parents[3] / ".envs/airflow/bin"
AIRFLOW: Final = str(BIN / "airflow")
PATIENCE_SECONDS: Final = 300.0
DAG: Final = "from airflow.sdk import DAG\n\ndag = DAG('etl', schedule=None)\n"
RUN: Final = "lakeFS_hook_my_hook_run-1"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Airflow's server with one DAG; nothing runs it, so tests decide how its runs end."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    (home / "dags" / "etl.py").write_text(DAG)
    (home / "passwords.json").write_text(json.dumps({"admin": "s3cret"}))
    environment = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
    }
    for words in (["db", "migrate"], ["dags", "reserialize"]):
        subprocess.run([AIRFLOW, *words], env=environment, check=True, capture_output=True)
    (port,) = free_ports(1)
    command = [AIRFLOW, "api-server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/api/v2/version")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait(url: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            httpx.get(url, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError(f"Airflow does not answer at {url}")


def trigger(url: str, **more: Any) -> Ran:
    given = {"url": url, "dag_id": "etl", "username": "admin", "password": "s3cret"}
    return run("airflow", {**given, "api_version": "v2", **more})


def test_a_run_is_started_once_and_awaited(url: str) -> None:
    assert trigger(url, dag_conf={"a": 1}).error is None
    login = {"username": "admin", "password": "s3cret"}
    with httpx.Client(base_url=url, trust_env=False) as client:
        token = client.post("/auth/token", json=login).json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        started = client.get(f"/api/v2/dags/etl/dagRuns/{RUN}").json()
        assert started["state"] == "queued"
        assert started["conf"]["a"] == 1
        assert started["conf"]["lakeFS_event"]["hook_id"] == "my_hook"
        for state, error in (
            ("success", ""),
            ("failed", "the DAG run failed: see the logs of Airflow"),
        ):
            patch = client.patch(f"/api/v2/dags/etl/dagRuns/{RUN}", json={"state": state})
            assert patch.status_code == 200
            again = trigger(url, wait_for_dag=True)
            assert (again.error or "").startswith(error)
            assert "Response: 409" in again.output
            assert token not in again.output
        assert client.get("/api/v2/dags/etl/dagRuns").json()["total_entries"] == 1


def test_refused_triggers(url: str) -> None:
    assert trigger(url, password="wrong").error == "Airflow returned no token: status 401"
    assert trigger(url, dag_id="none").error == ("Airflow did not start the DAG: status 404")
