"""The caches: bounded, shared by threads, never wrong."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakebed.base.runtime import UniqueID
from lakebed.block import LocalSettings, MemorySettings, Namespace, open_block
from lakebed.engine.committed import Cache, Committed
from lakebed.engine.committed.files import DiskCache, Files, MemoryCache, NewRange
from lakebed.engine.errors import MissingFile
from lakebed.engine.model import FilesRoot
from lakebed.engine.settings import CacheSettings
from lakebed.formats import entries_table, range_path
from lakebed.formats.boundaries import ref_of
from tests.engine.committed.kit import RUNTIME, SMALL, committed, content, entry, rows, with_disk

pytestmark = pytest.mark.slow

MODEL = {b"%03d" % n: entry(b"%03d" % n, n % 12) for n in range(200)}


# Memory


def test_memory_drops_the_least_recently_used() -> None:
    cache = MemoryCache[str](RUNTIME, max_bytes=100)
    loads: list[str] = []

    def get(name: str) -> str:
        def load() -> tuple[str, int]:
            loads.append(name)
            return name.upper(), 40

        return cache.get(name, load)

    assert [get(name) for name in "abab"] == ["A", "B", "A", "B"]
    assert loads == ["a", "b"]
    get("a")
    get("c")
    assert cache.size_bytes == 80
    assert [get(name) for name in "acb"] == ["A", "C", "B"]
    assert loads == ["a", "b", "c", "b"]


def test_memory_keeps_nothing_larger_than_its_bound() -> None:
    cache = MemoryCache[str](RUNTIME, max_bytes=100)
    cache.get("small", lambda: ("s", 100))
    assert cache.get("large", lambda: ("l", 101)) == "l"
    assert cache.get("small", lambda: ("loaded again", 1)) == "s"
    assert cache.size_bytes == 100


def test_small_ranges_count_with_what_they_take_besides_their_rows() -> None:
    block = open_block(MemorySettings())
    cache = Cache(RUNTIME, CacheSettings(memory_bytes=1 << 20))
    files = Files(block, FilesRoot(Namespace.parse("mem://lake/x"), UniqueID("u")), RUNTIME, cache)
    saved = []
    for number in range(200):
        rows = entries_table([entry(b"%03d" % number, 1)])
        new = NewRange(ref_of(rows), rows, SMALL)
        files.save_range(new)
        saved.append(new.ref.range_id)
    for range_id in saved:
        files.range(range_id)
    # A range of one row takes about 18 KB, of which 200 bytes are the row's.
    assert files.counters.ranges_read > 140


def test_callers_at_the_same_time_share_one_load() -> None:
    cache = MemoryCache[int](RUNTIME, max_bytes=100)
    asked = threading.Barrier(8)
    may_finish = threading.Event()
    loads: list[int] = []

    def load() -> tuple[int, int]:
        loads.append(1)
        assert may_finish.wait(30)
        return 7, 1

    def get(_: int) -> int:
        asked.wait(30)
        return cache.get("name", load)

    with ThreadPoolExecutor(8) as pool:
        results = pool.map(get, range(8))
        while not loads:
            pass
        may_finish.set()
        assert list(results) == [7] * 8
    assert len(loads) == 1


def test_after_a_failed_load_another_caller_loads() -> None:
    cache = MemoryCache[int](RUNTIME, max_bytes=100)
    loading, may_fail = threading.Event(), threading.Event()

    def fail() -> tuple[int, int]:
        loading.set()
        assert may_fail.wait(30)
        raise ConnectionError

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "name", fail)
        assert loading.wait(30)
        second = pool.submit(cache.get, "name", lambda: (7, 1))
        may_fail.set()
        with pytest.raises(ConnectionError):
            first.result(30)
        assert second.result(30) == 7


def test_a_store_with_little_memory_reads_again() -> None:
    store = committed(memory_bytes=0)
    metarange = store.write([rows(MODEL)])
    assert content(store, metarange) == MODEL
    once = store.counters.ranges_read
    assert content(store, metarange) == MODEL
    assert store.counters.ranges_read == 2 * once


# Disk


def remove_blocks(folder: Path) -> None:
    for file in (folder / "blocks").rglob("*.parquet"):
        file.unlink()


def cached(folder: Path) -> list[Path]:
    return sorted((folder / "cache/lakebed-ranges").iterdir())


def test_ranges_on_disk_are_not_fetched(tmp_path: Path) -> None:
    metarange = with_disk(tmp_path).write([rows(MODEL)])
    assert content(with_disk(tmp_path), metarange) == MODEL
    remove_blocks(tmp_path)
    assert content(with_disk(tmp_path), metarange) == MODEL
    cached(tmp_path)[0].unlink()
    with pytest.raises(MissingFile, match=r"local://lake/repo/_lakebed/.*\.parquet"):
        content(with_disk(tmp_path), metarange)


@pytest.mark.parametrize("damage", ["overwrite", "cut", "empty", "swap"])
def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path: Path, damage: str) -> None:
    metarange = with_disk(tmp_path).write([rows(MODEL)])
    content(with_disk(tmp_path), metarange)
    sound = {file: file.read_bytes() for file in cached(tmp_path)}
    for file, other in zip(sound, reversed(sound.values()), strict=True):
        data = sound[file]
        middle = len(data) // 3
        file.write_bytes(
            {
                "overwrite": data[:middle] + bytes(middle) + data[2 * middle :],
                "cut": data[:middle],
                "empty": b"",
                "swap": other,
            }[damage]
        )
    assert content(with_disk(tmp_path), metarange) == MODEL
    assert {file: file.read_bytes() for file in cached(tmp_path)} == sound


def test_the_disk_is_bounded_and_drops_the_least_recently_used(tmp_path: Path) -> None:
    disk = DiskCache(RUNTIME, tmp_path / "cache/lakebed-ranges", max_bytes=16_000)
    disk.put("used", b"u" * 500)
    for number in range(200):
        disk.put(f"{number}", b"x" * 500)
        assert disk.get("used") == b"u" * 500
        assert sum(file.stat().st_size for file in cached(tmp_path)) <= 16_000
    assert disk.get("199") is not None
    assert disk.get("0") is None
    disk.put("too large", b"x" * 16_001)
    assert disk.get("too large") is None


def test_cache_files_of_a_dead_process_are_deleted(tmp_path: Path) -> None:
    DiskCache(RUNTIME, tmp_path / "cache/lakebed-ranges", max_bytes=1000)
    (tmp_path / "cache/lakebed-ranges/half.0123.tmp").write_bytes(b"x" * 5000)
    DiskCache(RUNTIME, tmp_path / "cache/lakebed-ranges", max_bytes=1000)
    assert cached(tmp_path) == []


def test_a_disk_that_cannot_be_written_keeps_nothing_and_raises_nothing(tmp_path: Path) -> None:
    disk = DiskCache(RUNTIME, tmp_path / "cache/lakebed-ranges", max_bytes=1000)
    (tmp_path / "cache/lakebed-ranges").rmdir()
    disk.put("name", b"data")
    assert disk.get("name") is None


def home(name: str, unique_id: str) -> FilesRoot:
    return FilesRoot(Namespace.parse(f"local://lake/{name}"), UniqueID(unique_id))


def test_one_cache_serves_several_repositories_but_each_gets_its_own_files(tmp_path: Path) -> None:
    block = open_block(LocalSettings(tmp_path))
    cache = Cache(RUNTIME)
    one = Committed(block, home("one", "first"), RUNTIME, cache=cache)
    two = Committed(block, home("two", "second"), RUNTIME, cache=cache)
    metarange = one.write([rows(MODEL)])
    assert content(one, metarange) == MODEL
    assert two.write([rows(MODEL)]) == metarange
    (ref,) = two._files.metarange(metarange).refs
    assert (tmp_path / "lake/two" / range_path(ref.range_id)).exists()


OTHERS = {
    "another place": home("two", "second"),
    "the same place, after the first was deleted": home("one", "second"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_repositories_do_not_share_cached_ranges(
    tmp_path: Path, other: str, memory_bytes: int
) -> None:
    block = open_block(LocalSettings(tmp_path / "blocks"))
    settings = CacheSettings(memory_bytes=memory_bytes, disk_folder=tmp_path / "cache")
    cache = Cache(RUNTIME, settings)
    one = Committed(block, home("one", "first"), RUNTIME, cache=cache, breaks=SMALL)
    metarange = one.write([rows(MODEL)])
    assert content(one, metarange) == MODEL  # now it is in the caches
    ranges = one._files.metarange(metarange).refs
    remove_blocks(tmp_path)
    two = Committed(block, OTHERS[other], RUNTIME, cache=cache, breaks=SMALL)
    with pytest.raises(MissingFile):
        two._files.metarange(metarange)
    with pytest.raises(MissingFile):
        two._files.range(ranges[0].range_id)
    assert two.write([rows(MODEL)]) == metarange
    assert content(two, metarange) == MODEL


def test_a_range_cached_on_disk_is_not_assumed_stored(tmp_path: Path) -> None:
    metarange = with_disk(tmp_path).write([rows(MODEL)])
    assert content(with_disk(tmp_path), metarange) == MODEL  # now it is in the cache
    remove_blocks(tmp_path)
    store = with_disk(tmp_path)
    assert content(store, metarange) == MODEL
    assert store.write([rows(MODEL)]) == metarange
    store.check_stored(metarange)
