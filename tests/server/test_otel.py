import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lakebed.base.tracing import traced
from lakebed.server.http.pipeline import Pipeline, Step
from lakebed.server.http.request import current_record
from lakebed.server.otel import RequestSpans, begin_tracing
from tests.server.kit import Server, server

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[RequestSpans]:
    """Tracing that is on during a test."""
    spans = RequestSpans(SimpleSpanProcessor(exporter))
    yield spans
    spans.close()


def way_to_root(span: ReadableSpan, finished: Iterable[ReadableSpan]) -> list[str]:
    """The names of a span and of those that it lies in."""
    by_id = {each.context.span_id: each for each in finished if each.context is not None}
    names = [span.name]
    while span.parent is not None and span.parent.span_id in by_id:
        span = by_id[span.parent.span_id]
        names.append(span.name)
    return names


@traced("kv.set")
def write() -> None:
    """The lowest layer."""


@traced("engine.set")
def stage() -> None:
    write()


def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    record = current_record()
    assert record is not None
    record.operation = "putObject"
    stage()
    start("200 OK", [("Content-Length", "0")])
    return [b""]


def test_a_request_is_the_root_of_what_the_layers_do(
    spans: RequestSpans, exporter: InMemorySpanExporter
) -> None:
    environ = {
        "REQUEST_METHOD": "PUT",
        "PATH_INFO": "/a/secret/path",
        "HTTP_TRACEPARENT": f"00-{TRACE}-{CALLER}-01",
        "HTTP_X_REQUEST_ID": "id-1",
    }
    Pipeline([Step.of("app", app)], begin_span=spans.begin)(environ, lambda *_: lambda _: None)
    lowest, middle, root = exporter.get_finished_spans()
    assert way_to_root(lowest, (lowest, middle, root)) == ["kv.set", "engine.set", "putObject"]
    assert root.context is not None
    assert root.parent is not None
    assert f"{root.context.trace_id:032x}" == TRACE
    assert f"{root.parent.span_id:016x}" == CALLER
    assert root.attributes == {
        "http.request.method": "PUT",
        "http.response.status_code": 200,
        "lakebed.operation": "putObject",
        "lakebed.request_id": "id-1",
    }


def test_requests_of_a_thread_do_not_share_a_trace(
    spans: RequestSpans, exporter: InMemorySpanExporter
) -> None:
    for _ in range(2):
        environ = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/"}
        Pipeline([Step.of("app", app)], begin_span=spans.begin)(environ, lambda *_: lambda _: None)
    traces = {span.context.trace_id for span in exporter.get_finished_spans() if span.context}
    assert len(traces) == 2


def test_an_upload_goes_through_all_layers(
    spans: RequestSpans, exporter: InMemorySpanExporter
) -> None:
    with server() as plain:
        exporter.clear()
        Server(plain.services, spans.begin).put("a", b"data")
    finished = exporter.get_finished_spans()
    (root,) = [span for span in finished if span.parent is None]
    assert root.name == "uploadObject"
    ways = [way_to_root(span, finished) for span in finished]
    assert all(way[-1] == "uploadObject" for way in ways)
    layers = [[name.partition(".")[0] for name in way] for way in ways]
    assert any({"kv", "engine", "catalog"} <= set(way) for way in layers), ways
    assert any({"block", "catalog"} <= set(way) for way in layers), ways


@pytest.mark.slow
def test_spans_are_sent_to_a_collector() -> None:
    received: list[tuple[str, str | None]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Content-Type"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        spans = begin_tracing(f"http://127.0.0.1:{collector.server_port}/v1/traces")
        stage()
        spans.close()
        collector.shutdown()
        thread.join()
    assert received == [("/v1/traces", "application/x-protobuf")]
