"""The files: ids of contents, and what becomes of damaged, foreign and newer files."""

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.formats import (
    CHANGE_SCHEMA,
    ENTRY_SCHEMA,
    AddressType,
    DamagedFile,
    Entry,
    EntryRows,
    ForeignFile,
    FormatError,
    FormatTooNew,
    InvalidEntries,
    MetaRange,
    MetaRangeID,
    RangeID,
    RangeRef,
    conform_entries,
    decode_metarange,
    decode_range,
    encode_metarange,
    encode_range,
    entries_of,
    entries_table,
    metarange_id,
    metarange_table,
    range_id,
)
from lakebed.formats.boundaries import ref_of
from tests.engine.committed import reference
from tests.engine.committed.kit import entries, entry, rows, split
from tests.engine.committed.reference import Entries

ENTRY = Entry(
    key=b"a/b",
    identity=b"\x00\xff",
    address="data/x",
    address_type=AddressType.RELATIVE,
    size=3,
    checksum="abc",
    mtime=datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
    content_type="text/plain",
    metadata={"k": "v", "l": ""},
)
OTHER = Entry(
    key=b"a/c",
    identity=b"",
    address="s3://bucket/y",
    address_type=AddressType.FULL,
    size=0,
    checksum="",
    mtime=datetime(1969, 1, 1, tzinfo=UTC),
    content_type="",
    metadata={},
)
TABLE = entries_table([ENTRY, OTHER])
REFS = [
    RangeRef(RangeID("1" * 64), b"a", b"b", 2, 100),
    RangeRef(RangeID("2" * 64), b"c", b"c", 1, 50),
]

HALVES = {
    half.metarange_id: half
    for half in (MetaRange(metarange_id(metarange_table([ref])), [ref]) for ref in REFS)
}


def test_the_ids_of_format_one_never_change() -> None:
    assert range_id(TABLE).startswith("3448f26137c2875534b4da2acda13a9b")
    assert metarange_id(metarange_table(REFS)).startswith("16ee70f51087839a5e4330d30d1dd40e")


@given(entries())
def test_an_id_is_what_the_format_says(model: Entries) -> None:
    assert range_id(rows(model)) == reference.range_id(model)


@given(entries(), st.lists(st.integers(0, 100), max_size=3))
def test_an_id_does_not_depend_on_the_memory_of_the_rows(model: Entries, cuts: list[int]) -> None:
    table = rows(model)
    chunked = pa.concat_tables([*split(table, cuts), ENTRY_SCHEMA.empty_table()])
    padded = pa.concat_tables([TABLE, table, TABLE]).combine_chunks().slice(2, table.num_rows)
    assert range_id(chunked) == range_id(padded) == range_id(table)


@given(entries(), entries())
def test_an_id_stands_for_one_content(one: Entries, other: Entries) -> None:
    assert (range_id(rows(one)) == range_id(rows(other))) == (one == other)


@pytest.mark.parametrize(
    "changed",
    [
        {"key": b"a/bb"},
        {"identity": b"\x00"},
        {"address": "data/y"},
        {"address_type": AddressType.FULL},
        {"size": 4},
        {"checksum": ""},
        {"mtime": datetime(2026, 2, 3, 4, 5, 6, 790, tzinfo=UTC)},
        {"content_type": "text/plaim"},
        {"metadata": {"k": "vl", "": ""}},
        {"metadata": {"kv": "", "l": ""}},
        {"metadata": {"k": "v"}},
        {"metadata": {}},
    ],
)
def test_an_id_covers_every_column(changed: dict[str, Any]) -> None:
    fields = {name: getattr(ENTRY, name) for name in ENTRY_SCHEMA.names}
    table = entries_table([Entry(**{**fields, **changed}), OTHER])
    assert range_id(table) != range_id(TABLE)


