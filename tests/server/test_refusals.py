"""Refusals: all are counted, a few are logged, and the memory for them is bounded."""

import logging
from collections.abc import Callable

import pytest
from prometheus_client import REGISTRY

from lakebed.server.http import refusals
from lakebed.server.http.refusals import (
    CLIENTS_MAX,
    LINES_A_CLIENT,
    LINES_A_KIND,
    MINUTE_SECONDS,
    Refusal,
    RefusalLog,
)
from lakebed.server.http.request import RequestRecord, bind_record
from tests.server.kit import server


def counted(kind: str) -> float:
    return REGISTRY.get_sample_value("lakebed_http_refusals_total", {"kind": kind}) or 0.0


class Time:
    """A clock, and what is to be done when it has gone on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, action))

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        ripe = [each for each in self.due if each[0] <= self.now]
        self.due = [each for each in self.due if each[0] > self.now]
        for _, action in ripe:
            action()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def log(time: Time) -> RefusalLog:
    return RefusalLog(clock=lambda: time.now, later=time.later)


def test_a_client_gets_a_few_lines_a_minute_and_then_a_sum(
    log: RefusalLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1000):
        log.note(Refusal.DENIED, "not allowed", "192.0.2.1")
    assert caplog.messages == ["refused a request from 192.0.2.1: not allowed"] * LINES_A_CLIENT
    assert caplog.records[0].__dict__["fields"] == {"kind": "denied", "client": "192.0.2.1"}
    caplog.clear()
    time.pass_by(MINUTE_SECONDS)
    wanted = "refused 997 more requests within a minute: denied, from the client 192.0.2.1"
    assert caplog.messages == [wanted]


def test_a_new_minute_begins_anew(
    log: RefusalLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        for _ in range(LINES_A_CLIENT):
            log.note(Refusal.DENIED, "not allowed", "192.0.2.1")
        time.pass_by(MINUTE_SECONDS)
    assert caplog.messages == ["refused a request from 192.0.2.1: not allowed"] * 3 * LINES_A_CLIENT


def test_a_client_does_not_hide_another_one_nor_another_kind(
    log: RefusalLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        log.note(Refusal.DENIED, "loud", "192.0.2.1")
    log.note(Refusal.DENIED, "quiet", "192.0.2.2")
    log.note(Refusal.OVERLOADED, "busy", "192.0.2.1")
    assert [each.rpartition(" ")[2] for each in caplog.messages[-2:]] == ["quiet", "busy"]


def test_many_clients_fill_neither_the_log_nor_the_memory(
    log: RefusalLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(CLIENTS_MAX * 3):
        log.note(Refusal.UNAUTHENTICATED, "who?", f"2001:db8::{number:x}")
    assert len(caplog.messages) == LINES_A_KIND
    assert len(log._minutes[Refusal.UNAUTHENTICATED]._lines_of) == CLIENTS_MAX
    time.pass_by(MINUTE_SECONDS)
    more = CLIENTS_MAX * 3 - LINES_A_KIND
    assert caplog.messages[-1].startswith(f"refused {more} more requests within a minute")
    assert caplog.messages[-1].endswith(f"from {CLIENTS_MAX} clients or more")


def test_every_one_is_counted_with_the_client_of_its_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = counted("forged_host")
    caplog.set_level(logging.WARNING)
    bind_record(RequestRecord("id", "GET", "/", 0.0, client="192.0.2.7"))
    try:
        for _ in range(50):
            refusals.count(Refusal.FORGED_HOST, "the host is evil.example")
    finally:
        bind_record(None)
    assert counted("forged_host") == before + 50
    assert caplog.records[0].__dict__["fields"]["client"] == "192.0.2.7"


@pytest.mark.parametrize(
    ("kind", "path", "headers"),
    [
        ("unauthenticated", "/api/v1/repositories", {}),
        ("unauthenticated", "/api/v1/repositories", {"Authorization": "Bearer e30.e30.e30"}),
        ("unauthenticated", "/presigned/bm8=.bm8=", {}),
        ("bad_signature", "/lake/main/x", {"Authorization": "AWS4-HMAC-SHA256 nonsense"}),
    ],
)
def test_both_apis_count_whom_they_do_not_know(
    kind: str, path: str, headers: dict[str, str]
) -> None:
    before = counted(kind)
    with server() as world:
        assert world.request("GET", path, headers=headers).status_code in {400, 401, 403}
    assert counted(kind) == before + 1
