import io
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from prometheus_client import REGISTRY

from lakebed.block import ByteStream
from lakebed.block.ranges import FileSection
from lakebed.server.app import build
from lakebed.server.http import logs, metrics
from lakebed.server.http.browsers import SAFE_HEADERS
from lakebed.server.http.pipeline import Pipeline, Step
from lakebed.server.http.request import RequestRecord, bind_record, current_record
from lakebed.server.settings import LoggingSettings
from tests.server.kit import opened

Headers = list[tuple[str, str]]


class Client:
    """Calls an application as a server would."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = Pipeline([Step.of("app", app)])
        self.status = ""
        self.headers: dict[str, str] = {}

    def call(self, path: str = "/x", **environ: str) -> Iterable[bytes]:
        given: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": path, **environ}
        return self._app(given, self._start)

    def _start(self, status: str, headers: Headers, exc_info: Any = None, /) -> Any:
        self.status, self.headers = status, dict(headers)
        return lambda _: None


def counted(operation: str, status: int) -> float:
    labels = {"operation": operation, "status": str(status)}
    return REGISTRY.get_sample_value("lakebed_http_seconds_count", labels) or 0.0


def plain(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    record = current_record()
    assert record is not None
    record.operation, record.user = "plainly", "ada"
    start("200 OK", [("A", "b")])
    return [b"12", b"345"]


@pytest.fixture(autouse=True)
def outside_of_requests() -> None:
    """No request is under way, also where a test before left an answer half read."""
    bind_record(None)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The log, as JSON."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    logs.configure(LoggingSettings(format="json"))
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)


def test_an_answer_has_an_id_and_is_logged_and_counted(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    client = Client(plain)
    before = counted("plainly", 200)
    called = {"HTTP_X_REQUEST_ID": "id-1", "REMOTE_ADDR": "::ffff:203.0.113.5"}
    assert client.call("/\xc3\xa4\xff", **called) == [b"12", b"345"]
    assert client.headers == {"A": "b", "X-Request-ID": "id-1", **dict(SAFE_HEADERS.values())}
    (line,) = lines()
    assert line.pop("milliseconds") >= 0
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "lakebed.access",
        "message": "GET /ä\\xff 200",
        "method": "GET",
        "path": "/ä\\xff",
        "status": 200,
        "bytes": 5,
        "operation": "plainly",
        "user": "ada",
        "client": "203.0.113.5",
        "request_id": "id-1",
    }
    assert counted("plainly", 200) == before + 1
    assert current_record() is None


def test_the_token_of_a_presigned_url_is_not_logged(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    Client(plain).call("/presigned/hunter2")
    (line,) = lines()
    assert (line["path"], line["message"]) == ("/presigned/…", "GET /presigned/… 200")


@pytest.mark.parametrize("insane", ["", "a b", "a\nb", 'a"b', "ä", "x" * 129, "\x1b[31m"])
def test_an_insane_id_is_replaced(insane: str) -> None:
    client = Client(plain)
    client.call(HTTP_X_REQUEST_ID=insane)
    drawn = client.headers["X-Request-ID"]
    client.call(HTTP_X_REQUEST_ID=insane)
    assert len(drawn) == 16
    assert drawn not in {insane, client.headers["X-Request-ID"]}


def test_a_streamed_answer_ends_when_it_is_closed(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    ended: list[str] = []

    def stream(environ: WSGIEnvironment, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [("Content-Length", "6")])
        record = current_record()
        assert record is not None
        record.at_end(lambda: ended.append("slot"))

        def chunks() -> Iterator[bytes]:
            try:
                yield b"123"
                logging.getLogger("lakebed.test").warning("on the way")
                yield b"456"
            finally:
                ended.append("generator")

        return chunks()

    client = Client(stream)
    answer = client.call()
    assert next(iter(answer)) == b"123"
    assert next(iter(answer)) == b"456"
    assert not ended
    answer.close()  # type: ignore[attr-defined]
    answer.close()  # type: ignore[attr-defined] # once more does nothing
    assert ended == ["generator", "slot"]
    warning, access = lines()
    assert warning["request_id"] == access["request_id"] == client.headers["X-Request-ID"]
    assert access["bytes"] == 6


def test_exceptions_become_a_500_without_details(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    def broken(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        raise KeyError("a secret")

    client = Client(broken)
    answer = b"".join(client.call())
    assert client.status.startswith("500")
    assert b"secret" not in answer
    failure, access = lines()
    assert "KeyError" in failure["exception"]
    assert failure["request_id"] == access["request_id"]
    assert access["status"] == 500


def test_a_streamed_answer_without_a_length_is_never_sent(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    def endless(environ: WSGIEnvironment, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        return iter([b"half"])

    client = Client(endless)
    assert b"half" not in b"".join(client.call())
    assert client.status.startswith("500")
    assert "needs a Content-Length" in lines()[0]["exception"]


def test_an_answer_that_raises_is_logged(lines: Callable[[], list[dict[str, Any]]]) -> None:
    def broken(environ: WSGIEnvironment, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [("Content-Length", "6")])
        return (bytes(6 // number) for number in (2, 0))

    client = Client(broken)
    answer = iter(client.call())
    assert next(answer) == bytes(3)
    with pytest.raises(ZeroDivisionError):
        next(answer)
    (line,) = lines()
    assert line["message"] == "answer aborted: internal"
    assert line["request_id"] == client.headers["X-Request-ID"]


@pytest.mark.parametrize("chunks", [[b"12", b"34", b"56"], [b"12", b"3"]])
def test_an_answer_of_another_length_than_announced_breaks_off(
    chunks: list[bytes], lines: Callable[[], list[dict[str, Any]]]
) -> None:
    def lying(environ: WSGIEnvironment, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [("Content-Length", "4")])
        return iter(chunks)

    sent: list[bytes] = []
    answer = Client(lying).call()
    with pytest.raises(RuntimeError, match="bytes instead of 4"):
        sent.extend(answer)
    assert len(b"".join(sent)) <= 4, "nothing is left for the next answer"
    (line,) = lines()
    assert line["message"] == "answer aborted: internal"


def in_file(length: int, *chunks: bytes) -> Any:
    """An answer that lies in a file of six bytes, and what is read of it behind what is taken."""

    def app(environ: WSGIEnvironment, start: StartResponse) -> ByteStream:
        start("200 OK", [("Content-Length", str(length))])
        file = FileSection(-1, 0, 6)
        return ByteStream(iter(chunks), lambda: None, object_size=6, file=file)

    return Client(app).call()


def test_what_the_server_takes_of_a_file_is_logged_with_what_it_reads(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    with closing(in_file(6, b"5", b"6")) as answer:
        answer.file.take(4, 0.0)
        assert list(answer) == [b"5", b"6"]
    with closing(in_file(6, b"5", b"6")) as answer:  # its client goes away
        answer.file.take(3, 0.0)
    assert [line["bytes"] for line in lines()] == [6, 3]


@pytest.mark.parametrize(("chunk", "size"), [(b"567", 7), (b"5", 5)])
def test_what_the_server_takes_of_a_file_is_a_part_of_the_length_announced(
    chunk: bytes, size: int
) -> None:
    with closing(in_file(6, chunk)) as answer:
        answer.file.take(4, 0.0)
        with pytest.raises(RuntimeError, match=f"the answer has {size} bytes instead of 6"):
            list(answer)


def test_nothing_is_taken_of_a_file_that_is_not_as_long_as_announced() -> None:
    for length in (5, 7):
        with closing(in_file(length)) as answer:
            assert answer.file is None


@pytest.mark.parametrize("body", [b"12345", b"123"])
def test_an_answer_in_one_piece_of_another_length_than_announced_is_not_sent(body: bytes) -> None:
    def lying(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("200 OK", [("Content-Length", "4")])
        return [body]

    client = Client(lying)
    answer = b"".join(client.call())
    assert client.status.startswith("500")
    assert client.headers["Content-Length"] == str(len(answer))
    # The head of an answer has the length that the answer would have.
    assert client.call(REQUEST_METHOD="HEAD") == [body]
    assert client.status.startswith("200")


def test_a_request_without_an_operation_is_counted_as_such() -> None:
    def lost(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("404 Not Found", [])
        return [b""]

    before = counted(metrics.NO_OPERATION, 404)
    Client(lost).call("/any/path")
    assert counted(metrics.NO_OPERATION, 404) == before + 1


def test_text_logs_do_not_move_the_cursor() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "GET %s", ("/\x1b[2J\r\nfoo",), None)
    line = logs.TextFormatter().format(record)
    assert line.endswith(r"GET /\x1b[2J\r\nfoo")


def test_metrics_are_those_of_the_process_without_a_folder() -> None:
    Client(plain).call()
    assert b'lakebed_http_seconds_count{operation="plainly",status="200"}' in metrics.render()


def test_whatever_an_application_raises_the_request_ends() -> None:
    class PanicError(BaseException):
        """What some libraries raise: no `Exception`."""

    ended: list[str] = []

    def app(_environ: WSGIEnvironment, _start: StartResponse) -> Iterable[bytes]:
        record = current_record()
        assert record is not None
        record.at_end(lambda: ended.append("ended"))
        raise PanicError

    client = Client(app)
    client.call()
    assert client.status.startswith("500")
    assert ended == ["ended"]
    assert current_record() is None


def test_steps_are_asked_in_their_order_until_one_answers() -> None:
    asked: list[str] = []

    def step(name: str, *, applies: bool, answers: bool) -> Step:
        def act(
            _environ: WSGIEnvironment, start: StartResponse, _record: RequestRecord
        ) -> list[bytes] | None:
            asked.append(name)
            if not answers:
                return None
            start("200 OK", [])
            return [name.encode()]

        return Step(name, act, lambda _environ: applies)

    steps = [
        step("of others", applies=False, answers=True),
        step("check", applies=True, answers=False),
        step("first", applies=True, answers=True),
        step("second", applies=True, answers=True),
    ]
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
    assert Pipeline(steps)(environ, lambda *_: lambda _: None) == [b"first"]
    assert asked == ["check", "first"]


def test_the_steps_of_a_server() -> None:
    """The order is a contract: S3 errors are XML, and no operation sees an invalid path."""
    with opened() as found:
        names = [step.name for step in build(found.services)._steps]
    assert names == ["S3", "path", "browser", "operation", "page"]
    with opened(listen__objects_origin="https://objects.example.com") as found:
        names = [step.name for step in build(found.services)._steps]
    assert names == ["S3", "path", "browser", "origin", "operation", "page"]
    with opened(listen__cors_origins=("https://app.example.com",)) as found:
        names = [step.name for step in build(found.services)._steps]
    assert names == ["cors", "S3", "path", "browser", "operation", "page"]
