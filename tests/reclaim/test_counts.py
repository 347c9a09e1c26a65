"""Counts by branch are added up now and then, and come out right whenever that is."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from lakebed.formats.gc_files import GC_RESULT_SCHEMAS, GCResultKind
from lakebed.reclaim.collector.executors import write
from lakebed.reclaim.collector.executors.write import Counts

SCHEMA = GC_RESULT_SCHEMAS[GCResultKind.COUNTS]


@pytest.mark.parametrize("file_rows", [1, 7, 1000])
def test_counts_are_added_up(file_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "FILE_ROWS", file_rows)
    draw = random.Random(file_rows)
    counts = Counts()
    objects: Counter[tuple[str, str, str]] = Counter()
    sizes: Counter[tuple[str, str, str]] = Counter()
    for _ in range(20):
        keys = [
            (
                f"b{draw.randrange(30)}",
                draw.choice(["held", "due"]),
                draw.choice(["open", "closed"]),
            )
            for _ in range(draw.randrange(9))
        ]
        rows = [(*key, 1, draw.randrange(100)) for key in keys]
        objects.update(keys)
        for branch, verdict, stage, _, size in rows:
            sizes[branch, verdict, stage] += size
        columns = {name: [row[n] for row in rows] for n, name in enumerate(SCHEMA.names)}
        counts.add(pa.table(columns, schema=SCHEMA))
    found = {
        (row["branch"], row["verdict"], row["stage"]): (row["objects"], row["bytes"])
        for row in counts.table().to_pylist()
    }
    assert found == {key: (objects[key], sizes[key]) for key in objects}
