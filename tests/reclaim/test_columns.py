"""The columns mean what the rules say: both on the same random inputs."""

import pyarrow as pa
import pytest

from lakebed.reclaim.collector import columns
from lakebed.reclaim.collector.columns import FOUND_SCHEMA, JUDGED_SCHEMA, PATHS_SCHEMA
from lakebed.reclaim.collector.executors.read import STORED_SCHEMA
from tests.kit.gc_inputs import LOOK, RandomLook


def table(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=schema)


def paths(chosen: list[str]) -> pa.Table:
    return table([(path,) for path in chosen], PATHS_SCHEMA)


@pytest.mark.parametrize("seed", range(20))
def test_judging_and_what_comes_of_it(seed: int) -> None:
    look = RandomLook(seed)
    saved = table(look.saved, JUDGED_SCHEMA)
    listed = table(
        [(one.path, one.size, one.born_us, one.made_us) for one in look.listed], STORED_SCHEMA
    )
    closed = columns.saved_closed(saved, look.state.closed_before_us).cast(STORED_SCHEMA)
    named = columns.saved_commit_referenced(saved).cast(PATHS_SCHEMA)
    judged = columns.judge(
        pa.concat_tables([listed, closed]),
        committed=pa.concat_tables([paths(look.committed), named]),
        uncommitted=paths(look.uncommitted),
        found=columns.saved_found(saved),
        times=LOOK,
    )
    assert sorted(judged.to_pylist(), key=lambda row: row["path"]) == sorted(
        table(look.rows, JUDGED_SCHEMA).to_pylist(), key=lambda row: row["path"]
    )
    due = judged.filter(columns.is_due(judged, LOOK)).column("path").to_pylist()
    assert set(due) == look.due
    freed = judged.filter(columns.is_freed(judged, paths(look.old))).column("path").to_pylist()
    assert set(freed) == look.freed
    kept = judged.filter(columns.is_remembered(judged, LOOK.closed_before_us))
    assert set(kept.column("path").to_pylist()) == look.remembered


def test_empty_tables() -> None:
    nothing = PATHS_SCHEMA.empty_table()
    judged = columns.judge(
        STORED_SCHEMA.empty_table(),
        committed=nothing,
        uncommitted=nothing,
        found=FOUND_SCHEMA.empty_table(),
        times=LOOK,
    )
    assert judged.num_rows == 0
    assert judged.schema == JUDGED_SCHEMA