def test_an_id_covers_which_row_a_value_belongs_to() -> None:
    fields = {name: getattr(ENTRY, name) for name in ENTRY_SCHEMA.names}
    moved = [
        Entry(**{**fields, "checksum": "", "metadata": {}}),
        Entry(**{**fields, "key": b"a/c", "checksum": "abc"}),
    ]
    there = [
        Entry(**{**fields, "checksum": "abc"}),
        Entry(**{**fields, "key": b"a/c", "checksum": "", "metadata": {}}),
    ]
    assert range_id(entries_table(moved)) != range_id(entries_table(there))


def test_the_id_of_a_metarange_covers_every_column() -> None:
    ids = {metarange_id(metarange_table(REFS)), metarange_id(metarange_table(REFS[:1]))}
    for changed in (
        RangeRef(RangeID("3" * 64), b"a", b"b", 2, 100),
        RangeRef(RangeID("1" * 64), b"aa", b"b", 2, 100),
        RangeRef(RangeID("1" * 64), b"a", b"bb", 2, 100),
        RangeRef(RangeID("1" * 64), b"a", b"b", 3, 100),
        RangeRef(RangeID("1" * 64), b"a", b"b", 2, 101),
    ):
        ids.add(metarange_id(metarange_table([changed, REFS[1]])))
    assert len(ids) == 7


@given(entries())
def test_a_range_is_read_as_it_was_written(model: Entries) -> None:
    table = rows(model)
    read = decode_range(encode_range(table), range_id(table), file="file")
    assert read.equals(table)
    assert read.schema.equals(ENTRY_SCHEMA)
    assert entries_of(read) == [model[key] for key in sorted(model)]
    single = EntryRows(read)
    assert [single[row] for row in range(len(model))] == entries_of(read)
    # Rows of a table may begin inside of its buffers, and lie in several of them.
    half = len(model) // 2
    for part in (read.slice(half), pa.concat_tables([read.slice(half), read.slice(0, half)])):
        single = EntryRows(part)
        assert [single[row] for row in range(part.num_rows)] == entries_of(part)


@pytest.mark.parametrize("refs", [[], REFS])
def test_a_metarange_is_read_as_it_was_written(refs: list[RangeRef]) -> None:
    table = metarange_table(refs)
    data, its_id = encode_metarange(table), metarange_id(table)
    read = decode_metarange(data, its_id, file="file", read=HALVES.__getitem__)
    assert read.refs == refs
    assert read.metarange_id == its_id
    assert read.count == sum(ref.count for ref in refs)


def listing(*metaranges: MetaRange, more: int = 0) -> pa.Table:
    """The content of a metarange of level 1."""
    return metarange_table(
        [
            RangeRef(
                RangeID(each.metarange_id),
                each.refs[0].min_key,
                each.refs[-1].max_key,
                each.count + more,
                sum(ref.size_bytes for ref in each.refs),
            )
            for each in metaranges
        ]
    )


def test_a_metarange_of_level_one_has_the_ranges_of_those_it_lists() -> None:
    table = listing(*HALVES.values())
    data, its_id = encode_metarange(table, level=1), metarange_id(table, level=1)
    read = decode_metarange(data, its_id, file="file", read=HALVES.__getitem__)
    assert read.refs == REFS
    assert read.metarange_id == its_id


def test_the_id_of_a_metarange_covers_its_level() -> None:
    table = listing(*HALVES.values())
    assert metarange_id(table) != metarange_id(table, level=1)
    with pytest.raises(DamagedFile, match="content id mismatch"):
        decode_metarange(
            encode_metarange(table, level=0),
            metarange_id(table, level=1),
            file="file",
            read=HALVES.__getitem__,
        )


def test_a_line_that_does_not_fit_the_metarange_it_names() -> None:
    table = listing(*HALVES.values(), more=1)
    with pytest.raises(DamagedFile, match=r"metarange \w+ has other keys than listed"):
        decode_metarange(
            encode_metarange(table, level=1),
            metarange_id(table, level=1),
            file="x.parquet",
            read=HALVES.__getitem__,
        )


