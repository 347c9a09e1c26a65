"""Edits of a few rows, one by one, do the same as edits of many, all at once."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.committed.columns import Edits, Summary, _apply_few, _apply_many, apply_rows
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


def test_what_changes_nothing_leaves_the_rows_as_they_are() -> None:
    before = table({1: 0, 2: 0}).combine_chunks()
    edits = Edits(table({2: 0}).combine_chunks(), pa.array([b"99"], pa.binary()))
    assert apply_rows(before, edits) == (before, Summary())
