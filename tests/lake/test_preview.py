"""What previews show, and that they are bounded."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from lakebed.engine.model import BranchID
from lakebed.lake.errors import NotComparable, PreviewTooLarge
from lakebed.lake.preview import previews, tables, texts
from lakebed.lake.preview.columns import Histogram, describe
from lakebed.lake.preview.decoders import Decoders
from lakebed.lake.preview.decoding import Decode, Preview, decode_here
from lakebed.lake.preview.previews import Previews
from lakebed.lake.preview.row_diff import diff_rows
from lakebed.lake.preview.tables import Rows
from tests.kit.lake import Lake, open_lake


class Shelf:
    """A repository to put objects into."""

    def __init__(self, lake: Lake, decode: Decode | None = decode_here) -> None:
        self.catalog = lake.catalog
        self.repository = lake.repository
        self.previews = Previews(lake.catalog.objects, lake.clock, decode)

    def put(self, path: str, data: bytes, content_type: str = "application/octet-stream") -> None:
        self.catalog.uploads.upload(
            self.repository.id, BranchID("main"), path.encode(), [data], content_type=content_type
        )

    def show(self, path: str, *, offset: int = 0, limit: int = 50) -> Preview:
        return self.previews.show(
            self.repository.id, "main", path.encode(), offset=offset, limit=limit
        )


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with open_lake("memory", tmp_path) as lake:
        yield Shelf(lake)


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


NUMBERS = pa.table({"n": list(range(1000)), "t": [f"text {at}" for at in range(1000)]})


def test_rows_of_parquet_come_page_by_page_from_their_row_groups(shelf: Shelf) -> None:
    shelf.put("a.parquet", parquet(NUMBERS, row_group_size=100))
    found = shelf.show("a.parquet", offset=250, limit=120)
    assert [row[0] for row in found.rows] == [str(at) for at in range(250, 370)]
    assert (found.row_count, found.has_more, found.layout["row groups"]) == (1000, True, "10")
    n = found.columns[0]
    assert (n.type, n.minimum, n.maximum, n.nulls) == ("int64", "0", "999", 0)
    assert n.histogram == Histogram(counts=[84] * 11 + [76], minimum="0", maximum="999", of="file")
    end = shelf.show("a.parquet", offset=990)
    assert (len(end.rows), end.has_more) == (10, False)
    assert shelf.show("a.parquet", offset=5000).rows == []


def test_only_the_row_groups_that_are_shown_are_read(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = pa.table({"b": [bytes([at % 251]) * 100_000 for at in range(200)]})
    shelf.put(
        "big.parquet", parquet(big, row_group_size=10, compression="none", use_dictionary=False)
    )
    monkeypatch.setattr(previews, "_BYTES_MAX", 3 << 20)  # of 20 MB
    assert len(shelf.show("big.parquet", offset=150, limit=5).rows) == 5
    refused = shelf.show("big.parquet", offset=100, limit=100)
    assert refused.kind == "none"
    assert "more than 3 MiB" in refused.reason


def histogram_of(found: Preview) -> Histogram:
    histogram = found.columns[0].histogram
    assert histogram is not None
    return histogram


def test_a_histogram_is_of_the_file_on_each_page(shelf: Shelf) -> None:
    trips = pa.table({"n": [float(at % 100) for at in range(1000)]})
    shelf.put("a.parquet", parquet(trips, row_group_size=100))
    shelf.put("a.csv", b"n\n" + b"".join(b"%d.0\n" % (at % 100) for at in range(1000)))
    for path in ("a.parquet", "a.csv"):
        first, second = shelf.show(path), shelf.show(path, offset=50)
        assert histogram_of(first) == histogram_of(second)
        assert sum(histogram_of(first).counts) == 1000
        assert (histogram_of(first).minimum, histogram_of(first).maximum) == ("0.0", "99.0")
        assert histogram_of(first).of == "file"


@pytest.mark.parametrize("bound", ["NUMBERS_MAX", "NUMBERS_BYTES_MAX"])
def test_a_histogram_of_a_page_says_so(
    bound: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put("a.parquet", parquet(NUMBERS, row_group_size=100))
    monkeypatch.setattr(tables, bound, 999)
    found = shelf.show("a.parquet", offset=500)
    assert (found.columns[0].minimum, found.columns[0].maximum) == ("0", "999")
    histogram = histogram_of(found)
    assert (histogram.of, histogram.minimum, histogram.maximum) == ("rows", "500", "549")
    assert sum(histogram.counts) == 50


def test_a_histogram_of_an_arrow_file_is_of_its_rows_unless_all_are_shown(shelf: Shelf) -> None:
    sink = io.BytesIO()
    feather.write_feather(NUMBERS, sink)
    shelf.put("a.arrow", sink.getvalue())
    assert histogram_of(shelf.show("a.arrow")).of == "rows"
    sink = io.BytesIO()
    feather.write_feather(NUMBERS.slice(0, 40), sink)
    shelf.put("b.arrow", sink.getvalue())
    assert histogram_of(shelf.show("b.arrow")).of == "file"


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        (pa.array([1, 2, 2, 4, 6], pa.int8()), [1, 2, 0, 1, 0, 1]),
        (pa.array(range(13), pa.int8()), [2, 2, 2, 2, 2, 2, 1]),
        (pa.array([-128, 127], pa.int8()), [1, *[0] * 10, 1]),
        (pa.array([0, 2**64 - 1], pa.uint64()), [1, *[0] * 10, 1]),
        (pa.array([-(2**63), 2**63 - 1], pa.int64()), [1, *[0] * 10, 1]),
        (pa.array([0.0, 1.0, 12.0, float("nan"), float("inf"), None]), [1, 1, *[0] * 9, 1]),
        (pa.array(np.array([1, 2], np.float16)), [1, *[0] * 10, 1]),
        (pa.array([-1e308, 1e308]), None),
        (pa.array([7, 7]), None),
        (pa.array([None], pa.int64()), None),
    ],
)
def test_ranges_of_a_histogram(values: pa.Array, counts: list[int] | None) -> None:
    (column,) = describe(pa.table({"n": values}))
    assert (None if column.histogram is None else column.histogram.counts) == counts


def test_columns_of_one_name_have_their_own_histograms(shelf: Shelf) -> None:
    shelf.put("a.csv", b"n,t,n\n1,a,10\n2,b,20\n")
    found = [each.histogram for each in shelf.show("a.csv").columns]
    assert [each and each.maximum for each in found] == ["2", None, "20"]


def test_no_least_value_is_minus_zero(shelf: Shelf) -> None:
    shelf.put("zero.parquet", parquet(pa.table({"n": [0.0, 1.5], "m": [-1.5, 0.0]})))
    n, m = shelf.show("zero.parquet").columns
    assert (n.minimum, m.maximum) == ("0.0", "0.0")
    assert histogram_of(shelf.show("zero.parquet")).minimum == "0.0"
    (minus,) = describe(pa.table({"n": [-0.0, 1.0]}))
    assert minus.histogram is not None
    assert minus.histogram.minimum == "0.0"


def test_lines_that_are_left_out_are_not_counted_as_rows(shelf: Shelf) -> None:
    shelf.put("a.csv", b"a,b\n1,2\n3\n4,5\n")
    found = shelf.show("a.csv")
    assert (len(found.rows), found.row_count) == (2, None)
    assert "1 lines" in found.note


def test_many_columns_and_long_values_are_cut(shelf: Shelf) -> None:
    wide = pa.table({f"c{at}": ["x" * 10_000] for at in range(300)})
    shelf.put("wide.parquet", parquet(wide))
    found = shelf.show("wide.parquet")
    assert (len(found.columns), found.hidden_columns) == (100, 200)
    assert all(value is not None and len(value) == 501 for value in found.rows[0])


def test_values_of_all_kinds_are_written(shelf: Shelf) -> None:
    table = pa.table(
        {
            "null": pa.array([None], pa.int32()),
            "true": [True],
            "bytes": [b"\x00\xff"],
            "list": [[1, None]],
            "struct": [{"a": "ä"}],
            "early": pa.array([-(2**62)], pa.timestamp("us")),
            "nan": [float("nan")],
        }
    )
    shelf.put("kinds.parquet", parquet(table))
    found = shelf.show("kinds.parquet")
    assert found.kind == "table"
    assert found.rows[0][:5] == [None, "true", "00ff", "[1, null]", '{"a": "ä"}']


@pytest.mark.parametrize(
    ("path", "data", "rows", "format_"),
    [
        ("a.csv", b'a,b\n1,"x, y"\n2,\n', [["1", "x, y"], ["2", None]], "CSV"),
        ("a.csv", b"only,names", [], "CSV"),
        ("a.tsv", b"a\tb\n1\t2\n", [["1", "2"]], "TSV"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n', [["1"], ["2"]], "JSON lines"),
    ],
)
def test_text_tables(path: str, data: bytes, rows: list[Any], format_: str, shelf: Shelf) -> None:
    shelf.put(path, data)
    found = shelf.show(path)
    assert (found.kind, found.format, found.rows) == ("table", format_, rows)
    assert found.row_count == len(rows)


def test_a_long_csv_is_shown_by_its_beginning(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "HEAD_BYTES", 1 << 10)
    shelf.put("long.csv", b"n\n" + b"".join(b"%d\n" % at for at in range(10_000)))
    found = shelf.show("long.csv", limit=10)
    assert found.rows[9] == ["9"]
    assert found.row_count is None
    assert found.has_more
    assert "Only the first" in found.note


def test_arrow_files_and_streams(shelf: Shelf) -> None:
    sink = io.BytesIO()
    feather.write_feather(NUMBERS, sink)
    shelf.put("a.arrow", sink.getvalue())
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, NUMBERS.schema) as writer:
        writer.write_table(NUMBERS, max_chunksize=100)
    shelf.put("a.arrows", stream.getvalue())
    for path in ("a.arrow", "a.arrows"):
        found = shelf.show(path, offset=150, limit=2)
        assert found.rows == [["150", "text 150"], ["151", "text 151"]]
        assert found.has_more


def test_a_table_is_known_by_its_first_bytes_too(shelf: Shelf) -> None:
    shelf.put("part-00000", parquet(NUMBERS))
    assert shelf.show("part-00000").format == "Parquet"


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        ("a.parquet", b"PAR1 no more", "none"),
        ("a.parquet", b"", "none"),
        ("a.arrow", b"nonsense", "none"),
        ("a.csv", b"a,b\n\xff\xfe,1\n", "table"),
        ("a.jsonl", b"not json\n", "text"),
        ("a.ipynb", b"{}", "text"),
        ("a.bin", b"\x00\x01", "none"),
        ("a.txt", "käse".encode(), "text"),
        ("a.html", b"<script>", "text"),
        ("a.svg", b"<svg/>", "text"),
        ("a.png", b"\x89PNG", "image"),
    ],
)
def test_damaged_and_unknown_files_are_reported(
    path: str, data: bytes, kind: str, shelf: Shelf
) -> None:
    shelf.put(path, data)
    found = shelf.show(path)
    assert found.kind == kind
    assert bool(found.reason) == (kind == "none")


def test_a_preview_ends_when_its_time_is_over(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put("a.parquet", parquet(NUMBERS))
    monkeypatch.setattr(previews, "_SECONDS_MAX", -1.0)
    found = shelf.show("a.parquet")
    assert "seconds" in found.reason


def test_markdown_is_a_tree_without_markup() -> None:
    text = (
        "# Title\n\n<script>alert(1)</script> *em* [bad](javascript:alert(1)) [good](https://x.y)"
        " ![p](https://x.y/p.png)\n\n| a |\n|---|\n| 1 |\n\n```\ncode\n```\n"
    )
    tree = texts.markdown_tree(text)
    flat = json.dumps(tree)
    assert {"tag": "h1", "children": ["Title"]} in tree
    assert "<script>alert(1)</script>" in flat  # as text
    hrefs: list[str] = []
    _walk(tree, lambda node: hrefs.append(node["href"]) if "href" in node else None)
    assert hrefs == ["https://x.y"]
    assert '"tag": "td"' in flat


def _walk(nodes: list[Any], see: Callable[[dict[str, Any]], Any]) -> None:
    for node in nodes:
        if isinstance(node, dict):
            see(node)
            _walk(node.get("children", []), see)


@given(st.text(max_size=200))
def test_any_text_becomes_a_tree_of_known_tags(text: str) -> None:
    def see(node: dict[str, Any]) -> None:
        assert node["tag"] in texts._TAGS
        assert set(node) <= {"tag", "children", "href"}

    _walk(texts.markdown_tree(text), see)


def test_long_markdown_is_shown_as_text(shelf: Shelf) -> None:
    """It would cost too much to read, also in many pieces."""
    long = "[)\n\n" * 6200
    shelf.put("long.md", long.encode())
    assert shelf.show("long.md").kind == "text"
    cells = [{"cell_type": "markdown", "source": long[:20_000]}] * 3
    found = texts.notebook_cells(json.dumps({"cells": cells}))
    assert [each["kind"] for each in found] == ["markdown", "code", "code"]


def whole(table: pa.Table) -> Rows:
    return Rows(
        format="Arrow", table=table, schema=table.schema, row_count=table.num_rows, has_more=False
    )


def test_rows_are_compared_by_key() -> None:
    left = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    right = pa.table({"id": [4, 3, 2], "v": ["d", "c", "B"]})
    found = diff_rows(whole(left), whole(right))
    assert found.keys == ["id"]
    assert (found.added, found.removed, found.changed) == (1, 1, 1)
    assert [(each.kind, each.left, each.right) for each in found.rows] == [
        ("removed", ["1", "a"], None),
        ("changed", ["2", "b"], ["2", "B"]),
        ("added", None, ["4", "d"]),
    ]


def test_rows_without_a_key_are_equal_or_not() -> None:
    left = pa.table({"v": ["a", "a", "b"]})
    right = pa.table({"v": ["a", "b", "b"]})
    found = diff_rows(whole(left), whole(right))
    assert (found.keys, found.added, found.removed) == ([], 1, 1)


def test_a_new_column_changes_no_row() -> None:
    left = pa.table({"id": [1, 2]})
    right = pa.table({"id": [1, 2], "new": [5, 6]})
    found = diff_rows(whole(left), whole(right))
    assert (found.added, found.removed, found.changed) == (0, 0, 0)
    assert found.schema == ["column added: new (int64)"]


def test_keys_that_do_not_tell_rows_apart_are_refused() -> None:
    table = pa.table({"id": [1, 1], "v": [1, 2]})
    with pytest.raises(NotComparable, match="do not identify rows uniquely"):
        diff_rows(whole(table), whole(table), ["id"])
    with pytest.raises(NotComparable, match="not a column of both"):
        diff_rows(whole(table), whole(table), ["nope"])


@given(
    st.dictionaries(st.integers(0, 20), st.integers(0, 3), max_size=15),
    st.dictionaries(st.integers(0, 20), st.integers(0, 3), max_size=15),
)
def test_a_diff_by_key_is_that_of_two_dictionaries(
    left: dict[int, int], right: dict[int, int]
) -> None:
    def table(rows: dict[int, int]) -> pa.Table:
        return pa.table(
            {"k": pa.array(rows.keys(), pa.int64()), "v": pa.array(rows.values(), pa.int64())}
        )

    found = diff_rows(whole(table(left)), whole(table(right)), ["k"])
    assert found.added == len(right.keys() - left.keys())
    assert found.removed == len(left.keys() - right.keys())
    assert found.changed == sum(left[key] != right[key] for key in left.keys() & right.keys())


def test_versions_of_an_object_are_compared(shelf: Shelf) -> None:
    shelf.put("a.csv", b"id,v\n1,a\n2,b\n")
    shelf.catalog.ref_changes.create_branch(shelf.repository.id, "other", "main")
    shelf.put("b.txt", b"text")
    with pytest.raises(NotComparable, match="only rows of"):
        shelf.previews.diff(shelf.repository.id, "main", "main", b"b.txt", [])
    found = shelf.previews.diff(shelf.repository.id, "main", "main", b"a.csv", [])
    assert found.rows == []


def test_too_much_is_an_error_of_a_diff(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.put("a.csv", b"id\n" + b"1\n" * 1000)
    monkeypatch.setattr(previews, "_BYTES_MAX", 100)
    with pytest.raises(PreviewTooLarge):
        shelf.previews.diff(shelf.repository.id, "main", "main", b"a.csv", [])


@pytest.mark.slow
class TestProcesses:
    """Tables are read by processes of their own, which cannot take the server with them."""

    @pytest.fixture
    def shelf(self, tmp_path: Path) -> Iterator[Shelf]:
        with open_lake("memory", tmp_path) as lake:
            yield Shelf(lake, None)

    def test_they_show_and_compare_the_same(self, shelf: Shelf) -> None:
        shelf.put("a.parquet", parquet(NUMBERS, row_group_size=100))
        shelf.put("a.csv", b"id,v\n1,a\n")
        here = Previews(shelf.catalog.objects, shelf.previews._runtime, decode_here)
        where = shelf.repository.id, "main", b"a.parquet"
        assert shelf.show("a.parquet", offset=250, limit=20) == here.show(
            *where, offset=250, limit=20
        )
        found = shelf.previews.diff(shelf.repository.id, "main", "main", b"a.csv", [])
        assert found.keys == ["id"]
        with pytest.raises(NotComparable, match="not a column of both"):
            shelf.previews.diff(shelf.repository.id, "main", "main", b"a.csv", ["x"])
        shelf.put("broken.parquet", b"PAR1 no more")
        assert "cannot be read as parquet" in shelf.show("broken.parquet").reason

    def test_a_file_that_unpacks_to_gigabytes_ends_its_reader_alone(self, shelf: Shelf) -> None:
        zeros = pa.array([bytes(400 << 20)], pa.large_binary())
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(sink, pa.schema([("b", zeros.type)]), options=options) as writer:
            writer.write_batch(pa.record_batch([zeros], names=["b"]))
        del zeros
        assert sink.tell() < 1_000_000
        shelf.put("bomb.arrow", sink.getvalue())
        small = Decoders(shelf.previews._runtime, seconds_max=60.0, memory_bytes=300 << 20)
        poor = Previews(shelf.catalog.objects, shelf.previews._runtime, small.decode)
        found = poor.show(shelf.repository.id, "main", b"bomb.arrow", offset=0, limit=1)
        assert found.kind == "none"
        assert found.reason == "Showing this object takes too much memory: download it."

    def test_they_read_within_the_bounds_of_the_server(
        self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shelf.put("a.csv", b"id\n" + b"1\n" * 1000)
        monkeypatch.setattr(previews, "_BYTES_MAX", 100)
        assert "would read more than" in shelf.show("a.csv").reason

    def test_a_slow_decoder_is_ended(self, shelf: Shelf) -> None:
        shelf.put("a.csv", b"id\n1\n")
        hasty = Decoders(shelf.previews._runtime, seconds_max=0.0)
        quick = Previews(shelf.catalog.objects, shelf.previews._runtime, hasty.decode)
        found = quick.show(shelf.repository.id, "main", b"a.csv", offset=0, limit=1)
        assert "takes more than 0 seconds" in found.reason
