"""Row diffs claim nothing about rows that were not compared."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.block import ByteRange, ByteStream
from lakebed.block.ranges import Between
from lakebed.lake.errors import NotComparable
from lakebed.lake.preview import tables
from lakebed.lake.preview.decoding import COMPARED_ROWS_MAX, Task, decode_here
from lakebed.lake.preview.row_diff import RowDiff
from lakebed.lake.preview.tables import BoundedFile

ROWS = 50_000
"""More than are compared."""
Ids = Sequence[int]


def file_of(data: bytes) -> BoundedFile:
    def read(wanted: ByteRange) -> ByteStream:
        assert isinstance(wanted, Between)
        part = data[wanted.start : wanted.end]
        return ByteStream(iter([part]), lambda: None, object_size=len(data))

    return BoundedFile(read, len(data), bytes_max=1 << 30, check_time=lambda: None)


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def trips(ids: Ids, changed: Ids = ()) -> bytes:
    others = set(changed)
    fares = [-1 if each in others else each % 97 for each in ids]
    return parquet(pa.table({"id": pa.array(ids, pa.int64()), "fare": fares}))


def compare(left: bytes, right: bytes, kind: str = "parquet", keys: Sequence[str] = ()) -> RowDiff:
    task = Task(formats=[kind, kind], compare=True, keys=list(keys))
    found = decode_here(task, [file_of(left), file_of(right)])
    assert isinstance(found, RowDiff)
    return found


def counts(found: RowDiff) -> tuple[int, int, int]:
    return found.added, found.removed, found.changed


ALL = range(ROWS)


@pytest.mark.parametrize(
    ("right", "changed", "rows", "known"),
    [
        pytest.param(range(ROWS - 10_000), (), 40_000, (0, 10_000, 0), id="the tail is deleted"),
        pytest.param(
            [*range(15_000), *range(25_000, ROWS)], (), 40_000, (0, 10_000, 0), id="the middle"
        ),
        pytest.param(
            [*range(ROWS, ROWS + 5), *ALL], (), 50_005, (5, 0, 0), id="rows in front are inserted"
        ),
        pytest.param(ALL[::-1], (), ROWS, (0, 0, 0), id="the order is reversed"),
        pytest.param(
            [each for each in ALL if each % 5000 != 7],
            range(100, ROWS, 2000),
            49_990,
            (0, 10, 0),
            id="10 are removed and 25 changed",
        ),
    ],
)
def test_tables_that_are_cut_are_never_equal_or_matched_by_key(
    right: Ids, changed: Ids, rows: int, known: tuple[int, int, int]
) -> None:
    found = compare(trips(ALL), trips(right, changed))
    assert (found.left_rows, found.right_rows) == (ROWS, rows)
    assert not found.complete
    assert f"before: {COMPARED_ROWS_MAX:,} of {ROWS:,} rows read" in found.limit
    assert (found.keys, found.rows, counts(found)) == ([], [], known)
    with pytest.raises(NotComparable, match=r"cannot be matched by id\. Not everything"):
        compare(trips(ALL), trips(right, changed), keys=["id"])


def test_one_side_that_is_cut_tells_what_the_other_certainly_lacks() -> None:
    small, large = trips(range(5, 1005), [7]), trips(ALL)
    found = compare(small, large)
    assert not found.complete
    # The first 20,000 rows have 0-4 and 1005-19999, and row 7 with another fare.
    assert counts(found) == (49_000, 0, 0)
    assert [each.right for each in found.rows[:2]] == [["0", "0"], ["1", "1"]]
    assert all(each.kind == "added" for each in found.rows)
    found = compare(large, small)
    assert counts(found) == (0, 49_000, 0)
    assert all(each.kind == "removed" for each in found.rows)


def test_rows_that_may_be_behind_the_cut_are_not_called_removed() -> None:
    late = range(ROWS - 100, ROWS)
    found = compare(trips(late), trips(ALL))
    assert found.removed == 0
    assert found.added == ROWS - 100


def test_whole_tables_are_compared_by_key() -> None:
    found = compare(trips(range(100)), trips([*range(2, 100), 200], [50]))
    assert found.complete
    assert found.limit == ""
    assert (found.left_rows, found.right_rows) == (100, 99)
    assert (found.keys, counts(found)) == (["id"], (1, 2, 1))


def test_columns_that_are_cut_make_no_equal_tables() -> None:
    def wide(last: int) -> bytes:
        columns = {f"c{at}": [at, at + 1] for at in range(tables.COLUMNS_MAX)}
        return parquet(pa.table({**columns, "last": [last, last]}))

    found = compare(wide(1), wide(2))
    assert counts(found) == (0, 0, 0)
    assert not found.complete
    assert found.limit.endswith("Version after: 100 of 101 columns read.")
    assert found.schema == []


def test_a_column_that_moves_behind_the_cut_is_not_called_removed() -> None:
    names = [f"c{at}" for at in range(tables.COLUMNS_MAX)]
    row = {name: [1] for name in names}
    found = compare(parquet(pa.table({**row, "new": [1]})), parquet(pa.table({"new": [1], **row})))
    assert found.schema == []
    assert found.shared_columns == names[:-1]
    assert counts(found) == (0, 0, 0)


def test_long_values_are_compared_whole() -> None:
    def texts(last: str) -> bytes:
        return parquet(pa.table({"id": [1], "v": ["x" * 10_000 + last]}))

    found = compare(texts("a"), texts("b"))
    assert found.changed == 1
    (row,) = found.rows
    assert row.left == row.right == ["1", "x" * 500 + "…"]


def test_lines_that_are_left_out_are_a_cut() -> None:
    found = compare(b"id,v\n1,a\n2,b\n", b"id,v\n1,a\n2,b,c\n", "csv")
    assert not found.complete
    assert found.right_rows is None
    assert "1 lines with a different number of columns are omitted." in found.limit


@pytest.mark.parametrize(
    ("kind", "line", "head"),
    [("csv", b"%d\n", b"id\n"), ("jsonl", b'{"id": %d}\n', b"")],
)
def test_the_beginning_of_a_text_is_a_cut(
    kind: str, line: bytes, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "HEAD_BYTES", 1 << 10)

    def text(ids: Ids) -> bytes:
        return head + b"".join(line % each for each in ids)

    found = compare(text(range(1000)), text(range(990)), kind)
    assert (found.left_rows, found.right_rows) == (None, None)
    assert (found.complete, counts(found)) == (False, (0, 0, 0))


def arrow_file(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    return sink.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    return sink.getvalue()


@pytest.mark.parametrize("write", [arrow_file, arrow_stream])
def test_arrow_is_counted_as_far_as_it_is_read(write: Callable[[Any], bytes]) -> None:
    def numbers(count: int) -> bytes:
        return write(pa.table({"id": range(count)}))

    found = compare(numbers(30_000), numbers(10), "arrow")
    assert (found.left_rows, found.right_rows) == (None, 10)
    assert (found.complete, counts(found)) == (False, (0, COMPARED_ROWS_MAX - 10, 0))
