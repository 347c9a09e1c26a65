"""Ranges cut by larger breaks in an earlier version stay until a change touches them.

New ranges are cut as if the old ones did not exist.
"""

from collections.abc import Iterable
from itertools import chain, groupby
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import MemorySettings, open_block
from lakebed.engine.committed import Breaks, Cache, Committed, Interval, Strategy, batches
from lakebed.engine.committed.columns import Range
from lakebed.formats import MetaRangeID, RangeRef
from tests.engine.committed import reference
from tests.engine.committed.kit import (
    HOME,
    KEYS,
    RUNTIME,
    SMALL,
    change_rows,
    changes,
    committed,
    content,
    entries,
    entry,
    keys,
    rows,
)
from tests.engine.committed.reference import Changes, Entries

FREE = Breaks(mean_rows=4, max_rows=10**9, max_bytes=10**9)
"""Cuts by the hash of keys alone."""
all_breaks = st.sampled_from([FREE, SMALL])
MODEL: Entries = {key: entry(key, 0) for key in KEYS}


class Versions:
    """A repository written by an earlier version and by this one."""

    def __init__(self, breaks: Breaks = FREE) -> None:
        earlier = Breaks(5 * breaks.mean_rows, 5 * breaks.max_rows, 5 * breaks.max_bytes)
        self.breaks = breaks
        self._block = open_block(MemorySettings())
        self.earlier, self.now = self.open(earlier), self.open(breaks)

    def open(self, breaks: Breaks) -> Committed:
        """Return another version, or another process of a version, with an empty cache."""
        return Committed(self._block, HOME, RUNTIME, cache=Cache(RUNTIME), breaks=breaks)

    def scratch(self, model: Entries) -> MetaRangeID:
        """Return the metarange that this version alone makes of entries."""
        return committed(self.breaks).write([rows(model)])

    def refs(self, metarange_id: MetaRangeID) -> list[RangeRef]:
        return list(self.now._files.metarange(metarange_id).refs)

    def cut(self, model: Entries, first: RangeRef, last: RangeRef) -> list[RangeRef]:
        """Return the ranges that this version alone makes of the keys of old ranges."""
        part = {key: new for key, new in model.items() if first.min_key <= key <= last.max_key}
        return self.refs(self.now.write([rows(part)]))

    def check(self, made: MetaRangeID, inputs: Iterable[MetaRangeID]) -> None:
        """Ranges that are not from the inputs are cut as if nothing else had existed."""
        kept = {ref.range_id for each in inputs for ref in self.refs(each)}
        refs = self.refs(made)
        assert all(self.breaks.is_closed(ref) for ref in refs[:-1])
        for is_kept, stretch in groupby(refs, lambda ref: ref.range_id in kept):
            if not is_kept:
                found = list(stretch)
                tables = [self.now._files.range(ref.range_id).table for ref in found]
                alone = committed(self.breaks)
                expected = alone._files.metarange(alone.write(tables)).refs
                assert found == list(expected)


def keys_in(ref: RangeRef) -> list[bytes]:
    return [key for key in sorted(MODEL) if ref.min_key <= key <= ref.max_key]


def test_the_earlier_ranges_hold_keys_that_end_one_now() -> None:
    two = Versions()
    old = two.refs(two.earlier.write([rows(MODEL)]))
    assert len(old) > 4
    assert all(FREE.is_closed(ref) for ref in old[:-1])
    assert sum(FREE.is_ending(key) for ref in old for key in keys_in(ref)[:-1]) > 20


@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("removes", [False, True])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_range_in_which_something_changes_is_cut_anew(
    count: int, removes: bool, one_by_one: bool
) -> None:
    two = Versions(FREE)
    base = two.earlier.write([rows(MODEL)])
    old = two.refs(base)
    for place, ref in enumerate(old):
        inside = keys_in(ref)[:-1][:count]
        edits: Changes = {key: None if removes else entry(key, 1) for key in inside}
        model, _ = reference.apply(MODEL, edits)
        made = base
        for step in [{key: new} for key, new in edits.items()] if one_by_one else [edits]:
            made = two.now.apply(made, [change_rows(step)]).metarange_id
        assert two.refs(made) == [*old[:place], *two.cut(model, ref, ref), *old[place + 1 :]]


