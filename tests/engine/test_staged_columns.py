"""Staged values as columns: equal to the general parser's result, or left to it."""

import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.committed.batches import change_windows
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.staging.cells import TOMBSTONE, encode
from lakebed.engine.staging.columns import parse_columns
from lakebed.engine.staging.scan import _parse_one_by_one, changes_table, staged_edits
from lakebed.formats import AddressType, Entry
from lakebed.kv import CorruptRecord, Item
from lakebed.kv.store import Version

TIMES = st.datetimes(timezones=st.just(UTC))
ENTRIES = st.builds(
    Entry,
    key=st.just(b""),
    identity=st.binary(min_size=1, max_size=200),
    address=st.text(max_size=200),
    address_type=st.sampled_from(AddressType),
    size=st.integers(0, 2**63 - 1),
    checksum=st.text(max_size=40),
    mtime=TIMES,
    content_type=st.text(max_size=20),
    metadata=st.dictionaries(st.text(max_size=5), st.text(max_size=150), max_size=4),
)
VALUES = st.one_of(
    st.just(TOMBSTONE),
    st.builds(lambda entry, old: encode(entry, replaced_address=old), ENTRIES, st.text(max_size=9)),
)


ENTRY = Entry(
    key=b"",
    identity=b"1",
    address="QQ",
    address_type=AddressType.FULL,
    size=1,
    checksum="",
    mtime=datetime(2026, 1, 1, tzinfo=UTC),
    content_type="",
    metadata={},
)


def page_of(values: list[bytes]) -> list[Item]:
    return [
        Item(STAGED_PREFIX + b"%04d" % number, value, Version(bytes(16)))
        for number, value in enumerate(values)
    ]


def columns_of(values: list[bytes]) -> pa.Table | None:
    keys = [item.key for item in page_of(values)]
    return parse_columns(keys, values, prefix_bytes=len(STAGED_PREFIX))


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """The pairs of metadata may come in another order: the committed form sorts them."""
    names = [name for name in expected.column_names if name != "metadata"]
    assert found.select(names).equals(expected.select(names))
    for ours, theirs in zip(found["metadata"], expected["metadata"], strict=True):
        assert dict(ours.as_py()) == dict(theirs.as_py())


@given(st.lists(VALUES, max_size=20))
def test_columns_are_what_the_general_parser_makes(values: list[bytes]) -> None:
    found = columns_of(values)
    assert found is not None
    found.validate(full=True)
    assert_same(found, _parse_one_by_one(page_of(values)))


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_a_few_values_become_the_edits_that_their_columns_do(values: list[bytes]) -> None:
    page = page_of(values)
    found = staged_edits([(item.key, item.value) for item in page])
    (expected,) = change_windows([_parse_one_by_one(page)])
    assert found.puts.equals(expected.puts)
    assert found.removals.equals(expected.removals)


@given(st.lists(VALUES, min_size=1, max_size=8), st.data())
def test_damaged_values_are_left_to_the_general_parser_or_read_alike(
    values: list[bytes], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    damaged = bytearray(values[place] + data.draw(st.binary(max_size=3)))
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    values[place] = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    found = columns_of(values)
    if found is not None:
        # Values read as columns can also be read by the general parser.
        assert_same(found, _parse_one_by_one(page_of(values)))


def test_numbers_of_every_length_are_read() -> None:
    """Also with numbers of all lengths in a page, and with few long ones."""
    edges = [2 ** (7 * count) + more for count in range(1, 9) for more in (-1, 0)]
    sizes = [0, 1, *edges, 2**63 - 1]
    times = [datetime(year, 1, 1, tzinfo=UTC) for year in (1, 1969, 1970, 2026, 9999)]
    values = [encode(replace(ENTRY, size=size, mtime=moment)) for size in sizes for moment in times]
    for page in (values, values[:10], values[10:]):
        found = columns_of(page)
        assert found is not None
        assert_same(found, _parse_one_by_one(page_of(page)))


def test_keys_of_all_lengths_lose_their_prefix() -> None:
    keys = [b"", b"a", b"a" * 1000, b"\x00\xff"]
    found = parse_columns([b"xy" + key for key in keys], [TOMBSTONE] * 4, prefix_bytes=2)
    assert found is not None
    assert found["key"].to_pylist() == keys


def test_a_value_that_cannot_be_read_is_named() -> None:
    values = [TOMBSTONE] * 100 + [b"\x0a\xff"]
    with pytest.raises(CorruptRecord, match="0100"):
        changes_table(page_of(values))
    no_text = encode(ENTRY).replace(b"QQ", b"\xff\xff")
    with pytest.raises(CorruptRecord, match="0100"):
        changes_table(page_of([TOMBSTONE] * 100 + [no_text]))


@pytest.mark.slow
def test_many_short_texts_beside_a_long_one_take_no_more_memory_than_they_need() -> None:
    pairs = {f"name{number}": "v" for number in range(63)}
    entry = Entry(
        key=b"",
        identity=b"1",
        address="a",
        address_type=AddressType.RELATIVE,
        size=1,
        checksum="",
        mtime=datetime(2026, 1, 1, tzinfo=UTC),
        content_type="",
        metadata={**pairs, "long": "x" * 500},
    )
    values = [encode(entry)] * 2000
    tracemalloc.start()
    try:
        found = columns_of(values)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None
    assert dict(found["metadata"][1999].as_py()) == entry.metadata
    assert most < 15 * sum(map(len, values))
