"""A small run of the benchmark; its numbers mean nothing here."""

import pytest

from benchmarks.committed import measure


@pytest.mark.slow
def test_the_benchmark_stays_alive() -> None:
    rows = measure(2000)
    assert [row.operation.split()[0] for row in rows] == [
        "write",
        "write",
        "diff,",
        "diff,",
        "get,",
        "get,",
        "page",
        "apply",
    ]
    assert all(row.per_second > 0 for row in rows)
    assert [row.bar for row in rows] == [0.5, None, 0.5, 0.5, None, None, None, 1.0]
