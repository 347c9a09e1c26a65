"""Costs of operations, counted in ranges read and written."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.committed_data import as_puts, numbered_entries
from lakebed.block import Address, BlockStore, MemorySettings, open_block
from lakebed.engine.committed import Breaks, Cache, Committed, CommonPrefix, EntryQuery, Strategy
from lakebed.engine.committed import store as committed_store
from lakebed.engine.committed.listing import DiffBlocks
from lakebed.engine.committed.versions import EntryVersion
from lakebed.engine.committed.walk import diff_steps
from lakebed.formats import CHANGE_SCHEMA, MetaRangeID, metarange_path
from tests.engine.committed.kit import HOME, RUNTIME, change_rows, committed, entry, rows


def reopened(block: BlockStore, breaks: Breaks | None = None) -> Committed:
    """Return committed metadata with an empty cache and counters at zero."""
    return Committed(block, HOME, RUNTIME, cache=Cache(RUNTIME), breaks=breaks)


@pytest.mark.slow
def test_a_change_of_a_million_entries_costs_what_it_touches() -> None:
    block = open_block(MemorySettings())
    entries = numbered_entries(pa.array(np.arange(1_000_000)))
    base = reopened(block).write([entries])

    # A thousand changes in one directory: 600 other contents, 200 removals, 200 new files.
    first = 500_000
    others = numbered_entries(pa.array(np.arange(first, first + 1000)), version=1)
    number = np.arange(1000)
    new_keys = pc.binary_join_element_wise(others["key"], pa.scalar(b"-new"), b"")
    keys = pc.if_else(pa.array(number % 5 == 1), new_keys, others["key"])
    changes = as_puts(others.set_column(0, CHANGE_SCHEMA.field("key"), keys))
    gone = pa.array(number % 5 == 0)
    changes = changes.set_column(9, CHANGE_SCHEMA.field("tombstone"), gone)

    store = reopened(block)
    applied = store.apply(base, [changes])
    summary = applied.summary
    assert (summary.added, summary.changed, summary.removed) == (200, 600, 200)
    assert 1 <= store.counters.ranges_read <= 3
    assert 1 <= store.counters.ranges_written <= 3

    store = reopened(block)
    diff = pa.concat_tables(store.diff(base, applied.metarange_id))
    assert diff.num_rows == 1000
    assert store.counters.ranges_read <= 2 * applied_ranges(block, base, applied.metarange_id)

    # One file of one range: two reads.
    one = as_puts(others.slice(700, 1))
    second = reopened(block).apply(base, [one])
    store = reopened(block)
    assert sum(table.num_rows for table in store.diff(base, second.metarange_id)) == 1
    assert store.counters.ranges_read == 2

    # Other directories changed on two sides: no range is read, unless both changed it.
    far = as_puts(numbered_entries(pa.array(np.arange(900_000, 900_100)), version=1))
    third = reopened(block).apply(base, [far])
    store = reopened(block)
    merged = store.merge(base, second.metarange_id, third.metarange_id)
    assert (store.counters.ranges_read, store.counters.ranges_written) == (0, 0)
    both = reopened(block).apply(second.metarange_id, [far])
    assert merged == both.metarange_id


def applied_ranges(block: BlockStore, base: MetaRangeID, result: MetaRangeID) -> int:
    """Return the number of differing ranges of two metaranges, on the side with more."""
    files = reopened(block)._files
    one, other = ({ref.range_id for ref in files.metarange(each).refs} for each in (base, result))
    return max(len(one - other), len(other - one))


def test_equal_metaranges_cost_nothing() -> None:
    store = committed()
    model = {b"%d" % n: entry(b"%d" % n, n % 8) for n in range(100)}
    metarange = store.write([rows(model)])
    written = store.counters.ranges_written
    assert list(store.diff(metarange, metarange)) == []
    assert store.merge(metarange, metarange, metarange) == metarange
    assert store.apply(metarange, []).metarange_id == metarange
    assert store.write([rows(model)]) == metarange
    assert store.counters.ranges_read == 0
    assert store.counters.ranges_written == written
    assert store.counters.metaranges_written == 1


def test_a_change_of_nothing_writes_nothing() -> None:
    store = committed()
    model = {b"%d" % n: entry(b"%d" % n, n % 8) for n in range(100)}
    metarange = store.write([rows(model)])
    written = store.counters.ranges_written
    # Kinds with the same remainder by four have the same identity, but other addresses.
    again = {key: entry(key, int(key) % 4 + 8) for key in model}
    applied = store.apply(metarange, [change_rows({**again, b"not there": None})])
    assert not applied.summary
    assert applied.metarange_id == metarange
    assert store.counters.ranges_written == written
    assert store.counters.metaranges_written == 1


def test_a_range_written_by_another_process_is_not_written_again() -> None:
    block = open_block(MemorySettings())
    model = {b"%d" % n: entry(b"%d" % n, 0) for n in range(100)}
    first, second = reopened(block), reopened(block)
    assert first.write([rows(model)]) == second.write([rows(model)])
    assert first.counters.ranges_reused == 0
    assert second.counters.ranges_written == 0
    assert second.counters.ranges_reused == first.counters.ranges_written


def test_a_range_known_to_be_there_is_not_even_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    block = open_block(MemorySettings())
    model = {b"%d" % n: entry(b"%d" % n, 0) for n in range(100)}
    store = reopened(block)
    metarange = store.write([rows(model)])
    sent: list[str] = []
    create = block.create_by_content

    def record(objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        sent.extend(address.path for address, _ in objects)
        return create(objects)

    monkeypatch.setattr(block, "create_by_content", record)
    assert store.write([rows(model)]) == metarange
    assert sent == [f"repo/{metarange_path(metarange)}"]


@pytest.mark.slow
def test_a_listing_jumps_over_common_prefixes() -> None:
    block = open_block(MemorySettings())
    keys = [b"%d/%05d" % (directory, file) for directory in range(5) for file in range(4000)]
    breaks = Breaks(mean_rows=100)
    model = {key: entry(key, 0) for key in keys}
    metarange = reopened(block, breaks).write([rows(model)])

    store = reopened(block, breaks)
    page = store.list(metarange, EntryQuery(delimiter=b"/"))
    assert page.items == [CommonPrefix(b"%d/" % directory) for directory in range(5)]
    # The first range of each directory, and perhaps the last of the one before.
    assert store.counters.ranges_read <= 10

    changed = change_rows({key: entry(key, 1) for key in keys})
    other = reopened(block, breaks).apply(metarange, [changed]).metarange_id
    store = reopened(block, breaks)
    diff_page = store.list_diff(metarange, other, EntryQuery(delimiter=b"/"))
    assert diff_page.items == page.items
    assert store.counters.ranges_read <= 20


def test_a_page_reads_no_more_than_it_shows() -> None:
    block = open_block(MemorySettings())
    model = {b"%05d" % n: entry(b"%05d" % n, 0) for n in range(5000)}
    breaks = Breaks(mean_rows=50)
    metarange = reopened(block, breaks).write([rows(model)])
    store = reopened(block, breaks)
    page = store.list(metarange, EntryQuery(after=b"02000", amount=3))
    assert [item.key if not isinstance(item, CommonPrefix) else None for item in page.items] == [
        b"02001",
        b"02002",
        b"02003",
    ]
    assert store.counters.ranges_read <= 2
    store = reopened(block, breaks)
    next(store.scan(metarange, start=b"02000"))
    assert store.counters.ranges_read == 1


def test_a_page_of_versions_reads_the_changes_around_its_keys() -> None:
    block = open_block(MemorySettings())
    breaks = Breaks(mean_rows=20, max_rows=50)
    store = reopened(block, breaks)
    keys = [b"%02d/%03d" % (folder, number) for folder in range(20) for number in range(100)]
    states = [store.write([rows({key: entry(key, 0) for key in keys})])]
    for number in range(100):
        key = keys[number * 20]
        states.insert(0, store.apply(states[0], [change_rows({key: entry(key, 1)})]).metarange_id)

    def cost(query: EntryQuery) -> tuple[int, int]:
        store = reopened(block, breaks)
        page = store.list_versions(states, query)
        return len(page.items), store.counters.ranges_read

    # Both sides of its change; the older one is still that of the first state.
    assert cost(EntryQuery(prefix=b"10/020")) == (2, 2)
    items, ranges = cost(EntryQuery(after=b"10/020", amount=5))
    assert items == 5
    assert ranges <= 10
    # Behind the first key of a common prefix, only ranges across its end are read.
    items, ranges = cost(EntryQuery(delimiter=b"/", amount=3))
    assert items == 3
    assert ranges <= 20
    # Of many changes of one range, some show that the common prefix exists.
    for number in range(100):
        digits = [number // 4**place % 4 for place in range(4)]
        change = {key: entry(key, digit) for key, digit in zip(keys[:4], digits, strict=True)}
        states.insert(0, store.apply(states[0], [change_rows(change)]).metarange_id)
    items, ranges = cost(EntryQuery(delimiter=b"/", amount=1))
    assert items == 1
    assert ranges <= 40


def test_a_suspended_comparison_holds_only_its_differences() -> None:
    # A page of versions suspends up to a thousand of them.
    keys = [b"%05d" % number for number in range(20_000)]
    large = Breaks(mean_rows=20_000, max_rows=20_000)
    store = committed(large, memory_bytes=0)
    before = store.write([rows({key: entry(key, 0) for key in keys})])
    after = store.apply(before, [change_rows({keys[7]: entry(keys[7], 1)})]).metarange_id
    files = store._files
    group = tuple(list(files.metarange(each).refs) for each in (before, after))
    allocated = pa.total_allocated_bytes()
    steps = diff_steps(files, group, b"", None)
    assert next(steps).num_rows == 1
    assert pa.total_allocated_bytes() - allocated < 100_000
    assert list(steps) == []


@pytest.mark.slow
def test_a_merge_reads_only_what_both_sides_changed() -> None:
    block = open_block(MemorySettings())
    model = {b"%05d" % n: entry(b"%05d" % n, 0) for n in range(5000)}
    breaks = Breaks(mean_rows=50)
    base = reopened(block, breaks).write([rows(model)])
    ours = {key: entry(key, 1) for key in model if key < b"02000" or key == b"04000"}
    theirs = {key: entry(key, 2) for key in model if key >= b"03000"}
    source = reopened(block, breaks).apply(base, [change_rows(theirs)]).metarange_id
    destination = reopened(block, breaks).apply(base, [change_rows(ours)]).metarange_id
    store = reopened(block, breaks)
    merged = store.merge(base, source, destination, strategy=Strategy.DEST_WINS)
    # The one range that both changed, of each of the three.
    assert store.counters.ranges_read == 3
    assert store.counters.ranges_written == 1
    assert store.get(merged, b"04000") == ours[b"04000"]
    assert store.get(merged, b"04001") == theirs[b"04001"]
    assert store.get(merged, b"00001") == ours[b"00001"]


def test_a_page_of_versions_keeps_few_rows_of_each_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = open_block(MemorySettings())
    breaks = Breaks(mean_rows=400, max_rows=1000)
    writer = reopened(block, breaks)
    keys = [b"%04d" % number for number in range(1000)]
    states = [
        writer.write([rows({key: entry(key, 4 - number) for key in keys})]) for number in range(4)
    ]

    def pages(amount: int) -> list[bytes]:
        found: list[bytes] = []
        place, resume = b"", None
        while True:
            query = EntryQuery(after=place, amount=amount)
            page = reopened(block, breaks).list_versions(states, query, resume_at=resume)
            found += [
                each.change.entry.key for each in page.items if isinstance(each, EntryVersion)
            ]
            if not page.has_more:
                return found
            last = page.items[-1]
            assert isinstance(last, EntryVersion)
            place, resume = last.change.entry.key, last.state + 1

    expected = sorted([*keys] * 4)
    assert pages(1000) == expected
    monkeypatch.setattr(committed_store, "VERSION_ROWS_MAX", 7)
    assert pages(301) == expected
    cut = DiffBlocks(
        writer._files,
        writer._files.metarange(states[0]),
        writer._files.metarange(states[1]),
        b"",
        rows_max=7,
    )
    found = cut.seek(b"0500")
    assert found is not None
    assert [found.keys[0], found.keys[-1], len(found.keys)] == [b"0500", b"0506", 7]
    again = cut.seek(b"0507")
    assert again is not None
    assert again.keys[0] == b"0507"


def test_a_page_of_versions_covers_fewer_states_of_many_ranges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = reopened(open_block(MemorySettings()), Breaks(mean_rows=20, max_rows=50))
    states = [store.write([rows({b"key": entry(b"key", number)})]) for number in range(40)]
    monkeypatch.setattr(committed_store, "VERSION_RANGES_MAX", 20)
    page = store.list_versions(states, EntryQuery())
    assert len(page.items) == 32
