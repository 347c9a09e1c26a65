"""The benchmarks stay alive: each runs, tiny, and nobody judges how fast it was."""

import itertools
import select
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import large, performance_page
from benchmarks.api import FLOOR, Measured, Rate, Sizes, Target, in_turns, ratio
from benchmarks.http_load import BESIDE_CONNECTIONS, send, send_each
from benchmarks.performance_page import BEGIN, END, main, rates_table, with_tables
from benchmarks.places import POSTGRESQL, ROOT, SQLITE, check_tree, helper
from benchmarks.report import Row, report


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("kv", ["get ", "scan", "set_if ", "set, 16", "get, 16 threads", "set_if, 16 threads"]),
        ("kv_commits", ["commit of"]),
        ("engine", ["commit of", "same while", "racing", "list 480", "list 10", "read a", "merge"]),
        ("memory", ["peak of a worker", "uploaded meanwhile"]),
        ("api_listings", ["bare", "REST list", "S3 LIST", "uncommitted", "first 100", "list 300"]),
        ("compare", ["stat, staged", "small merge", "branch, upload", "commit of many"]),
        ("api", ["PostgreSQL, S3", "G: bare", "stat, staged", "list 1000", "S3 PUT", "upload and"]),
        ("large", ["SQLite, S3", "upload by REST", "upload by S3", "download by S3"]),
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
    target = Target("upload", 1, 1, lambda _: iter([]))
    (found,) = in_turns([target], Sizes.tiny())
    rows = Rate(target.name, *found, ratio(found[0].per_second, 0.0)).rows(0.5)
    assert [(row.ratio, row.missed) for row in rows] == [(None, True)] * 2


def test_the_page_gets_new_tables_between_its_marks() -> None:
    floor = Measured(50_000.0, 50.0, 0.0, refused=0)
    few = Measured(20_000.0, 90.2, 20.0, refused=0, beside=39.5)
    many = Measured(19_000.0, 90.2, 0.0, refused=3, beside=20.0)
    rates = [Rate(FLOOR, floor, floor, None), Rate("GET 1 KiB", few, many, 0.4)]
    assert [row.missed for row in rates[1].rows(None)] == [False, True]  # by its refusals
    text = rates_table(SQLITE, rates)
    page = with_tables(f"above\n{BEGIN}\nold\n{END}\nbelow\n", text)
    assert page.startswith(f"above\n{BEGIN}\n| request |")
    assert page.endswith(f"{END}\nbelow\n")
    assert "old" not in page
    line = "| GET 1 KiB | 20,000 | 90 + 20 us | 19,000 | 90 us, 3 refused, 20 uploads/s | 0.40 |"
    assert f"{line} 0.0700 |" in page
    assert line in rates_table(POSTGRESQL, rates)
    assert with_tables(page, text) == page


@pytest.mark.slow
@pytest.mark.extended
def test_the_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At two places; the benchmarks `api` and `large` have the others."""
    monkeypatch.setattr(performance_page, "PLACES", [POSTGRESQL])
    monkeypatch.setattr(large, "LARGE_PLACES", [SQLITE])
    page = tmp_path / "performance.md"
    page.write_text(f"above\n{BEGIN}\n{END}\n")
    assert main(["--tiny", "--page", str(page)]) == 0
    written = page.read_text()
    assert "load average" in written
    assert "### PostgreSQL, local storage\n\n| request |" in written
    assert "| SQLite, local storage | download by REST, MB/s |" in written


def test_a_server_of_another_tree_is_noticed(tmp_path: Path) -> None:
    check_tree(ROOT, {"PYTHONPATH": str(ROOT / "src")})
    with pytest.raises(RuntimeError, match="would run"):
        check_tree(tmp_path, {"PYTHONPATH": str(ROOT / "src")})


def test_a_proxy_delays_both_ways_and_keeps_the_order() -> None:
    sent = [bytes([number]) * 100_000 for number in range(20)]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        with helper("distance", port, "20") as near, ThreadPoolExecutor() as pool:
            echoed = pool.submit(_echo, listening)
            with socket.create_connection(("127.0.0.1", near)) as connection:
                begun = time.monotonic()
                pool.submit(connection.sendall, b"".join(sent))
                with connection.makefile("rb") as file:
                    first = file.read(1)
                    took = time.monotonic() - begun
                    rest = file.read(20 * 100_000 - 1)
            echoed.result()
    assert first + rest == b"".join(sent)
    assert took >= 0.04


def _echo(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


@pytest.mark.slow
def test_uploads_are_sent_beside_at_their_own_pace() -> None:
    """They go on while no other request is answered, and end with the other requests."""
    success = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        served = pool.submit(_answer_slow_and_beside, listening, success)
        port, beside = listening.getsockname()[1], itertools.repeat(b"POST / HTTP/1.1\r\n\r\n")
        load = send_each(port, [iter([b"GET / HTTP/1.1\r\n\r\n"])], beside=beside)
        uploads = served.result()
    assert (load.answered, load.refused) == (1, 0)
    assert uploads - BESIDE_CONNECTIONS <= load.beside <= uploads


def _answer_slow_and_beside(listening: socket.socket, success: bytes) -> int:
    """Answer the first connection when the others have sent 20 uploads; return how many came."""
    slow, _ = listening.accept()
    others = [listening.accept()[0] for _ in range(BESIDE_CONNECTIONS)]
    uploads = 0
    while uploads < 20:
        ready, _, _ = select.select(others, [], [])
        for each in ready:
            each.recv(1 << 16)
            each.sendall(success)
            uploads += 1
    slow.sendall(success)
    while slow.recv(1 << 16):
        pass
    for each in (slow, *others):
        each.close()
    return uploads


def test_a_page_without_marks_is_not_written() -> None:
    with pytest.raises(ValueError, match="must have the lines"):
        with_tables("above", "table")


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
