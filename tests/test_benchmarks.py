"""The benchmarks stay alive: each runs, tiny, and nobody judges how fast it was."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import Row, report

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("kv", ["get ", "scan", "set_if ", "set, 16", "get, 16 threads", "set_if, 16 threads"]),
        ("engine", ["commit of", "same while", "racing", "list 480", "list 10", "read a", "merge"]),
        ("api_listings", ["bare", "REST list", "S3 LIST", "uncommitted", "first 100", "list 300"]),
        ("s3", ["verify", "durable put", "HEAD", "GET", "PUT", "LIST", "multipart"]),
    ],
)
@pytest.mark.slow
def test_a_benchmark_runs(name: str, operations: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--tiny"],
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
