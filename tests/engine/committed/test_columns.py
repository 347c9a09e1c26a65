"""Edits applied singly have the same effect as edits applied at once."""

from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.committed import columns
from lakebed.engine.committed.columns import (
    CONFLICT_SCHEMA,
    ChangeCounts,
    ChangeType,
    Edits,
    _apply_few,
    _apply_many,
    apply_rows,
    diff_rows,
    split_changes,
)
from tests.engine.committed.kit import entry, rows

NUMBERS = st.dictionaries(st.integers(0, 30), st.integers(0, 3), max_size=20)


def table(numbers: dict[int, int]) -> pa.Table:
    keys = {b"%02d" % number: version for number, version in sorted(numbers.items())}
    return rows({key: entry(key, version) for key, version in keys.items()})


@given(NUMBERS.filter(bool), NUMBERS, st.sets(st.integers(0, 30)), st.integers(0, 5))
def test_few_edits_are_applied_as_many_are(
    base: dict[int, int], puts: dict[int, int], removals: set[int], cut: int
) -> None:
    gone = [b"%02d" % number for number in sorted(removals - puts.keys())]
    edits = Edits(table(puts).combine_chunks(), pa.array(gone, pa.binary()))
    before = table(base).combine_chunks()
    before = before.slice(min(cut, before.num_rows - 1))  # a part of a range, as apply takes it
    (few, changes), (many, expected) = _apply_few(before, edits), _apply_many(before, edits)
    assert changes == expected
    assert few.equals(many)
    few.validate(full=True)


def test_edits_without_effect_keep_the_rows() -> None:
    before = table({1: 0, 2: 0}).combine_chunks()
    edits = Edits(table({2: 0}).combine_chunks(), pa.array([b"99"], pa.binary()))
    assert apply_rows(before, edits) == (before, ChangeCounts())


@pytest.mark.parametrize("few_rows", [0, 1000])
@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_changes_of_a_source_are_split_as_one_would_by_hand(
    few_rows: int, base: dict[int, int], source: dict[int, int], destination: dict[int, int]
) -> None:
    before, theirs, ours = (table(each).combine_chunks() for each in (base, source, destination))
    changed = {n for n in base.keys() | source.keys() if base.get(n) != source.get(n)}
    assert diff_rows(before, theirs).column("key").to_pylist() == keys(changed)
    with patch.object(columns, "_FEW_ROWS", few_rows):
        free, contested, conflicts = split_changes(before, theirs, ours)
    untouched = {n for n in changed if destination.get(n) == base.get(n)}
    agreed = {n for n in changed if destination.get(n) == source.get(n)}
    disputed = changed - untouched - agreed
    assert edited(free) == (keys(untouched & source.keys()), keys(untouched - source.keys()))
    assert edited(contested) == (keys(disputed & source.keys()), keys(disputed - source.keys()))
    assert conflicts.schema == CONFLICT_SCHEMA
    assert conflicts.to_pylist() == [
        {
            "key": b"%02d" % n,
            "source_change": change(base, source, n),
            "destination_change": change(base, destination, n),
        }
        for n in sorted(disputed)
    ]
    for edits in (free, contested):
        numbers = [int(key) for key in edited(edits)[0]]
        assert edits.puts.equals(table({n: source[n] for n in numbers}))


def change(before: dict[int, int], after: dict[int, int], number: int) -> ChangeType:
    if number not in before:
        return ChangeType.ADDED
    return ChangeType.CHANGED if number in after else ChangeType.REMOVED


def keys(numbers: set[int]) -> list[bytes]:
    return [b"%02d" % number for number in sorted(numbers)]


def edited(edits: Edits) -> tuple[list[bytes], list[bytes]]:
    return edits.puts.column("key").to_pylist(), edits.removals.to_pylist()
