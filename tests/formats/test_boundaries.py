"""Where ranges end."""

from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.committed import Breaks
from lakebed.formats import MetaRange
from lakebed.formats.boundaries import Cutter, key_hash, key_hashes, ref_of, row_bytes
from tests.engine.committed.kit import SMALL, committed, entries, entry, rows
from tests.engine.committed.reference import Entries


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


def test_the_hash_never_changes() -> None:
    # Another hash would cut all repositories anew.
    keys = [b"a", b"abcdefg", b"abcdefgh", b"abcdefghi", b"data/part-0001.parquet"]
    assert key_hashes(binary(keys)).tolist() == [
        0x93735A1F05BE744F,
        0xBDDA5B197EF44EEE,
        0x015744722CF7DA7D,
        0xA4AE59910DC0AC02,
        0x7FFE25A62098B32E,
    ]


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 30))
def test_the_hash_depends_on_the_key_alone(keys: list[bytes], first: int) -> None:
    together = key_hashes(binary(keys)).tolist()
    assert together == [key_hashes(binary([key]))[0] for key in keys]
    assert together[first:] == key_hashes(binary(keys)[first:]).tolist()
    assert together == [key_hash(key) for key in keys]


def test_the_hash_covers_every_byte_and_the_length() -> None:
    key = bytes(range(1, 42))
    others = [key[:place] + b"\x00" + key[place + 1 :] for place in range(len(key))]
    others += [key[:length] for length in range(len(key))] + [key + b"\x00", key + b"\x00\x00"]
    assert len(set(key_hashes(binary([key, *others])).tolist())) == 1 + len(others)


@pytest.mark.parametrize(
    "pattern", [b"%08d", b"%d", b"year=2026/part-%d-same-long-ending.parquet", b"%d" + b"/" * 30]
)
def test_regular_keys_are_cut_evenly(pattern: bytes) -> None:
    keys = binary([pattern % number for number in range(200_000)])
    breaking = np.flatnonzero(key_hashes(keys) <= np.uint64((1 << 64) // 100 - 1))
    # 2,000 on average; five standard deviations to either side.
    assert 1780 < len(breaking) < 2220
    assert np.diff(breaking).max() < 2000


def test_the_size_of_a_row_is_that_of_its_values() -> None:
    wide = entry(b"key", 3)
    text = wide.address + wide.checksum + wide.content_type
    text += "".join(key + value for key, value in wide.metadata.items())
    size = len(text) + len(wide.key) + len(wide.identity) + 8 + 8 + 1
    narrow = rows({b"a": entry(b"a", 0), b"key": wide, b"z": entry(b"z", 1)})
    assert row_bytes(narrow)[1] == size
    assert row_bytes(narrow.slice(1, 1)).tolist() == [size]


def written(model: Entries, breaks: Breaks) -> tuple[MetaRange, list[list[int]]]:
    """Return the metarange of entries, and the row sizes of each range."""
    store = committed(breaks)
    metarange = store._files.metarange(store.write([rows(model)]))
    tables = [store._files.range(ref.range_id).table for ref in metarange.refs]
    return metarange, [row_bytes(table).tolist() for table in tables]


@given(entries())
def test_ranges_end_where_the_rules_say(model: Entries) -> None:
    metarange, sizes = written(model, SMALL)
    store_keys = sorted(model)
    hashes = key_hashes(binary(store_keys)).tolist()
    limit = (1 << 64) // SMALL.mean_rows
    breaking = {key for key, number in zip(store_keys, hashes, strict=True) if number < limit}
    place = 0
    for number, (ref, row_sizes) in enumerate(zip(metarange.refs, sizes, strict=True)):
        keys = store_keys[place : place + ref.count]
        place += ref.count
        assert (ref.min_key, ref.max_key, ref.size_bytes) == (keys[0], keys[-1], sum(row_sizes))
        full = [
            rows_so_far >= SMALL.max_rows or size >= SMALL.max_bytes or key in breaking
            for rows_so_far, (size, key) in enumerate(
                zip(accumulate(row_sizes), keys, strict=True), start=1
            )
        ]
        assert not any(full[:-1])
        assert full[-1] == SMALL.is_closed(ref)
        assert full[-1] or number == len(metarange.refs) - 1
    assert place == len(model)


@given(entries().filter(bool), st.data())
def test_who_names_the_keys_that_may_end_a_range_gets_the_same_ranges(
    model: Entries, data: st.DataObject
) -> None:
    table = rows(model).combine_chunks()
    sizes = row_bytes(table).tolist()
    begin = data.draw(st.integers(0, len(sizes) - 1))
    breaks = Breaks(
        mean_rows=data.draw(st.sampled_from([3, 10**9])),
        max_rows=data.draw(st.sampled_from([2, 5, 10**9])),
        # Also such that some rows reach it to the byte.
        max_bytes=data.draw(st.sampled_from([*accumulate(sizes[begin:]), 10**9])),
    )
    expected = cut(breaks, [(table, None)])
    places = st.lists(st.integers(0, table.num_rows), max_size=3)
    bounds = sorted({0, table.num_rows, *data.draw(places)})
    pieces = [table.slice(first, last - first) for first, last in pairwise(bounds)]
    ending = [key for key in model if breaks.is_ending(key)]
    others = data.draw(st.sets(st.sampled_from(sorted(model)), max_size=3))
    candidates = sorted({*ending, *others})
    assert cut(breaks, [(piece, candidates) for piece in pieces]) == expected


@pytest.mark.parametrize("max_rows", [5, 10**9])
@pytest.mark.parametrize("max_bytes", [400, 794, 832, 10**9])
def test_a_range_that_is_opened_again_is_cut_as_all_its_rows_are(
    max_rows: int, max_bytes: int
) -> None:
    table = rows({b"%02d" % n: entry(b"%02d" % n, n % 4) for n in range(9)}).combine_chunks()
    breaks = Breaks(10**9, max_rows, max_bytes)
    first, second = table.slice(0, 2), table.slice(2)
    assert not breaks.is_closed(ref_of(first))
    last = first["key"][-1].as_py()
    assert cut(breaks, [(first, [last]), (second, None)]) == cut(breaks, [(table, None)])


def cut(breaks: Breaks, pieces: list[tuple[pa.Table, list[bytes] | None]]) -> list[pa.Table]:
    cutter = Cutter(breaks)
    found = [closed for rows, candidates in pieces for closed in cutter.add(rows, candidates)]
    if cutter.is_open:
        found.append(cutter.close())
    return [each.combine_chunks() for each in found]


@pytest.mark.parametrize("breaks", [Breaks(10**9, 7, 10**9), Breaks(10**9, 10**9, 2000)])
def test_no_range_exceeds_the_hard_limits(breaks: Breaks) -> None:
    model = {b"%04d" % n: entry(b"%04d" % n, n % 4) for n in range(300)}
    metarange, sizes = written(model, breaks)
    assert len(sizes) > 10
    for ref, row_sizes in zip(metarange.refs, sizes, strict=True):
        assert ref.count <= breaks.max_rows
        assert ref.size_bytes < breaks.max_bytes + max(row_sizes)


def test_a_mean_of_one_ends_a_range_with_every_row() -> None:
    model = {b"%d" % n: entry(b"%d" % n, 0) for n in range(9)}
    metarange, _ = written(model, Breaks(mean_rows=1))
    assert [ref.count for ref in metarange.refs] == [1] * 9
