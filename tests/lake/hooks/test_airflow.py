"""Airflow hooks against the routes of its two APIs."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakebed.base.runtime import ThreadRuntime
from tests.lake.hooks.kit import BadServer, Connection, Ran, bad_server, run

PASSWORD = "s3cret-pass"
TOKEN = "eyJ.token.of-airflow"
RUN_ID = "lakeFS_hook_my_hook_run-1"


class Hasty(ThreadRuntime):
    """Its clock goes on by what was slept, so nobody waits."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped

    def sleep(self, seconds: float) -> None:
        self.skipped += seconds


@dataclass
class Airflow:
    """What Airflow's API does with one DAG, ``etl daily``."""

    runs: dict[str, Any] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)

    def token(self, connection: Connection) -> None:
        given = json.loads(connection.received.body)
        if given == {"username": "admin", "password": PASSWORD}:
            connection.answer(201, json.dumps({"access_token": TOKEN}).encode())
        else:
            connection.answer(401, b'{"detail": "Invalid credentials"}')

    def trigger(self, connection: Connection, *, is_v2: bool) -> None:
        if not self.may(connection, is_v2=is_v2):
            return
        given = json.loads(connection.received.body)
        if is_v2 and "logical_date" not in given:
            connection.answer(422, b'{"detail": "logical_date: Field required"}')
        elif given["dag_run_id"] in self.runs:
            connection.answer(409, b'{"detail": "already exists"}')
        else:
            self.runs[given["dag_run_id"]] = given
            connection.answer(200, b'{"state": "queued"}')

    def show(self, connection: Connection, *, is_v2: bool) -> None:
        if self.may(connection, is_v2=is_v2):
            connection.answer(200, json.dumps({"state": self.states.pop(0)}).encode())

    def may(self, connection: Connection, *, is_v2: bool) -> bool:
        pair = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
        wanted = f"Bearer {TOKEN}" if is_v2 else f"Basic {pair}"
        if connection.received.headers.get("authorization") == wanted:
            return True
        connection.answer(401, connection.received.headers.get("authorization", "").encode())
        return False


@pytest.fixture
def airflow() -> Airflow:
    return Airflow()


@pytest.fixture
def server(airflow: Airflow) -> Iterator[BadServer]:
    runs = "/base/api/{}/dags/etl%20daily/dagRuns"
    behaviours = {
        "/base/auth/token": airflow.token,
        runs.format("v1"): lambda each: airflow.trigger(each, is_v2=False),
        runs.format("v2"): lambda each: airflow.trigger(each, is_v2=True),
        f"{runs.format('v1')}/{RUN_ID}": lambda each: airflow.show(each, is_v2=False),
        f"{runs.format('v2')}/{RUN_ID}": lambda each: airflow.show(each, is_v2=True),
        "/base/api/v1/dags/none/dagRuns": lambda each: each.answer(404),
    }
    with bad_server(behaviours) as server:
        yield server


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEFSACTION_PASSWORD", PASSWORD)


def trigger(server: BadServer, runtime: ThreadRuntime | None = None, **more: Any) -> Ran:
    properties = {
        "url": f"{server.url}/base/",
        "dag_id": "etl daily",
        "username": "admin",
        "password": "{{ ENV.LAKEFSACTION_PASSWORD }}",
        **more,
    }
    given = {name: value for name, value in properties.items() if value is not None}
    ran = run("airflow", given, runtime=runtime)
    for secret in (PASSWORD, TOKEN, base64.b64encode(f"admin:{PASSWORD}".encode()).decode()):
        assert secret not in ran.output
        assert secret not in str(ran.error)
    return ran


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_run_is_started(server: BadServer, airflow: Airflow, version: str) -> None:
    conf = {"depth": {"a": [1]}}
    assert trigger(server, api_version=version, dag_conf=conf).error is None
    (started,) = airflow.runs.values()
    assert started["dag_run_id"] == RUN_ID
    assert started["conf"]["depth"] == {"a": [1]}
    assert started["conf"]["lakeFS_event"]["event_type"] == "pre-commit"
    assert started["conf"]["lakeFS_event"]["hook_id"] == "my_hook"


def test_v1_is_spoken_unless_the_file_says_otherwise(server: BadServer, airflow: Airflow) -> None:
    assert trigger(server).error is None
    assert [each.line for each in server.received] == [
        "POST /base/api/v1/dags/etl%20daily/dagRuns HTTP/1.1"
    ]
    assert "logical_date" not in airflow.runs[RUN_ID]


def test_a_token_can_be_given(server: BadServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEFSACTION_TOKEN", TOKEN)
    token = "{{ ENV.LAKEFSACTION_TOKEN }}"
    ran = trigger(server, api_version="v2", token=token, username=None, password=None)
    assert ran.error is None
    assert len(server.received) == 1


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_end_is_awaited(server: BadServer, airflow: Airflow, version: str) -> None:
    airflow.states = ["queued", "running", "success"]
    hasty = Hasty()
    ran = trigger(server, hasty, wait_for_dag=True, api_version=version)
    assert ran.error is None
    assert not airflow.states
    assert hasty.skipped > 10  # three polls, five seconds apart


def test_a_run_that_fails_fails_the_hook(server: BadServer, airflow: Airflow) -> None:
    airflow.states = ["running", "failed"]
    error = trigger(server, Hasty(), wait_for_dag=True).error
    assert error is not None
    assert error.startswith("the DAG run failed: see the logs of Airflow for http")


def test_a_run_that_takes_too_long_fails_the_hook(server: BadServer, airflow: Airflow) -> None:
    airflow.states = ["running"] * 100
    ran = trigger(server, Hasty(), wait_for_dag=True, timeout="1m")
    assert "timed out" in str(ran.error)
    assert len(airflow.states) > 80


def test_an_event_that_is_delivered_again_starts_no_second_run(
    server: BadServer, airflow: Airflow
) -> None:
    airflow.states = ["success", "success"]
    assert trigger(server, Hasty(), wait_for_dag=True).error is None
    assert trigger(server, Hasty(), wait_for_dag=True).error is None
    assert len(airflow.runs) == 1


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"password": "wrong-one"}, "Airflow did not start the DAG: status 401"),
        ({"password": "wrong-one", "api_version": "v2"}, "Airflow returned no token: status 401"),
        ({"dag_id": "none"}, "Airflow did not start the DAG: status 404"),
    ],
)
def test_refusals_by_airflow(server: BadServer, more: dict[str, Any], error: str) -> None:
    ran = trigger(server, **more)
    assert ran.error == error
    assert "wrong-one" not in ran.output
