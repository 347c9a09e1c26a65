"""Which files the sqlite driver opens, creates and refuses."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lakebed.kv import ForeignStore, InvalidArgument, StoreUnavailable, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lakebed.db"


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/file.db",
        "sqlite:file.db",
        "sqlite:///folder/",
        "sqlite:///file.db?mode=ro",
        "sqlite:///file.db#part",
    ],
)
def test_urls_that_name_no_file_are_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


def test_three_slashes_are_relative_to_the_folder_at_the_time_of_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///data/new/100% no.db") as store:
        store.set(b"p", b"k", b"v")
        monkeypatch.chdir("/")
        with ThreadPoolExecutor(4) as pool:  # some of them need new connections
            values = [pool.submit(store.get, b"p", b"k").result().value for _ in range(8)]
    assert values == [b"v"] * 8
    assert (tmp_path / "data" / "new" / "100% no.db").is_file()


# Files of others


def make_text(path: Path) -> None:
    path.write_text("some notes, longer than the header of a database\n" * 100)


def make_short(path: Path) -> None:
    path.write_bytes(b"x")


def make_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entries (partition, key, value, version)")


def make_crashed_database(path: Path) -> None:
    """A database with a log that its owner left behind, which opening it would work off."""
    with closing(sqlite3.connect(path.with_name("owner"), isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE theirs (value)")
        for suffix in ("", "-wal"):
            shutil.copy(path.with_name("owner" + suffix), path.with_name(path.name + suffix))
    path.with_name("owner").unlink()
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def make_log_without_file(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"the last writes")


@pytest.mark.parametrize(
    "make", [make_text, make_short, make_database, make_crashed_database, make_log_without_file]
)
def test_files_of_others_are_refused_and_left_untouched(
    make: Callable[[Path], None], path: Path, tmp_path: Path
) -> None:
    make(path)
    before = contents(tmp_path)
    with pytest.raises(ForeignStore, match=r"lakebed\.db"):
        open_store(f"sqlite:///{path}")
    assert contents(tmp_path) == before


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignStore, match="not a file"):
        open_store(f"sqlite:///{tmp_path}")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with open_store(f"sqlite:///{path}") as store:
        store.set(b"p", b"k", b"v")
    with open_store(f"sqlite:///{path}") as store:
        assert store.get(b"p", b"k").value == b"v"


def test_a_folder_that_cannot_be_made_is_named(path: Path) -> None:
    path.write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"lakebed\.db"):
        open_store(f"sqlite:///{path}/below/lakebed.db")


def test_looking_at_a_file_keeps_the_locks_on_it(path: Path) -> None:
    """Closing a file drops this process's locks on it, unless SQLite does the closing."""
    take_lock = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)\n"
        "connection.execute('PRAGMA locking_mode = EXCLUSIVE')\n"
        "connection.execute('BEGIN EXCLUSIVE')\n"
        "connection.execute('DELETE FROM entries')\n"
    )
    url = f"sqlite:///{path}"
    with open_store(url) as first:
        first.set(b"p", b"k", b"v")
        open_store(url).close()
        other = subprocess.run(
            [sys.executable, "-c", take_lock, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "database is locked" in other.stderr


# Several at once


def test_racing_threads_create_a_store_together(tmp_path: Path) -> None:
    for number in range(10):
        path = tmp_path / str(number) / "lakebed.db"
        barrier = threading.Barrier(8)

        def open_and_write(
            thread: int, path: Path = path, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait()
            with open_store(f"sqlite:///{path}") as store:
                store.set(b"p", b"%d" % thread, b"v")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(open_and_write, range(8)))
        with open_store(f"sqlite:///{path}") as store:
            assert len(list(store.scan(b"p"))) == 8


def test_racing_processes_create_a_store_together(path: Path) -> None:
    code = (
        "import sys\n"
        "from lakebed.kv import open_store\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
        "with open_store(sys.argv[1]) as store: store.set(b'p', sys.argv[2].encode(), b'v')\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"sqlite:///{path}", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    with open_store(f"sqlite:///{path}") as store:
        assert [entry.key for entry in store.scan(b"p")] == [b"0", b"1", b"2", b"3"]
