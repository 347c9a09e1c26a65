"""Counting objects that an import skips: exact after any save, in little memory."""

import tracemalloc
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import LIST_SCHEMA
from lakebed.formats.imported import ImportedPage, imported_page
from lakebed.lake import records_pb2 as pb
from lakebed.lake.imports.run import _Skipped

PLACE = "mem://outside/"


def page_of(names: list[str]) -> ImportedPage:
    listed = {
        "address": [PLACE + name for name in names],
        "size": [1] * len(names),
        "mtime": [0] * len(names),
        "etag": [""] * len(names),
    }
    arrays = [pa.array(listed[field.name], field.type) for field in LIST_SCHEMA]
    return imported_page(pa.table(arrays, schema=LIST_SCHEMA), PLACE, b"to/")


@given(st.lists(st.booleans(), max_size=40), st.sets(st.integers(1, 39)), st.data())
def test_what_a_save_counts_lies_before_its_last_key(
    strange: list[bool], cuts: set[int], data: st.DataObject
) -> None:
    names = [f"{number:02}{'/' * skip}" for number, skip in enumerate(strange)]
    places = [0, *sorted(cuts), len(names)]
    skipped = _Skipped(pb.Import())
    for begin, end in pairwise(places):
        skipped.add(page_of(names[begin:end]))
        good = [name for name in names[: max(begin, end)] if not name.endswith("/")]
        is_saved = data.draw(st.booleans())
        if good and is_saved:
            last = data.draw(st.sampled_from(good))
            already = skipped.saved
            skipped.fold(b"to/" + last.encode())
            before = [name for name in names if name.endswith("/") and name < last]
            assert skipped.saved == max(already, len(before))
    message = pb.Import()
    skipped.note(message)
    assert message.skipped == sum(strange)


@pytest.mark.slow
def test_many_skipped_objects_take_no_memory() -> None:
    skipped = _Skipped(pb.Import())
    skipped.add(page_of(["0"]))
    tracemalloc.start()
    try:
        held = pa.total_allocated_bytes()
        for number in range(100):
            skipped.add(page_of([f"{number:03}{each:03}/" for each in range(500)]))
        kept, _ = tracemalloc.get_traced_memory()
        kept += pa.total_allocated_bytes() - held
    finally:
        tracemalloc.stop()
    skipped.add(page_of(["z"]))
    skipped.fold(b"to/z")
    assert skipped.saved == 50_000
    assert kept < 200_000
