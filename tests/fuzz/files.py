"""Files in the storage, where others may write: ranges, dumps, runs of garbage collection."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NoReturn

import pyarrow as pa
from hypothesis import strategies as st

from lakebed.formats import (
    REF_SCHEMAS,
    DumpFile,
    DumpID,
    DumpManifest,
    Entry,
    FormatError,
    MetaRangeID,
    Owner,
    RangeID,
    RangeRef,
    RefKind,
    conform_entries,
    decode_manifest,
    decode_metarange,
    decode_owner,
    decode_range,
    decode_refs,
    encode_metarange,
    encode_owner,
    encode_range,
    encode_refs,
    entries_of,
    entries_table,
    metarange_id,
    metarange_table,
    range_id,
    refs_id,
)
from lakebed.formats.entries import AddressType
from lakebed.formats.files import decode_document, encode_document
from lakebed.formats.gc_files import (
    GCFile,
    GCFileKind,
    GCManifest,
    GCPage,
    GCResultFile,
    GCResultKind,
    GCRun,
    GCRunID,
    GCState,
    decode_gc_record,
    decode_state,
)
from tests.fuzz.inputs import damaged, json_values
from tests.fuzz.target import Targets, attempt

targets: Final = Targets()

FILE: Final = "mem://lakes/file"
texts: Final = st.text(st.characters(codec="utf-8"), max_size=8)
entries: Final = st.builds(
    Entry,
    key=st.binary(max_size=8),
    identity=st.binary(max_size=8),
    address=texts,
    address_type=st.sampled_from(AddressType),
    size=st.integers(-(2**63), 2**63 - 1),
    checksum=texts,
    mtime=st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    content_type=texts,
    metadata=st.dictionaries(texts, texts, max_size=2),
)
some_bytes: Final = [b"\0", b"\xff", b"PAR1", b"\x15", b"\0" * 8, b"\xff" * 8, b""]


@targets.add(st.lists(entries, max_size=4))
def ranges(rows: list[Entry]) -> None:
    """What is written is read."""
    table = conform_entries(entries_table(rows))
    data, its_id = encode_range(table), range_id(table)
    again = decode_range(data, its_id, file=FILE)
    assert again.equals(table)
    assert [entry.key for entry in entries_of(again)] == [entry.key for entry in rows]


SAMPLE: Final = conform_entries(
    entries_table(
        Entry(
            key=b"key-%03d" % number,
            identity=b"i",
            address="a",
            address_type=AddressType.RELATIVE,
            size=number,
            checksum="c",
            mtime=datetime(2026, 11, 15, tzinfo=UTC),
            content_type="text/csv",
            metadata={"a": "b"},
        )
        for number in range(50)
    )
)
RANGE: Final = encode_range(SAMPLE)
METARANGE: Final = metarange_table([RangeRef(RangeID("0" * 64), b"a", b"b", 1, 1)])
METARANGE_FILE: Final = encode_metarange(METARANGE)
TAGS: Final = pa.table(
    {"name": ["v1"], "commit_id": ["c"], "created": [datetime(2026, 11, 15, tzinfo=UTC)]},
    schema=REF_SCHEMAS[RefKind.TAGS],
)
TAGS_FILE: Final = encode_refs(RefKind.TAGS, TAGS)


def _no_metarange(metarange_id: MetaRangeID) -> NoReturn:
    raise AssertionError(f"a metarange of level 0 lists the metarange {metarange_id}")


_decode_metarange: Final = partial(decode_metarange, read=_no_metarange)


@targets.add(damaged(st.sampled_from([RANGE, METARANGE_FILE, TAGS_FILE]), some_bytes))
def parquet_files(data: bytes) -> None:
    """A damaged file is refused, or its rows are the very ones that were written."""
    table = attempt(FormatError, decode_range, data, range_id(SAMPLE), file=FILE)
    assert table is None or table.equals(SAMPLE)
    attempt(FormatError, _decode_metarange, data, metarange_id(METARANGE), file=FILE)
    described = DumpFile("tags-00000.parquet", RefKind.TAGS, 1, refs_id(RefKind.TAGS, TAGS))
    attempt(FormatError, decode_refs, data, described, file=FILE)


COLUMNS: Final[dict[str, list[Any]]] = {
    "range_id": [None, "0" * 64, 1],
    "min_key": [None, b"a", "a"],
    "max_key": [None, b"b", ""],
    "count": [None, 1, -1],
    "size_bytes": [None, 1, 1.5],
}


@targets.add(
    st.fixed_dictionaries({}, optional={name: st.sampled_from(v) for name, v in COLUMNS.items()})
)
def foreign_tables(row: dict[str, Any]) -> None:
    """A file that says it is a metarange and has other columns is refused."""
    table = pa.table({name: [value] for name, value in row.items()})
    data = encode_metarange(table)
    wanted = MetaRangeID("0" * 64)
    found = attempt(FormatError, _decode_metarange, data, wanted, file=FILE)
    assert found is None


RUN: Final = GCRun(
    run_id=GCRunID("r"), installation_id="i", repository="lake", unique_id="u",
    adopted_unique_ids=("v",), storage_namespace="mem://lakes/lake/", began_us=1, cutoff_us=1,
    gap_us=1, partition_open_us=1, with_uploads=True,
)  # fmt: skip
GC_FILE: Final = GCFile("staged-00000.parquet", GCFileKind.STAGED, 1, "0" * 64)
DOCUMENTS: Final[dict[str, Any]] = {
    "refs_manifest": asdict(
        DumpManifest(
            dump_id=DumpID("r"), repository="lake", unique_ids=("u",), default_branch="main",
            created_us=1, files=(DumpFile("tags-00000.parquet", RefKind.TAGS, 1, "0" * 64),),
        )
    ),
    "gc_run": asdict(RUN),
    "gc_page": asdict(GCPage(run_id=GCRunID("r"), number=0, files=(GC_FILE,), following=None)),
    "gc_manifest": {
        **asdict(GCManifest(run=RUN, ended_us=1, files=(GC_FILE,))),
        "run_id": "r",
    },
    "gc_state": asdict(
        GCState(
            run_id=GCRunID("r"), repository_uids=("u",), began_us=1, closed_before_us=1,
            objects_closed=1, objects_open=1, commits=(GC_FILE,),
            files=(GCResultFile("objects-0.parquet", GCResultKind.OBJECTS, 1, 1, "0" * 64),),
        )
    ),
}  # fmt: skip


@st.composite
def changed_documents(draw: st.DrawFn) -> tuple[str, bytes]:
    """Documents in which something is missing, of another type or in the wrong place."""
    type_name = draw(st.sampled_from(sorted(DOCUMENTS)))
    content = json.loads(json.dumps(DOCUMENTS[type_name]))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.sampled_from(_places(content)))
        name = draw(st.sampled_from([*place, "other"]))
        if draw(st.booleans()):
            place.pop(name, None)
        else:
            place[name] = draw(json_values)
    # Whoever writes a file can give it a digest that fits.
    data = encode_document(type_name, content)
    return type_name, draw(damaged(st.just(data), [b"{", b"[" * 2000, b'"', b"\xff", b""]))


def _places(content: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [each for value in content.values() if isinstance(value, list) for each in value]
    inner += [value for value in content.values() if isinstance(value, dict)]
    return [content, *(each for each in inner if isinstance(each, dict))]


@targets.add(changed_documents())
def json_files(case: tuple[str, bytes]) -> None:
    """A document is refused, or has all that it must have, of the right types."""
    type_name, data = case
    attempt(FormatError, decode_document, data, type_name, file=FILE)
    attempt(FormatError, decode_manifest, data, DumpID("r"), file=FILE)
    attempt(FormatError, decode_gc_record, GCRun, data, GCRunID("r"), file=FILE)
    attempt(FormatError, decode_gc_record, GCPage, data, GCRunID("r"), file=FILE)
    attempt(FormatError, decode_gc_record, GCManifest, data, GCRunID("r"), file=FILE)
    state = attempt(FormatError, decode_state, data, file=FILE)
    if state is not None:
        assert state.objects == state.objects_closed + state.objects_open


OWNER: Final = encode_owner(Owner("i", "lake", "u"))


@targets.add(
    damaged(st.just(OWNER), [b"{", b"[" * 2000, b"null", b"1", b'"', b"\xff", b"\\ud800", b""])
    | json_values.map(
        lambda value: json.dumps({"type": "lakebed owner", "version": value}).encode()
    )
)
def owner_files(data: bytes) -> None:
    owner = attempt(FormatError, decode_owner, data, file=FILE)
    if owner is not None:
        assert decode_owner(encode_owner(owner), file=FILE) == owner