def test_a_metarange_of_a_higher_level() -> None:
    data = encode_metarange(metarange_table(REFS), level=2)
    with pytest.raises(FormatTooNew, match=r"x\.parquet has level 2.*newer Lakebed"):
        decode_metarange(data, MetaRangeID("0" * 64), file="x.parquet", read=HALVES.__getitem__)


@pytest.mark.parametrize(("key", "type_"), [(b"caf\xc3\xa9", pa.string()), (b"\xff", pa.binary())])
def test_columns_of_a_range_have_ids_and_utf8_keys_are_text(key: bytes, type_: pa.DataType) -> None:
    table = rows({b"a": entry(b"a", 1), key: entry(key, 2)})
    schema = pq.ParquetFile(pa.BufferReader(encode_range(table))).schema_arrow
    assert schema.field("key").type == type_
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in schema]
    assert ids == list(range(1, 10))
    map_type = schema.field("metadata").type
    nested = [map_type.key_field, map_type.item_field]
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in nested] == [101, 102]
    assert decode_range(encode_range(table), range_id(table), file="file").equals(table)


def test_a_range_of_format_one_is_read() -> None:
    file = io.BytesIO()
    marks = {"lakebed.type": "range", "lakebed.format": "1"}
    pq.write_table(TABLE.replace_schema_metadata(marks), file)
    assert decode_range(file.getvalue(), range_id(TABLE), file="file").equals(TABLE)


def test_files_tell_the_bounds_of_what_others_may_search() -> None:
    def bounded(data: bytes) -> set[str]:
        group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        return {column.path_in_schema for column in columns if column.is_stats_set}

    table = rows({b"a": entry(b"a", 1), b"b": entry(b"b", 2)})
    assert bounded(encode_range(table)) == {"key", "size", "mtime"}
    assert not bounded(encode_metarange(metarange_table([ref_of(table.combine_chunks())])))


def test_positions_of_keys_in_a_metarange() -> None:
    metarange = MetaRange(MetaRangeID("m"), REFS)
    places = {key: metarange.position(key) for key in (b"", b"a", b"b", b"b\x00", b"c", b"d")}
    assert places == {b"": 0, b"a": 0, b"b": 0, b"b\x00": 1, b"c": 1, b"d": 2}


# Damage


@pytest.mark.slow
def test_no_flipped_bit_gives_wrong_data() -> None:
    data, wanted = encode_range(TABLE), range_id(TABLE)
    unharmed = 0
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        try:
            table = decode_range(bytes(damaged), wanted, file="ranges/x.parquet")
        except FormatError as error:
            assert "ranges/x.parquet" in str(error)  # noqa: PT017 - the other outcome is fine
        else:
            assert table.equals(TABLE)
            unharmed += 1
    # Statistics and the like may differ; most of the file may not.
    assert unharmed < len(data)


@pytest.mark.slow
def test_no_cut_file_gives_wrong_data() -> None:
    data = encode_range(TABLE)
    for length in range(len(data)):
        with pytest.raises(DamagedFile, match=r"x\.parquet"):
            decode_range(data[:length], range_id(TABLE), file="x.parquet")


def test_a_sound_file_with_another_content() -> None:
    data = encode_range(TABLE.slice(0, 1))
    with pytest.raises(DamagedFile, match=r"x\.parquet is damaged: content id mismatch"):
        decode_range(data, range_id(TABLE), file="x.parquet")


def test_a_file_of_another_program() -> None:
    file = io.BytesIO()
    pq.write_table(TABLE, file)
    with pytest.raises(ForeignFile, match=r"x\.parquet was not written by Lakebed"):
        decode_range(file.getvalue(), range_id(TABLE), file="x.parquet")


def test_a_file_of_another_type() -> None:
    data = encode_metarange(metarange_table(REFS))
    with pytest.raises(ForeignFile, match=r"x\.parquet is of type 'metarange', not 'range'"):
        decode_range(data, range_id(TABLE), file="x.parquet")


def marked(table: pa.Table, **marks: str) -> bytes:
    file = io.BytesIO()
    metadata = {f"lakebed.{name}": value for name, value in marks.items()}
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return file.getvalue()


