"""Listings of a branch against a plain model, with real ranges; and their costs."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import MemorySettings, open_block
from lakebed.engine.committed import Breaks, Committed, CommonPrefix, EntryPage, EntryQuery
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import StagingToken
from lakebed.engine.staging.cells import TOMBSTONE, Cells, encode
from lakebed.engine.staging.listing import SkipIndexOptions, list_changes, list_entries
from lakebed.engine.staging.scan import changes_table
from lakebed.formats import Entry, MetaRangeID, entries_of, entries_table
from lakebed.kv import CorruptRecord, Item, Store, Version
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.store import puts
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.engine.histories import REPOSITORY
from tests.simulation.world import entry

ResultT = TypeVar("ResultT")

TOKENS = [StagingToken("new"), StagingToken("old")]
VERSION = Version(b"v" * 16)
paths = st.lists(st.sampled_from([b"a", b"b", b"/", b"-", b"\xff"]), min_size=1, max_size=5).map(
    b"".join
)
staged = st.dictionaries(paths, st.none() | st.sampled_from(["x", "y"]), max_size=12)


class Staged:
    """Committed entries in small ranges, and tokens with changes over them."""

    def __init__(self, committed: dict[bytes, str], *tokens: dict[bytes, str | None]) -> None:
        runtime = ThreadRuntime()
        block = open_block(MemorySettings(), runtime=runtime)
        self.committed = Committed(
            block, REPOSITORY.files_root, runtime, breaks=Breaks(mean_rows=4, max_rows=8)
        )
        self.base = {key: entry(key, f"c-{text}", text) for key, text in committed.items()}
        rows = [self.base[key] for key in sorted(self.base)]
        self.metarange_id: MetaRangeID = self.committed.write([entries_table(rows)])
        self.store: Store = MemoryStore(runtime)
        self.visible = dict(self.base)
        for token, changes in reversed(list(zip(TOKENS, tokens, strict=True))):
            for key, text in changes.items():
                new = None if text is None else entry(key, f"{token}-{text}", text)
                value = TOMBSTONE if new is None else encode(new)
                self.store.set(token.encode(), STAGED_PREFIX + key, value)
                self.visible.pop(key, None)
                if new is not None:
                    self.visible[key] = new

    @property
    def cells(self) -> Cells:
        return Cells(self.store, TOKENS, VERSION)

    def page(self, query: EntryQuery, *, noted_min: int = 10_000) -> EntryPage[Entry]:
        noting = SkipIndexOptions(0, noted_min)
        return list_entries(self.cells, self.committed, self.metarange_id, query, options=noting)

    def entries(self, query: EntryQuery, *, noted_min: int = 10_000) -> list[Entry | CommonPrefix]:
        items: list[Entry | CommonPrefix] = []
        while True:
            page = self.page(query, noted_min=noted_min)
            items += page.items
            if not page.has_more:
                return items
            query = EntryQuery(query.prefix, page.items[-1].key, query.delimiter, query.amount)


def folded(visible: dict[bytes, Entry], query: EntryQuery) -> list[Entry | CommonPrefix]:
    """The same in a few slow lines."""
    found: dict[bytes, Entry | CommonPrefix] = {}
    for key in sorted(visible):
        if key.startswith(query.prefix):
            common = query.folded(key)
            found[common or key] = CommonPrefix(common) if common else visible[key]
    return [item for name, item in sorted(found.items()) if name > query.after]


@given(
    committed=st.dictionaries(paths, st.sampled_from(["x", "y"]), max_size=30),
    new=staged,
    old=staged,
    prefix=st.sampled_from([b"", b"a", b"a/", b"\xff"]),
    delimiter=st.sampled_from([b"", b"/"]),
    after=st.one_of(st.just(b""), paths),
    amount=st.integers(1, 5),
)
def test_listings_agree_with_a_plain_model(
    committed: dict[bytes, str],
    new: dict[bytes, str | None],
    old: dict[bytes, str | None],
    prefix: bytes,
    delimiter: bytes,
    after: bytes,
    amount: int,
) -> None:
    lake = Staged(committed, new, old)
    query = EntryQuery(prefix, after, delimiter, amount)
    assert lake.entries(query) == folded(lake.visible, query)


queries = st.builds(
    EntryQuery,
    prefix=st.sampled_from([b"", b"a", b"a/", b"\xff"]),
    after=st.just(b"") | paths,
    delimiter=st.sampled_from([b"", b"/"]),
    amount=st.integers(1, 3),
)


@given(
    committed=st.dictionaries(paths, st.sampled_from(["x", "y"]), max_size=30),
    kept=st.sets(paths, max_size=2),
    new=staged,
    listed=st.lists(queries, min_size=2, max_size=4),
)
def test_listings_agree_with_the_model_by_what_others_noted(
    committed: dict[bytes, str],
    kept: set[bytes],
    new: dict[bytes, str | None],
    listed: list[EntryQuery],
) -> None:
    gone: dict[bytes, str | None] = dict.fromkeys(committed.keys() - kept)
    lake = Staged(committed, new, gone)
    for query in [*listed, *listed]:
        assert lake.entries(query, noted_min=1) == folded(lake.visible, query)


@given(
    committed=st.dictionaries(paths, st.sampled_from(["x", "y"]), max_size=30),
    new=staged,
    old=staged,
)
def test_changes_agree_with_a_plain_model(
    committed: dict[bytes, str], new: dict[bytes, str | None], old: dict[bytes, str | None]
) -> None:
    lake = Staged(committed, new, old)
    page = list_changes(lake.cells, lake.committed, lake.metarange_id, EntryQuery())
    expected = {}
    for key in lake.base.keys() | lake.visible.keys():
        before, after = lake.base.get(key), lake.visible.get(key)
        if before is None or after is None or before.identity != after.identity:
            expected[key] = after or before
    assert {item.entry.key: item.entry for item in page.items if hasattr(item, "entry")} == expected
    assert [item.entry.key for item in page.items if hasattr(item, "entry")] == sorted(expected)


def test_staged_records_become_rows_with_all_they_hold() -> None:
    rich = replace(entry(b"rich", "somewhere"), metadata={"b": "2", "a": "1"}, content_type="text")
    plain = entry(b"tidy", "elsewhere")
    values = {b"gone": TOMBSTONE, b"rich": encode(rich), b"tidy": encode(plain)}
    page = [Item(STAGED_PREFIX + key, value, Version(b"")) for key, value in values.items()]
    table = changes_table(page)
    assert table.column("key").to_pylist() == list(values)
    assert table.column("tombstone").to_pylist() == [True, False, False]
    assert entries_of(table.slice(1)) == [rich, plain]


def test_a_staged_value_that_cannot_be_read_is_named() -> None:
    page = [Item(STAGED_PREFIX + b"broken", b"\xff\xff", Version(b""))]
    with pytest.raises(CorruptRecord, match="broken"):
        changes_table(page)


def test_a_tombstone_is_known_by_its_bytes() -> None:
    assert TOMBSTONE == b""


class Reads:
    """Reads of a lake's store by its listings."""

    def __init__(self, lake: Staged) -> None:
        self.calls = 0
        self.records = 0
        lake.store = FaultyStore(lake.store, self._count)

    def _count(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        result = apply()
        self.calls += 1
        self.records += len(result) if isinstance(result, list) else 1  # of pages and bulk reads
        return result


@pytest.mark.parametrize("where", ["committed", "staged"])
@pytest.mark.slow
def test_a_directory_costs_its_subdirectories(where: str) -> None:
    keys = [b"%d/%d/%05d" % (top, n % 7, n) for top in range(10) for n in range(600)]
    contents = dict.fromkeys(sorted(keys), "x")
    lake = Staged(contents, {}, {}) if where == "committed" else Staged({}, {}, {**contents})
    reads = Reads(lake)
    before = lake.committed.counters.ranges_read
    items = lake.entries(EntryQuery(delimiter=b"/"))
    assert [item.key for item in items] == [b"%d/" % top for top in range(10)]
    assert reads.calls + lake.committed.counters.ranges_read - before < 50
    # A window is small again after each jump.
    assert reads.records <= 10 * 100


def test_a_page_reads_one_record_more_than_it_returns() -> None:
    lake = Staged({}, {}, {b"%05d" % number: "x" for number in range(3000)})
    reads = Reads(lake)
    page = lake.page(EntryQuery(amount=1000))
    assert len(page.items) == 1000
    assert page.has_more
    assert reads.records == 1001


@pytest.mark.slow
def test_a_page_over_many_sealed_tokens_reads_a_little_of_each() -> None:
    lake = Staged({b"%05d" % number: "c" for number in range(200)}, {}, {})
    tokens = [StagingToken(f"t{number:03}") for number in range(100)]
    keys = [b"%05d" % number for number in range(20_000)]
    shown: dict[bytes, str] = {}
    for age, token in enumerate(tokens):
        mine = dict.fromkeys(keys[age :: len(tokens)] + keys[:5], f"{token}")
        values = [(STAGED_PREFIX + key, encode(entry(key, text))) for key, text in mine.items()]
        lake.store.write(puts(token.encode(), values))
        shown = mine | shown  # the first token is the newest
    reads = Reads(lake)
    cells = Cells(lake.store, tokens, VERSION)
    noting = SkipIndexOptions(0, 10_000)
    page = list_entries(cells, lake.committed, lake.metarange_id, EntryQuery(), options=noting)
    found = {item.key: item.address for item in page.items if isinstance(item, Entry)}
    assert found == {key: shown[key] for key in keys[:1000]}
    assert reads.calls <= len(tokens)
    assert reads.records <= 32 * len(tokens)


@pytest.mark.slow
def test_tombstones_are_read_once_whatever_ranges_lie_below() -> None:
    keys = [b"a/%05d" % number for number in range(3000)]
    lake = Staged(dict.fromkeys([*keys, b"b"], "x"), dict.fromkeys(keys), {})
    reads = Reads(lake)
    items = lake.entries(EntryQuery(delimiter=b"/"))
    assert [item.key for item in items] == [b"b"]
    probes = 2 * len(TOKENS) * 32
    assert reads.records <= len(keys) + probes


@pytest.mark.slow
def test_a_prefix_that_begins_with_tombstones_is_found_by_what_is_left() -> None:
    keys = [b"a/%05d" % number for number in range(3000)]
    gone = dict.fromkeys(keys[:2000])
    lake = Staged(dict.fromkeys([*keys, b"b"], "x"), gone, {})
    reads = Reads(lake)
    items = lake.entries(EntryQuery(delimiter=b"/"))
    assert [item.key for item in items] == [b"a/", b"b"]
    assert reads.records < 300


@pytest.mark.slow
def test_a_run_of_tombstones_is_gone_through_once() -> None:
    keys = [b"a/%05d" % number for number in range(3000)]
    lake = Staged(dict.fromkeys([*keys, b"b"], "x"), dict.fromkeys(keys), {})
    lake.entries(EntryQuery(delimiter=b"/"), noted_min=200)
    reads = Reads(lake)
    for query in (
        EntryQuery(delimiter=b"/"),
        EntryQuery(),
        EntryQuery(prefix=b"a", delimiter=b"/"),
    ):
        items = lake.entries(query, noted_min=200)
        assert [item.key for item in items] == ([] if query.prefix else [b"b"])
    assert reads.records < 3 * 1500
