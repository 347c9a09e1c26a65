"""When a request is sent again: the rules for people, and those for long jobs."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from lakebed.clients.http.errors import Refused, Unreachable
from lakebed.clients.http.http import Client
from lakebed.clients.http.retry import OUTLAST_RESTARTS
from lakebed.clients.http.settings import ClientSettings
from tests.clients.http.scripted import (
    Answer,
    Clock,
    Request,
    answer_json,
    asked,
    scripted_client,
    scripted_server,
)


class Busy:
    """Busy for so many requests."""

    def __init__(self, times: int, *, status: int = 503, retry_after: str | None = "2") -> None:
        self.requests = 0
        self._times = times
        self._status = status
        self._retry_after = retry_after

    def __call__(self, _: Request) -> Answer:
        self.requests += 1
        if self.requests > self._times:
            return answer_json("done")
        headers = {} if self._retry_after is None else {"Retry-After": self._retry_after}
        return Answer(self._status, b'{"message": "slow down"}', headers)


@pytest.mark.parametrize("status", [429, 503])
def test_a_read_comes_back_when_it_is_told_to(status: int) -> None:
    busy, clock = Busy(3, status=status), Clock()
    with scripted_client(busy, runtime=clock) as client:
        assert client.send(asked("GET", "x")) == "done"
    assert clock.waited == [2, 2, 2]


@pytest.mark.parametrize(
    ("retry_after", "requests"), [("2", 5), ("0", 5), ("12", 3), ("31", 1), (None, 1), ("soon", 1)]
)
def test_patience_ends(retry_after: str | None, requests: int) -> None:
    busy, clock = Busy(1000, retry_after=retry_after), Clock()
    with (
        scripted_client(busy, runtime=clock) as client,
        pytest.raises(Refused, match=r"^slow down \(503\)$"),
    ):
        client.send(asked("GET", "x"))
    assert busy.requests == requests
    assert sum(clock.waited) <= 30


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_change_is_asked_for_once(method: str) -> None:
    busy = Busy(1)
    with scripted_client(busy) as client, pytest.raises(Refused):
        client.send(asked(method, "x"))
    assert busy.requests == 1


def test_other_errors_are_not_repeated() -> None:
    busy = Busy(1, status=500)
    with scripted_client(busy) as client, pytest.raises(Refused):
        client.send(asked("GET", "x"))
    assert busy.requests == 1


def test_a_repetition_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    busy, clock = Busy(1), Clock()
    with scripted_client(busy, runtime=clock) as client:
        client.send(asked("GET", "x", query={"token": "hush"}))
    (warning,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.message == "GET /api/v1/x: status 503; attempt 2 follows in 2.0 s"


@contextmanager
def job_client(endpoint: str, clock: Clock) -> Iterator[Client]:
    settings = ClientSettings(endpoint, "key", "secret")
    with closing(Client(settings, retry_policy=OUTLAST_RESTARTS, runtime=clock)) as client:
        yield client


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_job_repeats_all_its_requests(method: str, status: int) -> None:
    busy, clock = Busy(5, status=status, retry_after=None), Clock()
    with scripted_server(busy) as endpoint, job_client(endpoint, clock) as client:
        assert client.send(asked(method, "x")) == "done"
    assert clock.waited == [0.5, 1, 2, 4, 5]


def test_a_job_waits_at_least_as_long_as_it_is_told_to() -> None:
    busy, clock = Busy(3, retry_after="3"), Clock()
    with scripted_server(busy) as endpoint, job_client(endpoint, clock) as client:
        client.send(asked("GET", "x"))
    assert clock.waited == [3, 3, 3]


def test_the_patience_of_a_job_ends() -> None:
    busy, clock = Busy(1000, retry_after=None), Clock()
    with (
        scripted_server(busy) as endpoint,
        job_client(endpoint, clock) as client,
        pytest.raises(Refused, match="slow down"),
    ):
        client.send(asked("POST", "x"))
    assert 55 < sum(clock.waited) <= 60


@pytest.mark.parametrize("status", [400, 401, 404, 409, 410, 500])
def test_a_refusal_ends_a_job_at_once(status: int) -> None:
    busy = Busy(1, status=status)
    with (
        scripted_server(busy) as endpoint,
        job_client(endpoint, Clock()) as client,
        pytest.raises(Refused),
    ):
        client.send(asked("GET", "x"))
    assert busy.requests == 1


def test_a_job_waits_for_a_server_that_was_there() -> None:
    clock = Clock()
    with scripted_server(lambda _: answer_json("there", Connection="close")) as endpoint:
        client = Client(
            ClientSettings(endpoint, "key", "secret"),
            retry_policy=OUTLAST_RESTARTS,
            runtime=clock,
        )
        assert client.send(asked("GET", "x")) == "there"
    # Now it is away.
    with closing(client), pytest.raises(Unreachable):
        client.send(asked("POST", "x"))
    assert 55 < sum(clock.waited) <= 60
    clock.waited.clear()
    with job_client(endpoint, clock) as never_answered, pytest.raises(Unreachable):
        never_answered.send(asked("GET", "x"))
    assert clock.waited == []


def test_a_connection_that_breaks_is_tried_again_by_a_job_only() -> None:
    methods: list[str] = []

    def script(request: Request) -> Answer:
        methods.append(request.method)
        # The second answer is not HTTP.
        return Answer(drop=True) if len(methods) == 2 else answer_json(len(methods))

    clock = Clock()
    with scripted_server(script) as endpoint, job_client(endpoint, clock) as client:
        assert [client.send(asked("POST", "x")), client.send(asked("POST", "x"))] == [1, 3]
    assert clock.waited == [0.5]
    methods.clear()
    with scripted_client(script) as client:
        client.send(asked("GET", "x"))
        with pytest.raises(Unreachable, match="broke"):
            client.send(asked("GET", "x"))
    assert len(methods) == 2


def test_a_policy_bounds_the_time_of_one_request_not_of_all() -> None:
    policy, clock = replace(OUTLAST_RESTARTS, seconds_max=1.0), Clock()
    with scripted_server(Busy(1, retry_after=None)) as endpoint:
        settings = ClientSettings(endpoint, "key", "secret")
        with closing(Client(settings, retry_policy=policy, runtime=clock)) as client:
            client.send(asked("GET", "x"))
            clock.seconds += 100
            busy_again = client.send(asked("GET", "x"))
    assert busy_again == "done"