def test_a_file_of_a_newer_format() -> None:
    data = marked(pa.table({"unheard": [1]}), type="range", format="3")
    with pytest.raises(FormatTooNew, match=r"x\.parquet has format version 3.*newer Lakebed"):
        decode_range(data, range_id(TABLE), file="x.parquet")


def test_a_file_with_a_broken_version() -> None:
    data = marked(TABLE, type="range", format="one")
    with pytest.raises(DamagedFile, match=r"x\.parquet"):
        decode_range(data, range_id(TABLE), file="x.parquet")


def test_a_file_with_other_columns() -> None:
    data = marked(TABLE.drop_columns("size"), type="range", format="1")
    with pytest.raises(ForeignFile, match=r"x\.parquet has the wrong columns for a range"):
        decode_range(data, range_id(TABLE), file="x.parquet")


# What goes in


def test_near_types_are_converted() -> None:
    table = pa.table(
        {
            "more": [1, 2],
            **{name: TABLE[name] for name in TABLE.column_names},
            "key": TABLE["key"].cast(pa.large_binary()),
            "content_type": TABLE["content_type"].combine_chunks().dictionary_encode(),
            "size": TABLE["size"].cast(pa.int32()),
        }
    )
    conformed = conform_entries(table)
    assert conformed.equals(TABLE)
    assert range_id(conformed) == range_id(TABLE)


def test_metadata_have_one_order() -> None:
    type_ = pa.map_(pa.string(), pa.string())
    maps = [[("b", "1"), ("a", "2")], [], [("a", "2"), ("b", "1")], [("c", ""), ("a", "3")]]
    table = pa.concat_tables([TABLE, TABLE])
    table = table.set_column(8, "metadata", pa.array(maps, type_))
    ordered = [sorted(each) for each in maps]
    assert conform_entries(table)["metadata"].to_pylist() == ordered
    # Of a slice, the maps before it do not count.
    assert conform_entries(table.slice(2))["metadata"].to_pylist() == ordered[2:]


@pytest.mark.parametrize(
    ("column", "values", "type_"),
    [
        ("size", ["x", "y"], pa.string()),
        ("address", [b"\xff", b""], pa.binary()),
        ("metadata", [[("a", "1"), ("a", "2")], []], pa.map_(pa.string(), pa.string())),
        ("metadata", [[("b", "1"), ("a", "1"), ("b", "2")], []], pa.map_(pa.string(), pa.string())),
        ("metadata", [[("a", None)], []], pa.map_(pa.string(), pa.string())),
    ],
)
def test_wrong_values_are_refused(column: str, values: list[Any], type_: pa.DataType) -> None:
    place = TABLE.column_names.index(column)
    with pytest.raises(InvalidEntries):
        conform_entries(TABLE.set_column(place, column, pa.array(values, type_)))


@pytest.mark.parametrize("column", ENTRY_SCHEMA.names)
def test_missing_values_and_columns_are_refused(column: str) -> None:
    place = TABLE.column_names.index(column)
    nulls = pa.array([TABLE[column][0].as_py(), None], ENTRY_SCHEMA.field(column).type)
    with pytest.raises(InvalidEntries):
        conform_entries(TABLE.set_column(place, column, nulls))
    with pytest.raises(InvalidEntries):
        # The schema may say otherwise.
        conform_entries(TABLE.set_column(place, ENTRY_SCHEMA.field(column), nulls))
    with pytest.raises(InvalidEntries):
        conform_entries(TABLE.drop_columns(column))


def test_text_that_is_none_is_refused() -> None:
    bounds = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(2, bounds, pa.py_buffer(b"\xff\xfe"))
    with pytest.raises(InvalidEntries):
        conform_entries(TABLE.set_column(5, ENTRY_SCHEMA.field("checksum"), broken))


def test_changes_have_the_columns_of_entries_and_a_flag() -> None:
    assert CHANGE_SCHEMA.names == [*ENTRY_SCHEMA.names, "tombstone"]
