"""The rows of lakeFS's tables: the same by columns as message by message."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.errors import DamagedTable
from lakebed.clients.migrate.values import SourceRange, read_entries, read_messages, read_ranges
from lakebed.formats import AddressType, Entry, entries_of
from tests.kit.lakefs_tables import table, value

NAMESPACE = "s3://old/lake"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
STAMPS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001


@st.composite
def messages(draw: st.DrawFn) -> pb.Entry:
    entry = pb.Entry(
        address=draw(TEXTS),
        size=draw(st.integers(0, 2**62)),
        e_tag=draw(TEXTS),
        metadata=draw(st.dictionaries(TEXTS, TEXTS, max_size=3)),
        address_type=draw(st.sampled_from([pb.BY_PREFIX, pb.RELATIVE, pb.FULL])),
        content_type=draw(TEXTS),
    )
    entry.last_modified.FromDatetime(draw(STAMPS))
    return entry


ROWS = st.dictionaries(st.binary(max_size=40), st.tuples(st.binary(max_size=40), messages()))


def file_of(rows: dict[bytes, tuple[bytes, pb.Entry]]) -> bytes:
    listed = [
        (key, value(identity, message.SerializeToString(deterministic=True)))
        for key, (identity, message) in sorted(rows.items())
    ]
    return table(listed, rows_per_block=3)


def expected(key: bytes, identity: bytes, message: pb.Entry) -> Entry:
    """Message by message, as the description of the format says."""
    stamp = message.last_modified
    relative = message.address_type == pb.RELATIVE or (
        message.address_type == pb.BY_PREFIX and "://" not in message.address
    )
    return Entry(
        key=key,
        identity=identity,
        address=f"{NAMESPACE}/{message.address}" if relative else message.address,
        address_type=AddressType.FULL,
        size=message.size,
        checksum=message.e_tag,
        mtime=datetime(1970, 1, 1, tzinfo=UTC)
        + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000),
        content_type=message.content_type,
        metadata=dict(sorted(message.metadata.items())),
    )


@given(rows=ROWS)
def test_columns_hold_what_messages_say(rows: dict[bytes, tuple[bytes, pb.Entry]]) -> None:
    read = list(read_entries(file_of(rows), "r", NAMESPACE))
    found = [entry for part in read for entry in entries_of(part)]
    assert found == [expected(key, *row) for key, row in sorted(rows.items())]
    for part in read:
        part.validate(full=True)


@given(data=st.binary(max_size=80))
def test_values_of_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(DamagedTable):
        for part in read_entries(table([(b"k", data)]), "r", NAMESPACE):
            part.validate(full=True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02",
        b"\x40" + b"i" * 10,
        value(b"id", b"\x0a\x7f"),
        value(b"id", b"\x0b"),
        value(b"id", b"\x08" + b"\xff" * 11),
        value(b"id", b"") + b"more",
        value(b"id", b"\x0a\x02\xff\xfe"),
    ],
)
def test_a_damaged_value_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedTable, match="unreadable row"):
        list(read_entries(table([(b"k", data)]), "r", NAMESPACE))


def test_the_ranges_of_a_metarange() -> None:
    rows = [
        (b"m", value(b"r1", pb.RangeData(min_key=b"a", max_key=b"m", count=5).SerializeToString())),
        (b"z", value(b"r2", pb.RangeData(max_key=b"z", count=1).SerializeToString())),
    ]
    assert read_ranges(table(rows), "m") == [
        SourceRange("r1", b"a", b"m", 5),
        SourceRange("r2", b"z", b"z", 1),
    ]


def test_the_branches_of_a_dump() -> None:
    branch = pb.BranchData(id="main", commit_id="c1", sealed_tokens=["s"])
    rows = [(b"main", value(b"", branch.SerializeToString()))]
    assert list(read_messages(table(rows), "b", pb.BranchData)) == [branch]


def test_an_empty_range_has_no_entries() -> None:
    assert list(read_entries(table([]), "r", NAMESPACE)) == []
    assert (
        pa.concat_tables(read_entries(file_of({b"k": (b"", pb.Entry())}), "r", "x")).num_rows == 1
    )
