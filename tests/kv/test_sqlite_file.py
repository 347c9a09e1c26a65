"""Which files the sqlite driver opens, creates and refuses."""

import shutil
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lakebed.kv import ForeignStore, InvalidArgument, StoreUnavailable, open_store
from lakebed.kv.drivers import local_disk


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


# File systems

MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
28 27 0:40 / /srv/nfs rw,relatime master:3 - nfs4 server:/export rw,vers=4.2
29 28 254:1 / /srv/nfs/local rw,relatime - xfs /dev/vdb rw
30 27 0:41 / /srv/with\040space rw - cifs //server/share rw
31 27 0:42 / /mnt/auto rw - autofs systemd-1 rw
32 31 0:43 / /mnt/auto rw - nfs server:/home rw
33 27 0:44 / /mnt/ssh rw - fuse.sshfs someone@server: rw
34 27 0:45 / /mnt/host rw - virtiofs host rw
a line of another kind
"""


@pytest.mark.parametrize(
    ("path", "file_system"),
    [
        ("/srv/nfs/lakebed.db", "nfs4"),
        ("/srv/nfs/folder/that/is/not/there/lakebed.db", "nfs4"),
        ("/srv/nfs/local/lakebed.db", "xfs"),
        ("/srv/nfsx/lakebed.db", "ext4"),
        ("/srv/with space/lakebed.db", "cifs"),
        ("/mnt/auto/lakebed.db", "nfs"),
        ("/mnt/ssh/lakebed.db", "fuse.sshfs"),
        ("/mnt/host/lakebed.db", "virtiofs"),
        ("/var/lib/lakebed.db", "ext4"),
        ("/var/lib/../../srv/nfs/lakebed.db", "nfs4"),
    ],
)
def test_the_file_system_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, file_system: str
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    monkeypatch.setattr(local_disk, "MOUNTS", tmp_path / "mountinfo")
    assert local_disk.file_system_of(Path(path)) == file_system


def test_a_file_on_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountinfo").write_text(f"1 0 0:1 / {tmp_path} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(local_disk, "MOUNTS", tmp_path / "mountinfo")
    place = tmp_path / "new" / "lakebed.db"
    with pytest.raises(InvalidArgument, match=r"network file system \(nfs4\).* or PostgreSQL"):
        open_store(f"sqlite:///{place}")
    assert not place.parent.exists()


@pytest.mark.parametrize(("file_system", "warnings"), [("9p", 1), ("virtiofs", 0), ("ext4", 0)])
def test_other_file_systems_are_not_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    file_system: str,
    warnings: int,
) -> None:
    (tmp_path / "mountinfo").write_text(f"1 0 0:1 / {tmp_path} rw - {file_system} host rw\n")
    monkeypatch.setattr(local_disk, "MOUNTS", tmp_path / "mountinfo")
    open_store(f"sqlite:///{tmp_path}/lakebed.db").close()
    texts = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(texts) == warnings
    assert all("lakebed.db is on a file system (9p)" in text for text in texts)


def test_a_system_without_a_mount_table_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_disk, "MOUNTS", tmp_path / "none")
    open_store(f"sqlite:///{tmp_path}/lakebed.db").close()