@given(entries(), all_breaks, st.integers(0, 100))
def test_if_something_changes_in_each_range_nothing_is_left_of_the_old_cuts(
    model: Entries, breaks: Breaks, number: int
) -> None:
    two = Versions(breaks)
    base = two.earlier.write([rows(model)])
    edits: Changes = {}
    for ref in two.refs(base):
        inside = [key for key in sorted(model) if ref.min_key <= key <= ref.max_key]
        key = inside[number % len(inside)]
        other = int(model[key].identity.split()[1]) + 1
        edits = {**edits, key: entry(key, other)}
    if edits:
        model, _ = reference.apply(model, edits)
        made = two.now.apply(base, [change_rows(edits)]).metarange_id
        assert made == two.scratch(model)


def test_a_range_that_joins_the_one_before_is_cut_anew() -> None:
    two = Versions(FREE)
    base = two.earlier.write([rows(MODEL)])
    old = two.refs(base)
    joined = 0
    for place, ref in enumerate(old[:-1]):
        rest = keys_in(ref)[:-1]
        if not rest or FREE.is_ending(rest[-1]):
            continue
        joined += 1
        # Rows of this range are pending, and rows of the next follow.
        model, _ = reference.apply(MODEL, {ref.max_key: None})
        made = two.now.apply(base, [change_rows({ref.max_key: None})]).metarange_id
        cut = two.cut(model, ref, old[place + 1])
        assert two.refs(made) == [*old[:place], *cut, *old[place + 2 :]]
    assert joined > 2


def test_an_unfinished_range_that_goes_on_is_cut_anew() -> None:
    two = Versions(FREE)
    behind = {key: MODEL[key] for key in sorted(MODEL)[-2:]}
    before = {key: MODEL[key] for key in MODEL if key not in behind}
    # One range, which ended only for lack of rows.
    base = two.open(Breaks(10**9, 10**9, 10**9)).write([rows(before)])
    (ref,) = two.refs(base)
    assert not FREE.is_closed(ref)
    assert two.now.apply(base, [change_rows(behind)]).metarange_id == two.scratch(MODEL)
    tail = two.now.write([rows(behind)])
    assert two.now.replace(base, tail, [Interval(min(behind), None)]) == two.scratch(MODEL)


@pytest.mark.parametrize("theirs", [1, 9])
@pytest.mark.parametrize("ours", [1, 9])
@pytest.mark.parametrize("number", [1, 2])
def test_a_merge_cuts_the_ranges_anew_that_both_sides_changed(
    theirs: int, ours: int, number: int
) -> None:
    two = Versions(FREE)
    base = two.earlier.write([rows(MODEL)])
    old = two.refs(base)
    ref = old[number]
    inside = keys_in(ref)[:-1]
    left: Changes = {key: entry(key, 1) for key in inside[:theirs]}
    right: Changes = {key: entry(key, 2) for key in inside[-ours:]}
    model, _ = reference.apply(MODEL, {**left, **right})
    cut = two.cut(model, ref, ref)
    for version in (two.earlier, two.now):
        # Also if both sides were still made by the earlier version, in one range each.
        source, destination = (
            version.apply(base, [change_rows(each)]).metarange_id for each in (left, right)
        )
        made = two.now.merge(base, source, destination)
        assert two.refs(made) == [*old[:number], *cut, *old[number + 1 :]]


