"""The files of dumps: what is written is read again, and nothing else is."""

import json
from dataclasses import asdict

import pyarrow as pa
import pytest

from lakebed.formats import (
    REF_SCHEMAS,
    DamagedFile,
    DumpFile,
    DumpID,
    DumpManifest,
    ForeignFile,
    FormatTooNew,
    RefKind,
    decode_manifest,
    decode_refs,
    encode_manifest,
    encode_refs,
    refs_id,
)
from lakebed.formats.files import content_id, encode_document

COMMIT = {
    "id": "c1",
    "version": 1,
    "committer": "someone",
    "message": "",
    "metarange_id": "m1",
    "created": -5,
    "parents": ["p1", "p2"],
    "metadata": [("a", "b")],
    "generation": 7,
    "consumed_tokens": [],
    "nonce": b"\x00\xff",
}
ROWS = {
    RefKind.BRANCHES: {"name": "main", "commit_id": "c1", "hidden": True, "created": 2**60},
    RefKind.TAGS: {"name": "v1", "commit_id": "c1", "created": 0},
    RefKind.COMMITS: COMMIT,
}


@pytest.mark.parametrize("kind", list(RefKind))
@pytest.mark.parametrize("count", [0, 1, 3])
def test_files_come_back(kind: RefKind, count: int) -> None:
    table = pa.Table.from_pylist([ROWS[kind]] * count, schema=REF_SCHEMAS[kind])
    described = DumpFile("f", kind, count, refs_id(kind, table))
    assert decode_refs(encode_refs(kind, table), described, file="f").equals(table)
    others = DumpFile("f", kind, count + 1, described.content_id)
    with pytest.raises(DamagedFile, match=r"^f is damaged: \d rows instead of"):
        decode_refs(encode_refs(kind, table), others, file="f")


def test_a_file_of_another_kind_is_refused() -> None:
    table = pa.Table.from_pylist([ROWS[RefKind.TAGS]], schema=REF_SCHEMAS[RefKind.TAGS])
    described = DumpFile("f", RefKind.COMMITS, 1, refs_id(RefKind.TAGS, table))
    with pytest.raises(ForeignFile, match=r"^f is of type 'tags'"):
        decode_refs(encode_refs(RefKind.TAGS, table), described, file="f")


CHANGES = [
    ("hidden", False),
    ("name", "Main"),
    ("created", 2**60 + 1),
    ("parents", ["p1p2"]),
    ("parents", ["p1", "p2", ""]),
    ("parents", ["p1"]),
    ("parents", []),
    ("consumed_tokens", ["p1", "p2"]),
    ("metadata", [("a", "c")]),
    ("nonce", b"\x00"),
]


@pytest.mark.parametrize(("column", "value"), CHANGES)
def test_the_id_covers_every_value(column: str, value: object) -> None:
    kind = RefKind.BRANCHES if column in ROWS[RefKind.BRANCHES] else RefKind.COMMITS
    row = ROWS[kind]
    tables = [
        pa.Table.from_pylist([row, each], schema=REF_SCHEMAS[kind])
        for each in (row, row | {column: value})
    ]
    assert refs_id(kind, tables[0]) != refs_id(kind, tables[1])


def test_the_id_tells_where_one_list_ends_and_the_next_begins() -> None:
    one, other = (pa.table({"list": lists}) for lists in ([["a"], ["b", "c"]], [["a", "b"], ["c"]]))
    assert content_id("kind", one) != content_id("kind", other)


def test_the_id_of_a_slice_is_that_of_its_rows() -> None:
    rows = [{"list": ["a"], "flag": True}, {"list": ["b", "c"], "flag": False}, {"list": []}]
    schema = pa.schema([("list", pa.list_(pa.string())), ("flag", pa.bool_())])
    whole = pa.Table.from_pylist([*rows[:2], rows[0]], schema=schema)
    alone = pa.Table.from_pylist([rows[1], rows[0]], schema=schema)
    assert content_id("kind", whole.slice(1)) == content_id("kind", alone)
    assert content_id("kind", whole.slice(0, 2)) != content_id("kind", alone)


MANIFEST = DumpManifest(
    dump_id=DumpID("d1"),
    repository="repo",
    unique_ids=("u1", "u2"),
    default_branch="main",
    created_us=5,
    files=(
        DumpFile("commits-00000.parquet", RefKind.COMMITS, 3, "id1"),
        DumpFile("commits-00001.parquet", RefKind.COMMITS, 4, "id2"),
        DumpFile("tags-00000.parquet", RefKind.TAGS, 5, "id3"),
    ),
)


def test_a_manifest_comes_back() -> None:
    assert decode_manifest(encode_manifest(MANIFEST), DumpID("d1"), file="f") == MANIFEST
    assert MANIFEST.rows(RefKind.COMMITS) == 7
    assert MANIFEST.rows(RefKind.BRANCHES) == 0


def test_a_manifest_with_any_bit_changed_is_refused() -> None:
    data = encode_manifest(MANIFEST)
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            found = decode_manifest(changed, DumpID("d1"), file="f")
        except (DamagedFile, ForeignFile):
            continue
        assert found == MANIFEST  # white space


def test_a_manifest_of_another_time_or_place_is_refused() -> None:
    data = encode_manifest(MANIFEST)
    with pytest.raises(ForeignFile, match=r"^f is the manifest of dump d1"):
        decode_manifest(data, DumpID("d2"), file="f")
    with pytest.raises(FormatTooNew, match="use a newer Lakebed"):
        decode_manifest(
            json.dumps(json.loads(data) | {"format": 3}).encode(), DumpID("d1"), file="f"
        )
    with pytest.raises(ForeignFile, match="not a refs_manifest"):
        decode_manifest(b"[]", DumpID("d1"), file="f")
    with pytest.raises(DamagedFile):
        decode_manifest(data[:-1], DumpID("d1"), file="f")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"files": None}, "field files has type NoneType, not list"),
        ({"files": [{}]}, "field 'name' is missing"),
        ({"files": [{"name": "f", "kind": "other"}]}, "unknown kind 'other'"),
        ({"files": ["f"]}, "field files has type str, not dict"),
        ({"unique_ids": [1]}, "field unique_ids has type int, not str"),
        ({"created_us": True}, "field created_us has type bool, not int"),
        ({"dump_id": None}, "field dump_id has type NoneType, not str"),
    ],
)
def test_a_manifest_with_wrong_fields_and_a_right_digest_is_refused(
    changes: dict[str, object], reason: str
) -> None:
    data = encode_document("refs_manifest", asdict(MANIFEST) | changes)
    with pytest.raises(DamagedFile, match=f"^f is damaged: {reason}"):
        decode_manifest(data, DumpID("d1"), file="f")


def test_a_manifest_without_a_field_is_refused() -> None:
    for name in asdict(MANIFEST):
        content = {key: value for key, value in asdict(MANIFEST).items() if key != name}
        with pytest.raises(DamagedFile, match=f"field '{name}' is missing"):
            decode_manifest(encode_document("refs_manifest", content), DumpID("d1"), file="f")


def test_a_manifest_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(DamagedFile):
        decode_manifest(b"[" * 100_000, DumpID("d1"), file="f")


def test_a_field_of_a_newer_lakebed_is_passed_over() -> None:
    data = encode_document("refs_manifest", asdict(MANIFEST) | {"more": 1})
    assert decode_manifest(data, DumpID("d1"), file="f") == MANIFEST
