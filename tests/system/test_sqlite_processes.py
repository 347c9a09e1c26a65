"""Processes that share a file of the sqlite driver, meet a limit, or end without closing it."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.kv import open_store

LIMITED_FILE_SIZE = """
import resource, sys
from lakebed.kv import OutcomeUnknown, StoreUnavailable, open_store

path = sys.argv[1]
with open_store(f"sqlite:///{path}") as store:
    store.set(b"p", b"before", b"v")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        store.set(b"p", b"failed", bytes(200_000))
    except OutcomeUnknown as error:
        assert not isinstance(error, StoreUnavailable), repr(error)
    else:
        sys.exit("the write fitted")
    store.set(b"p", b"small", b"v")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.set(b"p", b"after", b"v")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lakebed.db"


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


def test_a_commit_that_fails_is_unknown_and_the_next_one_works(path: Path) -> None:
    subprocess.run([sys.executable, "-c", LIMITED_FILE_SIZE, str(path)], check=True)
    with open_store(f"sqlite:///{path}") as store:
        assert [entry.key for entry in store.scan(b"p")] == [b"after", b"before", b"small"]


def test_a_store_that_is_never_closed_lets_the_program_end(path: Path) -> None:
    code = (
        "import sys; from lakebed.kv import open_store\n"
        "store = open_store(sys.argv[1]); store.set(b'p', b'k', b'v')"
    )
    subprocess.run([sys.executable, "-c", code, f"sqlite:///{path}"], check=True, timeout=60)
    with open_store(f"sqlite:///{path}") as store:
        assert store.get(b"p", b"k").value == b"v"
