"""The column-wise code against the plain reference, on tens of thousands of entries."""

import random
from collections.abc import Iterable

import pyarrow as pa
import pytest

from lakebed.engine.committed import Breaks, CommonPrefix, EntryQuery, Strategy
from lakebed.engine.errors import MergeConflict
from lakebed.formats import Entry, entries_of
from tests.engine.committed import reference
from tests.engine.committed.kit import change_rows, committed, content, entry, rows
from tests.engine.committed.reference import Changes, Entries
from tests.kit.rounds import rounds

COUNT = rounds(25_000, long=100_000)
CHANGES = COUNT * 6 // 100
BREAKS = Breaks(mean_rows=COUNT // 33, max_rows=COUNT // 8, max_bytes=20 * COUNT)


def random_key(chance: random.Random) -> bytes:
    return b"d%d/%d/%06d" % (chance.randrange(9), chance.randrange(300), chance.randrange(10**6))


def random_entries(chance: random.Random, count: int) -> Entries:
    keys = {random_key(chance) for _ in range(count)}
    return {key: entry(key, chance.randrange(48)) for key in keys}


def random_changes(chance: random.Random, base: Entries, count: int) -> Changes:
    """Change a part of the keys everywhere, and all of a stretch; add as many."""
    keys = sorted(base)
    begin = chance.randrange(len(keys))
    chosen = chance.sample(keys, count // 3) + keys[begin : begin + count // 3]
    chosen += [random_key(chance) for _ in range(count // 3)]
    return {
        key: entry(key, chance.randrange(48)) if chance.random() < 0.6 else None for key in chosen
    }


def listed(tables: Iterable[pa.Table]) -> list[tuple[int, Entry]]:
    return [
        (change, found)
        for table in tables
        for change, found in zip(table["change"].to_pylist(), entries_of(table), strict=True)
    ]


@pytest.mark.parametrize("seed", range(rounds(1, long=10)))
@pytest.mark.slow
def test_parity(seed: int) -> None:
    chance = random.Random(seed)
    base = random_entries(chance, COUNT)
    theirs, ours = (random_changes(chance, base, CHANGES) for _ in range(2))
    source, source_summary = reference.apply(base, theirs)
    destination, _ = reference.apply(base, ours)

    store = committed(BREAKS)
    base_id = store.write([rows(base)])
    applied = store.apply(base_id, [change_rows(theirs)])
    source_id = applied.metarange_id
    destination_id = store.apply(base_id, [change_rows(ours)]).metarange_id
    assert applied.summary == source_summary
    assert content(store, source_id) == source
    assert source_id == store.write([rows(source)])

    assert listed(store.diff(base_id, source_id)) == reference.diff(base, source)
    assert listed(store.diff(source_id, destination_id)) == reference.diff(source, destination)

    for strategy in Strategy:
        wanted = reference.merge(base, source, destination, strategy)
        merged = store.merge(base_id, source_id, destination_id, strategy=strategy)
        assert merged == store.write([rows(wanted.entries)])
    with pytest.raises(MergeConflict) as caught:
        store.merge(base_id, source_id, destination_id)
    wanted_keys = [key for key, _, _ in wanted.conflicts]
    assert caught.value.conflicts["key"].to_pylist() == wanted_keys

    for key in chance.sample(sorted(source), 200):
        assert store.get(source_id, key) == source[key]
    for prefix, delimiter in ((b"", b"/"), (b"d3/", b"/"), (b"d", b"/"), (b"d5/1", b"")):
        wanted_items = reference.fold(list(source), prefix, b"", delimiter)
        items: list[tuple[str, bytes]] = []
        has_more = True
        while has_more:
            after = items[-1][1] if items else b""
            query = EntryQuery(prefix=prefix, after=after, delimiter=delimiter, amount=100)
            page = store.list(source_id, query)
            items += [
                ("prefix" if isinstance(item, CommonPrefix) else "entry", item.key)
                for item in page.items
            ]
            has_more = page.has_more
        assert items == wanted_items