@given(
    st.just(MODEL) | entries(),
    st.lists(changes(), min_size=1, max_size=3),
    all_breaks,
    st.sampled_from([1, 5, batches.WINDOW_ROWS]),
)
def test_applies_over_old_ranges(
    model: Entries, history: list[Changes], breaks: Breaks, window_rows: int
) -> None:
    two = Versions(breaks)
    made = two.earlier.write([rows(model)])
    for edits in history:
        base, old = made, two.refs(made)
        metarange = two.now._files.metarange(base)
        touched = {metarange.position(key) for key in edits}
        model, _ = reference.apply(model, edits)
        with patch.object(batches, "WINDOW_ROWS", window_rows):
            made = two.now.apply(base, [change_rows(edits)]).metarange_id
        assert content(two.now, made) == model
        two.check(made, [base])
        found = {ref.range_id for ref in two.refs(made)}
        for place, ref in enumerate(old):
            before = old[place - 1].max_key if place else None
            is_free = before is None or (before in model and breaks.is_ending(before))
            is_last = place == len(old) - 1 and not breaks.is_closed(ref)
            if is_free and place not in touched and not (is_last and len(old) in touched):
                assert ref.range_id in found, "a range stays if nothing in it changed"


@given(
    st.just(MODEL) | entries(),
    changes(),
    changes(),
    all_breaks,
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from(list(Strategy)),
)
def test_merges_over_old_ranges(
    base: Entries,
    theirs: Changes,
    ours: Changes,
    breaks: Breaks,
    are_earlier: tuple[bool, bool],
    strategy: Strategy,
) -> None:
    two = Versions(breaks)
    inputs = [two.earlier.write([rows(base)])]
    for edits, is_earlier in zip((theirs, ours), are_earlier, strict=True):
        version = two.earlier if is_earlier else two.now
        inputs.append(version.apply(inputs[0], [change_rows(edits)]).metarange_id)
    base_id, source_id, destination_id = inputs
    made = two.now.merge(base_id, source_id, destination_id, strategy=strategy)
    source, destination = (reference.apply(base, edits)[0] for edits in (theirs, ours))
    wanted = reference.merge(base, source, destination, strategy).entries
    assert content(two.now, made) == wanted
    two.check(made, inputs)


@given(entries(), entries(), all_breaks, st.sets(keys, min_size=2, max_size=2))
def test_intervals_over_old_ranges(
    base: Entries, new: Entries, breaks: Breaks, bounds: set[bytes]
) -> None:
    two = Versions(breaks)
    base_id, new_id = (two.earlier.write([rows(each)]) for each in (base, new))
    interval = Interval(*sorted(bounds))
    made = two.now.replace(base_id, new_id, [interval])
    wanted = {
        key: (new if key in interval else base)[key]
        for key in chain(base, new)
        if key in (new if key in interval else base)
    }
    assert content(two.now, made) == wanted
    two.check(made, [base_id, new_id])


def test_whose_breaks_cut_a_range_decides_which_keys_may_end_one() -> None:
    table = rows(MODEL)
    ending = [key for key in sorted(MODEL) if FREE.is_ending(key)]
    loaded, made = Range(table), Range(table, cut_by=SMALL)
    assert loaded.candidates(FREE) == ending
    assert loaded.candidates(Breaks(10**9)) == []
    assert made.candidates(SMALL) == [max(MODEL)]
    assert made.candidates(FREE, [b"new"]) == [b"new", *ending]
    assert made.candidates(FREE, None) is None


def test_no_keys_that_were_cut_here_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    ending = Breaks.ending

    def counted(self: Breaks, keys: pa.Array) -> object:
        hashed.append(len(keys))
        return ending(self, keys)

    monkeypatch.setattr(Breaks, "ending", counted)
    two = Versions(Breaks(10**9, 10**9, 10**9))
    base = two.now.write([rows(MODEL)])
    hashed.clear()
    first, last = min(MODEL), max(MODEL)
    made = two.now.apply(base, [change_rows({first: entry(first, 1)})]).metarange_id
    made = two.now.apply(made, [change_rows({first: None})]).metarange_id
    two.now.apply(made, [change_rows({last + b"a": entry(last + b"a", 1)})])
    assert not hashed
    # Another process does not know how the ranges were cut, and examines them once.
    other = two.open(two.breaks)
    for number in (1, 2):
        other.apply(base, [change_rows({first: entry(first, number)})])
    assert hashed == [len(MODEL)]
