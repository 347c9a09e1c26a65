"""What only RocksDB does: a folder of its own, and no process that outlives a failed write."""

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from lakebed.base.runtime import ThreadRuntime, call_before_waiting
from lakebed.kv import ForeignStore, InvalidArgument, StoreUnavailable, open_store
from lakebed.kv.drivers import local_disk
from lakebed.kv.drivers.rocksdb import RocksDBStore
from lakebed.kv.fenced import EXIT_CODE

T = TypeVar("T")

FILL_THE_DISK = """
import resource, signal, sys
from lakebed.kv import open_store
store = open_store(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for number in range(100):
    store.set(b"p", b"%03d" % number, bytes(10_000))
    print(number, flush=True)
"""


@pytest.mark.parametrize("url", ["rocksdb://", "rocksdb:///", "rocksdb://host/path", "rocksdb:x"])
def test_a_url_names_a_folder(url: str) -> None:
    with pytest.raises(InvalidArgument, match="a rocksdb store is a directory"):
        open_store(url)


def test_a_url_has_no_options(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="has no options"):
        open_store(f"rocksdb:///{tmp_path}/kv?sync=false")


def test_a_folder_of_others_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ForeignStore, match="is not empty, and not a Lakebed store"):
        open_store(f"rocksdb:///{tmp_path}")
    assert [each.name for each in tmp_path.iterdir()] == ["notes"]
    with pytest.raises(StoreUnavailable, match="cannot use"):
        open_store(f"rocksdb:///{tmp_path}/notes")


def test_a_folder_on_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountinfo").write_text(f"1 0 0:1 / {tmp_path} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(local_disk, "MOUNTS", tmp_path / "mountinfo")
    with pytest.raises(InvalidArgument, match=r"network file system \(nfs4\)"):
        open_store(f"rocksdb:///{tmp_path}/kv")
    assert not (tmp_path / "kv").exists()


def test_a_process_ends_with_a_write_that_rocksdb_does_not_take(tmp_path: Path) -> None:
    url = f"rocksdb:///{tmp_path}/kv"
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, url], capture_output=True, text=True, check=False
    )
    assert done.returncode == EXIT_CODE, done.stderr
    acknowledged = [b"%03d" % int(number) for number in done.stdout.split()]
    assert acknowledged
    with open_store(url) as store:
        assert [item.key for item in store.scan(b"p")][: len(acknowledged)] == acknowledged


def test_a_write_is_visible_only_after_its_sync(tmp_path: Path) -> None:
    store = RocksDBStore(tmp_path / "kv", ThreadRuntime())
    flushes, may_flush = threading.Event(), threading.Event()
    flush = store._database.flush_wal

    class Held:
        """The database, with a disk that waits for us."""

        def __getattr__(self, name: str) -> object:
            return getattr(database, name)

        def flush_wal(self, *, sync: bool) -> None:
            flushes.set()
            assert may_flush.wait(60)
            flush(sync)

    database = store._database
    store.set(b"p", b"other", b"old")
    store._database = Held()  # type: ignore[assignment] # the test
    waits = threading.Semaphore(0)

    def saying_that_it_waits(read: Callable[[], T]) -> T:
        call_before_waiting(waits.release)
        return read()

    with ThreadPoolExecutor() as pool, ExitStack() as at_end:
        written = pool.submit(store.set, b"p", b"key", b"new")
        at_end.callback(may_flush.set)
        assert flushes.wait(30)
        assert store.get(b"p", b"other").value == b"old"  # this one waits for nothing
        got = pool.submit(saying_that_it_waits, lambda: store.get(b"p", b"key"))
        assert waits.acquire(timeout=30)
        scanned = pool.submit(saying_that_it_waits, lambda: list(store.scan(b"p")))
        for _ in range(2):  # at first for the database, which answers, and then for the disk
            assert waits.acquire(timeout=30)
        assert not any(each.done() for each in (written, got, scanned))
        may_flush.set()
        assert got.result().predicate == written.result()
        assert [item.key for item in scanned.result()] == [b"key", b"other"]
    store.close()
