"""An import that many tasks make, and one that the server makes, have the same ranges."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.clients.ingest import executors, plan
from lakebed.clients.ingest.errors import NothingFound, UnsortedListing, UnsupportedPath
from lakebed.clients.ingest.plan import IngestSource, ListingRange, in_order, listing_ranges
from lakebed.engine.committed import Committed
from lakebed.formats import RangeRef, metarange_id
from lakebed.formats.boundaries import Breaks
from lakebed.formats.imported import imported_page
from lakebed.formats.metaranges import metarange_table
from lakebed.lake.imports.listing import list_in_order
from tests.clients.ingest.kit import cut_all, list_all, storage_of
from tests.kit.lake import Lake, open_lake

BREAKS = Breaks(mean_rows=3, max_rows=5, max_bytes=700)
NAMES = st.sets(
    st.from_regex(r"([ab]{1,2}/){0,3}[ab.]{0,3}[0-9]{1,2}", fullmatch=True),
    min_size=1,
    max_size=50,
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake("memory", tmp_path_factory.getbasetemp()) as opened:
        yield opened


def new_place(lake: Lake, names: set[str]) -> IngestSource:
    """Objects in a namespace that had none; the content of each is its name."""
    place = Namespace.parse(f"{lake.block.scheme}://data/{lake.clock.random_bytes(8).hex()}")
    for name in names:
        lake.block.put(place.address(name), [name.encode()])
    return IngestSource(str(place), is_prefix=True, destination=b"to/")


def by_the_server(lake: Lake, source: IngestSource) -> str:
    """The metarange that the server makes of a source, in one go."""
    place = Namespace.parse(source.place)
    committed = Committed(lake.block, lake.repository.files_root, ThreadRuntime(), breaks=BREAKS)
    batches = list_in_order(lake.block, ThreadRuntime(), place, None)
    pages = (imported_page(pa.Table.from_batches([each]), str(place), b"to/") for each in batches)
    return committed.write(page.entries for page in pages)


def id_of(refs: Sequence[RangeRef]) -> str:
    return metarange_id(metarange_table(refs))


@given(
    names=NAMES,
    width=st.integers(1, 12),
    file_rows=st.integers(1, 9),
    stretches_max=st.integers(1, 20),
)
def test_parts_make_what_one_writer_makes(
    lake: Lake, names: set[str], width: int, file_rows: int, stretches_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "FILE_ROWS", file_rows)
        patch.setattr(plan, "LISTING_RANGES_MAX", stretches_max)
        source = new_place(lake, names)
        storage = storage_of(lake)
        planned = list(listing_ranges(lake.block, [source], width))
        found = list_all(storage, [source], planned, BREAKS)
        refs = cut_all(storage, [source], planned, found, BREAKS, width)
        assert id_of(refs) == by_the_server(lake, source)
        assert sum(ref.count for ref in refs) == len(names)
        # A task that ran twice: other files of the listing, the same ranges.
        again = list_all(storage, [source], planned, BREAKS)
        assert {each.name for each in again}.isdisjoint(each.name for each in found)
        assert cut_all(storage, [source], planned, again, BREAKS, width) == refs


def test_splitting_anywhere_else_would_make_other_ranges(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property above is worth something: it fails if parts end at any key."""
    source = new_place(lake, {f"{number:03d}" for number in range(100)})
    storage = storage_of(lake)
    monkeypatch.setattr(executors, "FILE_ROWS", 7)
    planned = [ListingRange(0, None, f"{source.place}{end:03d}") for end in range(6, 100, 7)]
    planned = [
        ListingRange(0, before.upto if before else None, each.upto)
        for before, each in zip([None, *planned], planned, strict=False)
    ]
    planned.append(ListingRange(0, planned[-1].upto, None))
    found = list_all(storage, [source], planned, BREAKS)
    right = by_the_server(lake, source)
    assert id_of(cut_all(storage, [source], planned, found, BREAKS, 8)) == right
    anywhere = [replace(each, ends=[each.last_key]) for each in found]
    assert id_of(cut_all(storage, [source], planned, anywhere, BREAKS, 8)) != right


def test_objects_and_prefixes_in_order_of_their_destinations(lake: Lake) -> None:
    source = new_place(lake, {"a", "b"})
    one = IngestSource(f"{source.place}a", is_prefix=False, destination=b"t")
    storage = storage_of(lake)
    planned = list(listing_ranges(lake.block, [one, source], 4))
    found = list_all(storage, [one, source], planned, BREAKS)
    refs = cut_all(storage, [one, source], planned, found, BREAKS, 4)
    assert (refs[0].min_key, refs[-1].max_key) == (b"t", b"to/b")


def test_invalid_imports(lake: Lake) -> None:
    source = new_place(lake, {"a", "bell\a", "b"})
    storage = storage_of(lake)
    planned = list(listing_ranges(lake.block, [source], 4))
    (found,) = list_all(storage, [source], planned, BREAKS)
    assert (found.rows, found.skipped) == (2, 1)
    assert found.skipped_addresses == [f"{source.place}bell\a"]
    with pytest.raises(UnsupportedPath, match="without --strict"):
        list_all(storage, [source], planned, BREAKS, strict=True)
    nothing = IngestSource(f"{lake.block.scheme}://data/nothing/", is_prefix=True, destination=b"")
    no_object = IngestSource(f"{source.place}nothing", is_prefix=False, destination=b"x")
    for empty in (nothing, no_object):
        planned = list(listing_ranges(lake.block, [empty], 4))
        assert list_all(storage, [empty], planned, BREAKS) == []
        with pytest.raises(NothingFound, match=empty.place):
            in_order([], planned, [empty])


def test_a_storage_that_lists_in_another_order(lake: Lake) -> None:
    source = new_place(lake, {"a", "b"})
    storage = storage_of(lake)
    planned = list(listing_ranges(lake.block, [source], 4))
    (found,) = list_all(storage, [source], planned, BREAKS)
    with pytest.raises(UnsortedListing):
        in_order([found, found], planned, [source])


def test_many_folders_are_taken_together(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    source = new_place(lake, {f"{number:03d}/x" for number in range(100)} | {"0005", "zzz"})
    monkeypatch.setattr(plan, "LISTING_RANGES_MAX", 10)
    planned = list(listing_ranges(lake.block, [source], 4))
    assert 5 <= len(planned) <= 11
    found = list_all(storage_of(lake), [source], planned, BREAKS)
    assert sum(each.rows for each in found) == 102
