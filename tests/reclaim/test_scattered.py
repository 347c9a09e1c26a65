"""Tables that are put apart by path: nothing is lost, and what belongs together meets."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.reclaim.collector.columns import (
    BUCKETS,
    PartitionedTable,
    buckets_of,
    parallel_buckets,
)
from tests.kit.gc_inputs import path_of

SCHEMA = pa.schema([pa.field("path", pa.string()), pa.field("number", pa.int64())])
STRANGE = ("repos/", "repos/x/Ω", "repos/x/y/z\n")


def scattered(folder: Path, name: str, budget_bytes: int) -> PartitionedTable:
    return PartitionedTable(folder, name, SCHEMA, ThreadRuntime(), budget_bytes=budget_bytes)


def batch(rows: list[tuple[str, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"path": path, "number": number} for path, number in rows], schema=SCHEMA
    )


@pytest.mark.parametrize("budget_bytes", [1, 2000, 1 << 30])
def test_rows_of_the_same_path_are_in_buckets_of_the_same_number(
    budget_bytes: int, tmp_path: Path
) -> None:
    draw = random.Random(7)
    paths = [f"{path_of(number, 5)[:-20]}{draw.randbytes(10).hex()}" for number in range(300)]
    paths += STRANGE
    one = [(path, number) for number, path in enumerate(paths)]
    other = [(draw.choice(paths), number) for number in range(200)]
    tables = scattered(tmp_path, "one", budget_bytes), scattered(tmp_path, "other", 1 << 30)
    for table, rows in zip(tables, (one, other), strict=True):
        table.add(iter([batch([]), *(batch(rows[at : at + 10]) for at in range(0, len(rows), 10))]))
    parts = list(buckets_of(*tables))
    assert len(parts) == (1 if budget_bytes == 1 << 30 else BUCKETS)
    for number, expected in enumerate((one, other)):
        found = [row for part in parts for row in part[number].to_pylist()]
        assert sorted((row["path"], row["number"]) for row in found) == sorted(expected)
    where = [
        {row["path"]: place for place, part in enumerate(parts) for row in part[side].to_pylist()}
        for side in (0, 1)
    ]
    assert all(where[0][path] == place for path, place in where[1].items())
    # They are about as large as each other, so that none is as large as all.
    assert len(parts) == 1 or max(part[0].num_rows for part in parts) < 20


def test_lanes_share_out_all_buckets_among_threads(tmp_path: Path) -> None:
    paths = [f"repos/{number:03x}" for number in range(700)]
    tables = scattered(tmp_path, "one", 1), scattered(tmp_path, "other", 1 << 30)
    for table in tables:
        table.add(iter([batch([(path, 0) for path in paths])]))
    lanes = ThreadRuntime().map_parallel(list, parallel_buckets(*tables, count=3))
    assert [len(lane) for lane in lanes] == [86, 85, 85]
    for one, other in (part for lane in lanes for part in lane):
        assert one.equals(other)
    found = [path for lane in lanes for part in lane for path in part[0].column("path").to_pylist()]
    assert sorted(found) == paths


def test_what_is_small_is_one_lane(tmp_path: Path) -> None:
    table = scattered(tmp_path, "small", 1 << 30)
    table.add(iter([batch([("repos/a", 1)])]))
    ((part,),) = map(list, parallel_buckets(table, count=2))
    assert part[0].num_rows == 1


def test_empty_tables_have_one_bucket(tmp_path: Path) -> None:
    table = scattered(tmp_path, "empty", 1)
    assert [part[0].num_rows for part in buckets_of(table)] == [0]
    full = scattered(tmp_path, "full", 1)
    full.add(iter([batch([("repos/a", 1)])]))
    assert sum(part[1].num_rows for part in buckets_of(table, full)) == 1
