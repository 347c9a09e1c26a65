"""A folder may be open in several processes: a server's, and this one."""

import inspect
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lakebed
from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.served import eventually


def write(branch: lakebed.Branch, mark: str) -> None:
    """Upload and commit, as others do so too."""
    for number in range(20):
        branch.object(f"{mark}-{number}").upload(mark)
        if number % 5 == 4:
            branch.commit(f"{mark} {number}", allow_empty=True)


_OTHER_PROCESS = f"""
import sys, lakebed
{inspect.getsource(write)}
with lakebed.open(sys.argv[1], committer="other") as lake:
    write(lake.repository("shared").branch("main"), "other")
"""


@pytest.mark.slow
def test_a_folder_is_shared_with_its_running_server(
    sqlite_lakebed: LakebedServer, server_lake: lakebed.Lake
) -> None:
    name = f"shared-{uuid.uuid4().hex[:12]}"
    with lakebed.open(sqlite_lakebed.folder, committer="ada") as here:
        with pytest.raises(lakebed.Invalid, match="pass a storage_namespace, such as local://"):
            server_lake.repository(name).create()  # this server has no place for repositories
        ours = here.repository(name).create().branch("main")
        theirs = server_lake.repository(name).branch("main")
        theirs.object("theirs").upload("by the server")
        assert ours.object("theirs").reader().read() == b"by the server"
        ours.object("ours").upload("by this process")
        assert theirs.object("ours").reader().read() == b"by this process"
        assert ours.commit("Both").committer == "ada"
        assert theirs.get_commit().message == "Both"

        with ThreadPoolExecutor() as threads:
            started = [threads.submit(write, ours, "ours"), threads.submit(write, theirs, "theirs")]
            for each in started:
                each.result()
        theirs.commit("The rest", allow_empty=True)
        expected = sorted(
            ["ours", "theirs", *(f"{who}-{n}" for who in ("ours", "theirs") for n in range(20))]
        )
        assert [each.path for each in ours.head.objects()] == expected
        assert [each.path for each in theirs.head.objects()] == expected
        assert list(ours.uncommitted()) == []


@pytest.mark.slow
def test_two_processes_without_a_server_lose_nothing(tmp_path: Path) -> None:
    with lakebed.open(tmp_path, committer="me") as lake:
        main = lake.repository("shared").create().branch("main")
        other = subprocess.Popen([sys.executable, "-c", _OTHER_PROCESS, str(tmp_path)])
        eventually(lambda: other.poll() is not None or any(main.objects("other")))
        write(main, "me")
        assert other.wait(timeout=240) == 0
        main.commit("The rest", allow_empty=True)
        expected = sorted(f"{mark}-{n}" for mark in ("me", "other") for n in range(20))
        assert [each.path for each in main.head.objects()] == expected
        assert {"me", "other"} <= {each.committer for each in main.log()}


def test_a_folder_that_is_made_is_closed_to_others(tmp_path: Path) -> None:
    with lakebed.open(tmp_path / "new" / "data"):
        assert (tmp_path / "new" / "data").stat().st_mode & 0o077 == 0


def test_failures_to_open_are_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(lakebed.LakeError, match="cannot use the folder of the lake"):
        lakebed.open(tmp_path / "file")
    with pytest.raises(lakebed.Invalid, match="not an endpoint"):
        lakebed.connect("nowhere", "key", "secret")
    with pytest.raises(lakebed.Invalid, match="a key needs a url"):
        lakebed.connect(None, "key", "secret")
    with (
        lakebed.connect("http://127.0.0.1:1", "key", "secret") as lake,
        pytest.raises(lakebed.Unavailable, match="check that the server is running"),
    ):
        list(lake.repositories())
