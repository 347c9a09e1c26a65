"""All operations of committed metadata, against plain dicts."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.committed import Breaks, CommonPrefix, DiffEntry, EntryQuery, Strategy, batches
from lakebed.engine.committed.batches import WINDOW_ROWS
from lakebed.engine.errors import EntryNotFound, MergeConflict
from lakebed.formats import Entry, entries_of
from tests.engine.committed import reference
from tests.engine.committed.kit import (
    change_rows,
    changes,
    committed,
    content,
    entries,
    keys,
    rows,
    some_breaks,
    split,
)
from tests.engine.committed.reference import Changes, Entries

places = st.lists(st.integers(0, 100), max_size=3)
some_prefix = st.one_of(st.just(b""), keys)
delimiters = st.sampled_from([b"", b"/", b"a/", b"\xff"])


@given(entries(), places, st.sampled_from([1, 5, WINDOW_ROWS]), some_breaks)
def test_what_was_written_is_read(
    model: Entries, cuts: list[int], window_rows: int, breaks: Breaks
) -> None:
    store = committed(breaks)
    with patch.object(batches, "WINDOW_ROWS", window_rows):
        metarange = store.write(split(rows(model), cuts))
    assert metarange == store.write([rows(model)])
    assert content(store, metarange) == model
    for key, entry in model.items():
        assert store.get(metarange, key) == entry


@given(entries(), keys)
def test_a_key_that_is_not_there(model: Entries, key: bytes) -> None:
    model.pop(key, None)
    store = committed()
    with pytest.raises(EntryNotFound):
        store.get(store.write([rows(model)]), key)


@given(entries(), some_prefix, some_prefix)
def test_scan(model: Entries, start: bytes, prefix: bytes) -> None:
    store = committed()
    tables = list(store.scan(store.write([rows(model)]), start=start, prefix=prefix))
    assert all(table.num_rows for table in tables)
    found = [entry for table in tables for entry in entries_of(table)]
    wanted = [key for key in sorted(model) if key >= start and key.startswith(prefix)]
    assert found == [model[key] for key in wanted]


@pytest.mark.slow
@given(
    entries(),
    st.lists(changes(), max_size=4),
    places,
    st.sampled_from([1, 5, WINDOW_ROWS]),
    some_breaks,
)
def test_apply_and_history_independence(
    model: Entries, history: list[Changes], cuts: list[int], window_rows: int, breaks: Breaks
) -> None:
    store = committed(breaks)
    metarange = store.write([rows(model)])
    with patch.object(batches, "WINDOW_ROWS", window_rows):
        for edits in history:
            base, base_id = model, metarange
            model, summary = reference.apply(base, edits)
            applied = store.apply(base_id, split(change_rows(edits), cuts))
            metarange = applied.metarange_id
            assert applied.summary == summary
            assert bool(applied.summary) == (metarange != base_id)
        assert content(store, metarange) == model
    assert committed(breaks).write([rows(model)]) == metarange


@given(entries(), changes(), some_prefix, some_prefix)
def test_diff(left: Entries, edits: Changes, start: bytes, prefix: bytes) -> None:
    right, _ = reference.apply(left, edits)
    store = committed()
    left_id, right_id = store.write([rows(left)]), store.write([rows(right)])
    tables = list(store.diff(left_id, right_id, start=start, prefix=prefix))
    assert all(table.num_rows for table in tables)
    found = [
        (change, entry)
        for table in tables
        for change, entry in zip(table["change"].to_pylist(), entries_of(table), strict=True)
    ]
    assert found == [
        (change, entry)
        for change, entry in reference.diff(left, right)
        if entry.key >= start and entry.key.startswith(prefix)
    ]


@pytest.mark.slow
@given(entries(), entries())
def test_diff_of_strangers(left: Entries, right: Entries) -> None:
    store = committed()
    tables = store.diff(store.write([rows(left)]), store.write([rows(right)]))
    found = [entry for table in tables for entry in entries_of(table)]
    assert found == [entry for _, entry in reference.diff(left, right)]


@pytest.mark.slow
@given(entries(), changes(), changes(), st.sampled_from([None, *Strategy]), some_breaks)
def test_merge(
    base: Entries, theirs: Changes, ours: Changes, strategy: Strategy | None, breaks: Breaks
) -> None:
    source, _ = reference.apply(base, theirs)
    destination, _ = reference.apply(base, ours)
    store = committed(breaks)
    ids = [store.write([rows(side)]) for side in (base, source, destination)]
    wanted = reference.merge(base, source, destination, strategy)
    contested = reference.merge(base, source, destination, None).conflicts
    written = store.counters.ranges_written
    assert store.count_conflicts(*ids) == len(contested)
    assert store.counters.ranges_written == written
    if wanted.conflicts and strategy is None:
        with pytest.raises(MergeConflict) as caught:
            store.merge(*ids, strategy=strategy)
        columns = caught.value.conflicts.columns
        found = list(zip(*(column.to_pylist() for column in columns), strict=True))
        assert found == wanted.conflicts
    else:
        merged = store.merge(*ids, strategy=strategy)
        assert content(store, merged) == wanted.entries
        assert committed(breaks).write([rows(wanted.entries)]) == merged


@given(entries(), some_prefix, some_prefix, delimiters, st.integers(0, 20))
def test_list(model: Entries, prefix: bytes, after: bytes, delimiter: bytes, amount: int) -> None:
    store = committed()
    query = EntryQuery(prefix=prefix, after=after, delimiter=delimiter, amount=amount)
    page = store.list(store.write([rows(model)]), query)
    found = [named(item) for item in page.items]
    wanted = reference.fold(list(model), prefix, after, delimiter)
    assert found == wanted[:amount]
    assert page.has_more == (len(wanted) > amount)
    assert all(item == model[item.key] for item in page.items if isinstance(item, Entry))


@given(entries(), changes(), some_prefix, some_prefix, delimiters, st.integers(0, 20))
def test_list_diff(
    left: Entries, edits: Changes, prefix: bytes, after: bytes, delimiter: bytes, amount: int
) -> None:
    right, _ = reference.apply(left, edits)
    store = committed()
    query = EntryQuery(prefix=prefix, after=after, delimiter=delimiter, amount=amount)
    page = store.list_diff(store.write([rows(left)]), store.write([rows(right)]), query)
    different = {entry.key: (change, entry) for change, entry in reference.diff(left, right)}
    wanted = reference.fold(list(different), prefix, after, delimiter)
    found = [named(item.entry if isinstance(item, DiffEntry) else item) for item in page.items]
    assert found == wanted[:amount]
    assert page.has_more == (len(wanted) > amount)
    for item in page.items:
        if isinstance(item, DiffEntry):
            assert (item.change, item.entry) == different[item.entry.key]


@given(entries(), changes(), changes(), some_prefix, some_prefix, delimiters, st.integers(0, 20))
def test_list_changes(
    base: Entries,
    ours: Changes,
    theirs: Changes,
    prefix: bytes,
    after: bytes,
    delimiter: bytes,
    amount: int,
) -> None:
    """Changes of the right that the left did not make equally; conflicts as in a merge."""
    # Some of the changes are the same on both sides.
    alike = dict(list(theirs.items())[::2])
    left, _ = reference.apply(base, {**ours, **alike})
    right, _ = reference.apply(base, theirs)
    store = committed(Breaks(mean_rows=3))
    base_id, left_id, right_id = (store.write([rows(each)]) for each in (base, left, right))
    query = EntryQuery(prefix=prefix, after=after, delimiter=delimiter, amount=amount)
    page = store.list_changes(base_id, left_id, right_id, query)
    since = {entry.key: (change, entry) for change, entry in reference.diff(base, right)}
    apart = {entry.key for _, entry in reference.diff(left, right)}
    wanted = reference.fold([key for key in since if key in apart], prefix, after, delimiter)
    found = [named(item.entry if isinstance(item, DiffEntry) else item) for item in page.items]
    assert found == wanted[:amount]
    assert page.has_more == (len(wanted) > amount)
    conflicts = {key for key, *_ in reference.merge(base, right, left, None).conflicts}
    for item in page.items:
        if isinstance(item, DiffEntry):
            assert (item.change, item.entry) == since[item.entry.key]
            assert item.conflict == (item.entry.key in conflicts)


def named(item: Entry | CommonPrefix) -> tuple[str, bytes]:
    return "entry" if isinstance(item, Entry) else "prefix", item.key
