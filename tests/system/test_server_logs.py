"""The logs of a server: what they say of failures, and that JSON logs are JSON only."""

import json
import os
import signal
from typing import Any

import httpx

from tests.kit.served import Served, Servers, eventually


def lines_of(served: Served) -> list[dict[str, Any]]:
    """Every line of the log, each of which must be a JSON object."""
    lines: list[dict[str, Any]] = []
    for line in served.log().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError as error:
            raise AssertionError(f"not JSON: {line}") from error
    return lines


def break_off(served: Served) -> None:
    try:
        served.get("break")
    except httpx.TransportError:
        return
    raise AssertionError("the answer did not break off")


def test_json_logs_are_json_only(servers: Servers) -> None:
    served = servers.serve(logging={"format": "json", "level": "debug"})
    for path in ("crash", "noise", "nothing"):
        served.get(path)
    break_off(served)
    # Half a body, an answer that nobody takes, and what is not HTTP at all.
    served.connect(b"PUT /raw/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf").close()
    served.connect(b"GET /download/x HTTP/1.1\r\nHost: x\r\n\r\n").close()
    served.connect(b"\x16\x03\x01nonsense\r\n\r\n").close()
    os.kill(min(served.worker_pids(2)), signal.SIGKILL)
    eventually(lambda: "restarting it" in served.log())
    eventually(lambda: "body_cut" in served.log())
    assert len(served.worker_pids(2)) == 2
    served.process.terminate()
    assert served.wait() == 0
    lines = lines_of(served)
    messages = [line["message"] for line in lines]
    assert any("a warning of Python" in message for message in messages)
    assert any("uncaught exception in the thread of-the-test" in message for message in messages)
    assert any("exception ignored" in message for message in messages)
    assert all(line.keys() >= {"time", "level", "logger", "message"} for line in lines)


def test_a_failure_is_logged_with_its_kind_cause_and_request(servers: Servers) -> None:
    served = servers.serve(logging={"format": "json"}, processes={"workers": 1})
    answer = served.get("crash", headers={"X-Request-ID": "the-request"})
    assert answer.status_code == 500
    assert "ZeroDivisionError" not in answer.text
    eventually(lambda: "/crash" in served.log())
    failure, access = [line for line in lines_of(served) if line.get("request_id") == "the-request"]
    assert (failure["level"], failure["message"]) == (
        "error", "request failed: internal: ZeroDivisionError",
    )  # fmt: skip
    assert "Traceback" in failure["exception"]
    assert (access["status"], access["kind"], access["cause"]) == (
        500, "internal", "ZeroDivisionError",
    )  # fmt: skip
