"""The benchmarks stay alive: each runs, tiny, and nobody judges how fast it was."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.api_rates import FLOOR, Measured, Target
from benchmarks.api_rates import rows as rates
from benchmarks.http_load import send
from benchmarks.performance_page import BEGIN, END, LAKEFS, table, with_table
from benchmarks.report import Row, report

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("kv", ["get ", "scan", "set_if ", "set, 16", "get, 16 threads", "set_if, 16 threads"]),
        ("kv_commits", ["commit of"]),
        ("engine", ["commit of", "same while", "racing", "list 480", "list 10", "read a", "merge"]),
        ("memory", ["peak of a worker", "uploaded meanwhile"]),
        ("api_listings", ["bare", "REST list", "S3 LIST", "uncommitted", "first 100", "list 300"]),
        ("compare", ["small merge", "branch, upload", "commit of many", "upload of a large"]),
        ("api_postgresql", ["G: bare", "stat, staged", "list 1000", "upload 1 KiB", "S3 PUT"]),
        ("s3", ["verify", "durable put", "HEAD", "GET", "PUT", "LIST", "multipart"]),
        ("migrating", ["read a range"]),
        ("importing", ["import 20,000", "the same", "memory", "replace", "and"]),
    ],
)
@pytest.mark.slow
@pytest.mark.extended
def test_a_benchmark_runs(name: str, operations: list[str]) -> None:
    more = {"compare": ["--base", str(ROOT)], "kv_commits": ["rocksdb", "valkey"]}.get(name, [])
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--tiny", *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode in {0, 1}
    for operation in operations:
        assert f"\n{operation}" in done.stdout


@pytest.mark.parametrize(
    ("ratio", "bar", "code"), [(0.5, 0.5, 0), (0.49, 0.5, 1), (None, 0.5, 1), (None, None, 0)]
)
def test_a_missed_bar_is_marked_and_fails_the_run(
    ratio: float | None, bar: float | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report([Row("get", "memory", 1234.5, ratio, bar)]) == code
    printed = capsys.readouterr().out
    assert "1,234" in printed
    assert ("MISSED" in printed) == bool(code)


def test_a_server_that_answers_nothing_in_time_has_no_ratio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = Measured(0.0, 0.0, 0.0, refused=0)
    monkeypatch.setattr(Target, "measure", lambda *_: nothing)
    targets = [Target(name, 0.5, lambda _: b"", 1, 1) for name in (FLOOR, "upload")]
    assert [row.ratio for row in rates(targets, seconds=1.0)] == [None] * 4


def test_the_page_gets_a_new_table_between_its_marks() -> None:
    rows = [
        Row("G", "50 us", 50_000.0, None, None),
        Row("  100", "50 us", 50_000.0, 1.0, None),
        Row("get repository", "90 us", 20_000.0, 0.4, 0.35),
        Row("  100", "90 us, 3 refused", 19_000.0, None, 0.9),
    ]
    text = table(rows, LAKEFS)
    page = with_table(f"above\n{BEGIN}\nold\n{END}\nbelow\n", text)
    assert page.startswith(f"above\n{BEGIN}\n| request |")
    assert page.endswith(f"{END}\nbelow\n")
    assert "old" not in page
    assert "| get repository | 20,000 | 90 us | 0.40 | 0.35 | 0.50 | 90 us, 3 refused |" in page
    assert with_table(page, text) == page


def test_a_page_without_marks_is_not_written() -> None:
    with pytest.raises(ValueError, match="must have the lines"):
        with_table("above", "table")


def test_a_refusal_is_not_an_answer() -> None:
    success = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    refusal = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        served = pool.submit(_answer, listening, [success, success, success, refusal])
        requests = iter([b"GET / HTTP/1.1\r\n\r\n"] * 8)
        load = send(listening.getsockname()[1], requests, connections=1, seconds=60)
        served.result()
    assert (load.answered, load.refused) == (6, 2)


def test_answers_are_counted_when_they_are_whole_however_long_they_are() -> None:
    """Longer than what is looked at, than the last one, and than what the system holds."""
    sizes = [0, 3_000_000, 3_000_000, 16_384 - 44, 16_384, 70_000, 2]
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + bytes(n) for n in sizes]
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        refusal = b"HTTP/1.1 503 Busy\r\nContent-Length: 20000\r\n\r\n" + bytes(20_000)
        served = pool.submit(_answer, listening, [*answers, refusal])
        requests = iter([b"GET / HTTP/1.1\r\n\r\n"] * 16)
        load = send(listening.getsockname()[1], requests, connections=1, seconds=60)
        served.result()
    assert (load.answered, load.refused) == (14, 2)


def _answer(listening: socket.socket, answers: list[bytes]) -> None:
    """Give the answers on one connection, and again on another one."""
    for _ in range(2):
        connection, _ = listening.accept()
        with connection:
            for answer in answers:
                connection.recv(1 << 16)
                connection.sendall(answer)
