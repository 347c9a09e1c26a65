from benchmarks.kv_postgresql import measure


def test_the_benchmark_runs() -> None:
    rows = measure(scale=0.01)
    assert [row.operation for row in rows] == ["get, 16 threads", "set_if, 16 threads"]
    assert all(row.per_second > 0 and row.ratio is not None for row in rows)
