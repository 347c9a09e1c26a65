"""The server for developers shows the spans and the profile of a request."""

import io
import time

from lakebed.base import tracing
from lakebed.server.http.request import RequestRecord, bind_record
from lakebed.testing.serve import Requests, newest_change, start_span


@tracing.traced("catalog.upload")
def upload() -> None:
    put()


@tracing.traced("block.put")
def put() -> None:
    pass


def shown(profiled: str | None) -> list[str]:
    output = io.StringIO()
    record = RequestRecord("id", "POST", "/objects", time.monotonic(), client="127.0.0.1")
    bind_record(record)
    tracing.turn_on(start_span)
    try:
        leave = Requests(profiled, output).begin({}, record)
        upload()
        upload()
        leave()
    finally:
        tracing.turn_off()
        bind_record(None)
    put()  # of no request
    record.operation, record.status = "uploadObject", 201
    record.end()
    return output.getvalue().splitlines()


def test_the_spans_of_a_request_are_a_tree_with_times() -> None:
    lines = shown(None)
    assert [line[:60].rstrip() for line in lines] == [
        "POST uploadObject 201",
        *(2 * ["  catalog.upload", "    block.put"]),
    ]
    assert all(float(line[60:]) >= 0 for line in lines)


def test_one_operation_is_profiled() -> None:
    assert any("test_serve.py" in line and "upload" in line for line in shown("uploadObject"))
    assert len(shown("statObject")) == 5


def test_a_change_of_a_source_is_seen() -> None:
    changed, path = newest_change()
    assert path.stat().st_mtime == changed
