"""Writing: refused input, and remains of an interrupted write."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from lakebed.block import Address, ETag, LocalSettings, MemorySettings, open_block
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.block.errors import StorageUnavailable
from lakebed.engine.committed import Cache, Committed
from lakebed.engine.committed.batches import entry_windows
from lakebed.engine.errors import EntryNotFound, MissingFile, UnsortedEntries
from lakebed.engine.settings import CacheSettings
from lakebed.formats import (
    CHANGE_SCHEMA,
    ENTRY_SCHEMA,
    DamagedFile,
    ForeignFile,
    InvalidEntries,
    MetaRangeID,
    metarange_path,
    range_path,
)
from tests.engine.committed.kit import (
    HOME,
    LOCAL_HOME,
    NAMESPACE,
    RUNTIME,
    SMALL,
    change_rows,
    committed,
    entry,
    rows,
)

A, B, C = (rows({key: entry(key, 0)}) for key in (b"a", b"b", b"c"))


@pytest.mark.parametrize(
    "batches",
    [
        [B, A],
        [A, A],
        [pa.concat_tables([A, C, B])],
        [pa.concat_tables([A, A])],
        [pa.concat_tables([A, B]), B],
        [rows({b"": entry(b"", 0)})],
    ],
)
@pytest.mark.parametrize("window_rows", [1, 100])
def test_keys_must_rise(
    batches: list[pa.Table], window_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.engine.committed.batches.WINDOW_ROWS", window_rows)
    store = committed()
    with pytest.raises(UnsortedEntries):
        store.write(batches)
    tombstone = pa.array([False], pa.bool_())
    changes = [
        table.append_column("tombstone", pa.concat_arrays([tombstone] * table.num_rows))
        for table in batches
    ]
    empty = store.write([])
    with pytest.raises(UnsortedEntries):
        store.apply(empty, changes)


def test_a_put_and_a_tombstone_of_one_key_are_refused() -> None:
    store = committed()
    put, tombstone = change_rows({b"a": entry(b"a", 0)}), change_rows({b"a": None})
    with pytest.raises(UnsortedEntries):
        store.apply(store.write([]), [put, tombstone])


def test_batches_must_have_the_columns() -> None:
    store = committed()
    with pytest.raises(InvalidEntries, match="size"):
        store.write([A.drop_columns("size")])
    with pytest.raises(InvalidEntries, match="tombstone"):
        store.apply(store.write([]), [A])
    with pytest.raises(InvalidEntries, match="different columns"):
        store.write([A, B.drop_columns("size")])


def test_a_put_must_have_all_values_and_a_tombstone_only_its_key() -> None:
    store = committed()
    base = store.write([A])
    nothing = {name: [None] for name in ENTRY_SCHEMA.names if name != "key"}
    gone = pa.table({"key": [b"a"], **nothing, "tombstone": [True]}, schema=CHANGE_SCHEMA)
    put = pa.table({"key": [b"a"], **nothing, "tombstone": [False]}, schema=CHANGE_SCHEMA)
    assert store.apply(base, [gone]).summary.removed == 1
    with pytest.raises(InvalidEntries):
        store.apply(base, [put])


def test_record_batches_and_empty_batches_are_fine() -> None:
    store = committed()
    batches = [ENTRY_SCHEMA.empty_table(), *A.to_batches(), ENTRY_SCHEMA.empty_table(), B]
    assert store.write(batches) == store.write([pa.concat_tables([A, B])])


def test_large_rows_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.engine.committed.batches.WINDOW_BYTES", 5000)
    model = {b"%03d" % n: entry(b"%03d" % n, 3) for n in range(100)}
    windows = list(entry_windows([rows(model)]))
    assert len(windows) >= 5
    assert all(window.nbytes < 15_000 for window in windows)
    assert pa.concat_tables(windows).equals(rows(model))


def test_no_entries_make_a_metarange_too() -> None:
    store = committed()
    empty = store.write([])
    assert list(store.scan(empty)) == []
    with pytest.raises(EntryNotFound):
        store.get(empty, b"a")
    assert store.apply(empty, [change_rows({b"a": entry(b"a", 0)})]).summary.added == 1
    full = store.write([A])
    assert store.apply(full, [change_rows({b"a": None})]).metarange_id == empty


# Damaged or foreign files


def test_missing_files_are_named() -> None:
    store = committed()
    metarange = MetaRangeID("0" * 64)
    with pytest.raises(MissingFile, match=metarange):
        store.get(metarange, b"a")
    block = open_block(MemorySettings())
    metarange = Committed(block, HOME, RUNTIME).write([A])
    store = Committed(block, HOME, RUNTIME)  # that does not have in memory what it wrote
    (ref,) = store._files.metarange(metarange).refs
    block.delete(NAMESPACE.address(range_path(ref.range_id)))
    calls: list[Callable[[], object]] = [
        lambda: store.get(metarange, b"a"),
        lambda: list(store.scan(metarange)),
        lambda: list(store.diff(store.write([]), metarange)),
        lambda: store.apply(metarange, [change_rows({b"a": None})]),
    ]
    for call in calls:
        with pytest.raises(MissingFile, match=f"mem://tests/repo/_lakebed.*{ref.range_id}"):
            call()


def test_damaged_and_foreign_files_are_named() -> None:
    block = open_block(MemorySettings())
    metarange = Committed(block, HOME, RUNTIME).write([A])
    (ref,) = Committed(block, HOME, RUNTIME)._files.metarange(metarange).refs
    address = NAMESPACE.address(range_path(ref.range_id))
    data = block.read(address)
    block.put(address, [data[:-100] + bytes(100)])
    with pytest.raises(DamagedFile, match=str(address)):
        Committed(block, HOME, RUNTIME).get(metarange, b"a")
    block.put(address, [block.read(NAMESPACE.address(metarange_path(metarange)))])
    with pytest.raises(ForeignFile, match=str(address)):
        Committed(block, HOME, RUNTIME).get(metarange, b"a")
    block.put(address, [data])
    assert Committed(block, HOME, RUNTIME).get(metarange, b"a") == entry(b"a", 0)


# Interrupted


def test_a_range_that_turns_out_to_be_missing_is_written_again() -> None:
    block = open_block(MemorySettings())
    cache = Cache(RUNTIME, CacheSettings(memory_bytes=0))
    store = Committed(block, HOME, RUNTIME, cache=cache)
    metarange = store.write([A])
    (ref,) = store._files.metarange(metarange).refs
    block.delete(NAMESPACE.address(range_path(ref.range_id)))
    with pytest.raises(MissingFile):
        store.get(metarange, b"a")
    store._files.metarange(metarange)  # names the range, and proves nothing any more
    assert store.write([A]) == metarange
    assert store.get(metarange, b"a") == entry(b"a", 0)


def test_a_range_that_is_found_missing_while_it_is_taken_for_stored_is_written_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = committed()
    files = store._files
    metarange = store.write([A])
    (ref,) = files.metarange(metarange).refs
    address = NAMESPACE.address(range_path(ref.range_id))
    count = files._count

    def find_missing(counter: str) -> None:
        count(counter)
        files._block.delete(address)
        with pytest.raises(MissingFile):
            files._check_range(ref.range_id)

    with monkeypatch.context() as patches:
        patches.setattr(files, "_count", find_missing)
        store.write([A])  # it was known when the writer looked
    assert store.write([A]) == metarange
    assert files._block.exists(address)


@pytest.mark.parametrize("missing", ["range", "metarange"])
def test_the_cache_does_not_hide_a_missing_file(missing: str) -> None:
    store = committed()
    metarange = store.write([A])
    store.check_stored(metarange)
    (ref,) = store._files.metarange(metarange).refs
    assert store.get(metarange, b"a") == entry(b"a", 0)
    path = range_path(ref.range_id) if missing == "range" else metarange_path(metarange)
    store._files._block.delete(NAMESPACE.address(path))
    with pytest.raises(MissingFile, match=path):
        store.check_stored(metarange)


def test_a_stream_that_fails_leaves_no_metarange(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.Table]:
        yield rows({b"%03d" % n: entry(b"%03d" % n, 0) for n in range(100)})
        raise ConnectionError

    store = Committed(open_block(LocalSettings(tmp_path)), LOCAL_HOME, RUNTIME, breaks=SMALL)
    with pytest.raises(ConnectionError):
        store.write(failing())
    assert list(tmp_path.rglob("metaranges/*.parquet")) == []


def test_a_metarange_that_was_stored_without_its_range_is_no_proof_that_this_is_there() -> None:
    """Both are written in parallel; building the same again stores the missing file."""

    class Failing(MemoryBlockStore):
        is_broken = True
        created: ClassVar[list[str]] = []

        def create(self, address: Address, data: bytes) -> ETag:
            if self.is_broken and "/ranges/" in str(address):
                raise StorageUnavailable("injected")
            self.created.append(address.path.split("/")[-2])
            return super().create(address, data)

    block = Failing(RUNTIME)
    here = Committed(block, HOME, RUNTIME)
    with pytest.raises(StorageUnavailable):
        here.write([A])
    assert here.counters.ranges_written == 0
    assert block.created == ["metaranges"]
    block.is_broken = False
    metarange = here.write([A])
    assert Committed(block, HOME, RUNTIME).get(metarange, b"a").key == b"a"
