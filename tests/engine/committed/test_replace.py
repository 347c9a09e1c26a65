"""Intervals replaced by those of another metarange; ingests resume where they were interrupted."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.committed_data import numbered_entries
from lakebed.block import MemorySettings, open_block
from lakebed.engine.committed import Breaks, Cache, Committed, Interval
from lakebed.engine.errors import Invalid
from tests.engine.committed.kit import (
    HOME,
    KEYS,
    RUNTIME,
    committed,
    content,
    entries,
    keys,
    rows,
    some_breaks,
    split,
)
from tests.engine.committed.reference import Entries


def some_intervals() -> st.SearchStrategy[list[Interval]]:
    """Intervals of prefixes, of single keys, and between any two keys; in order."""
    drawn = st.one_of(
        keys.map(Interval.of_prefix),
        keys.map(Interval.of_key),
        st.just(Interval(b"", None)),
        st.tuples(keys, keys).filter(lambda two: two[0] < two[1]).map(lambda two: Interval(*two)),
    )

    def apart(found: list[Interval]) -> list[Interval]:
        kept: list[Interval] = []
        for each in found:
            if not any(each.overlaps(other) for other in kept):
                kept.append(each)
        return sorted(kept, key=lambda each: each.start)

    return st.lists(drawn, max_size=4).map(apart)


@pytest.mark.slow
@given(base=entries(), new=entries(), intervals=some_intervals(), breaks=some_breaks)
def test_the_result_is_that_of_plain_dicts(
    base: Entries, new: Entries, intervals: list[Interval], breaks: Breaks
) -> None:
    def is_inside(key: bytes) -> bool:
        return any(each.start <= key and (each.end is None or key < each.end) for each in intervals)

    expected = {key: entry for key, entry in base.items() if not is_inside(key)}
    expected |= {key: entry for key, entry in new.items() if is_inside(key)}
    store = committed(breaks)
    replaced = store.replace(store.write([rows(base)]), store.write([rows(new)]), intervals)
    assert content(store, replaced) == expected
    # Ranges are a function of the rows, whatever their history.
    assert replaced == committed(breaks).write([rows(expected)])


@given(
    all_entries=entries(),
    breaks=some_breaks,
    places=st.lists(st.integers(0, len(KEYS)), max_size=6),
)
def test_an_ingest_goes_on_where_it_was_cut_off(
    all_entries: Entries, breaks: Breaks, places: list[int]
) -> None:
    store = committed(breaks)
    so_far = None
    table = rows(all_entries)
    for batch in split(table, places):
        # A new process each time, which knows only the saved progress.
        ingest = store.ingest(so_far)
        behind = pa.compute.greater(table["key"], pa.scalar(ingest.last_key, pa.binary()))
        upto = table["key"].to_pylist().index(batch["key"][-1].as_py()) + 1 if batch else 0
        ingest.add(table.slice(0, upto).filter(behind.slice(0, upto)))
        so_far = ingest.save().metarange_id
    ingest = store.ingest(so_far)
    behind = pa.compute.greater(table["key"], pa.scalar(ingest.last_key, pa.binary()))
    ingest.add(table.filter(behind))
    assert ingest.count == table.num_rows
    assert ingest.finish() == committed(breaks).write([table])


def test_intervals_that_overlap_are_refused() -> None:
    store = committed()
    empty = store.write([])
    intervals = [Interval.of_prefix(b"a/"), Interval.of_key(b"a/b")]
    with pytest.raises(Invalid, match="overlap"):
        store.replace(empty, empty, intervals)
    with pytest.raises(Invalid, match="unsorted"):
        store.replace(empty, empty, [Interval.of_key(b"b"), Interval.of_key(b"a")])


def test_one_key_is_not_its_neighbours() -> None:
    names = [b"a/file1", b"a/file1\x00", b"a/file10", b"a/file2"]
    interval = Interval.of_key(names[0])
    assert [name in interval for name in names] == [True, False, False, False]
    for one, other in pairwise(names):
        assert not Interval.of_key(one).overlaps(Interval.of_key(other))


@pytest.mark.slow
def test_replacing_a_tenth_of_a_million_costs_its_ranges_and_two() -> None:
    block = open_block(MemorySettings())

    def reopened() -> Committed:
        return Committed(block, HOME, RUNTIME, cache=Cache(RUNTIME))

    base = reopened().write([numbered_entries(pa.array(np.arange(1_000_000)))])
    first, last = 400_000, 500_000
    new = numbered_entries(pa.array(np.arange(first, last)), version=1)
    interval = Interval(new["key"][0].as_py(), new["key"][-1].as_py() + b"\x00")
    refs = reopened()._files.metarange(base).refs
    inside = [
        ref for ref in refs if ref.max_key >= interval.start and ref.min_key < (interval.end or b"")
    ]
    store = reopened()
    replaced = store.replace(base, store.write([new]), [interval])
    assert store.counters.ranges_read <= len(inside) + 2
    assert store.counters.ranges_written <= len(inside) + 2
    expected = numbered_entries(pa.array(np.arange(1_000_000)))
    whole = pa.concat_tables([expected.slice(0, first), new, expected.slice(last)])
    assert replaced == reopened().write([whole])
