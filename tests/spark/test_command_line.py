"""The command line and the data source against a real server."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import lakefs
import pytest
from pyspark.sql import SparkSession

from lakebed.clients import cli
from lakebed.clients.cli.running import run
from lakebed.clients.garbage.datasource import LakebedDataSource
from lakebed.clients.garbage.server import GarbageServer
from lakebed.formats.gc_files import GCMarker
from lakebed.testing.servers.lakebed import LakebedServer
from tests.spark.clients import Client, files, folder_of, root, sign_in

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def client(
    sqlite_lakebed: LakebedServer, repository_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    sign_in(sqlite_lakebed, monkeypatch)
    client = Client(sqlite_lakebed, repository_name)
    yield client
    client.close()


def test_the_command_line(
    client: Client,
    sqlite_lakebed: LakebedServer,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client.upload("a", "committed")
    client.commit()
    client.upload("b", "overwritten")
    client.upload("b", "committed over it")
    client.commit()
    client.upload("c", "staged")
    uri = f"lakefs://{client.repository}"
    place = ["--json"]  # this is the server's own machine
    assert len(files(sqlite_lakebed, client.repository)) == 4

    assert run(cli.app, ["gc", "check", uri, *place]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert [check["check"] for check in checks] == [
        "server", "list", "read", "write and delete", "clocks",
    ]  # fmt: skip

    assert run(cli.app, ["gc", "run", uri, "--no-concurrent-writers", *place]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["deleted"], summary["committed"], summary["held"]) == (1, 2, 1)
    assert len(files(sqlite_lakebed, client.repository)) == 3
    assert (client.read("a"), client.read("c")) == ("committed", "staged")

    assert run(cli.app, ["gc", "run", uri, *place]) == 0
    assert json.loads(capsys.readouterr().out)["mode"] == "optimized"
    assert run(cli.app, ["gc", "runs", uri, *place]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert [each["summary"]["deleted"] for each in runs] == [1, 0]
    assert [each["state"] for each in runs] == ["done", "done"]
    assert run(cli.app, ["gc", "show", uri, summary["run_id"], *place]) == 0
    branches = json.loads(capsys.readouterr().out)["branches"]
    assert {(each["branch"], each["verdict"], each["objects"]) for each in branches} == {
        ("main", "committed", 2),
        ("main", "held", 1),
        ("main", "due", 1),
    }


def test_a_quiet_run_after_uploads_by_the_python_client(
    client: Client,
    sqlite_lakebed: LakebedServer,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It uploads by links, which hold nothing once they are staged."""
    key_pair = sqlite_lakebed.access_key_id, sqlite_lakebed.secret_access_key
    lakes = lakefs.Client(host=sqlite_lakebed.endpoint, username=key_pair[0], password=key_pair[1])
    main = lakefs.Repository(client.repository, client=lakes).branch("main")
    for number in range(3):
        main.object("a").upload(data=f"version {number}", pre_sign=True)
    main.object("gone").upload(data="deleted", pre_sign=True)
    main.object("gone").delete()
    main.commit("m")
    # Somebody asked for an address, and went away.
    client.send(
        "GET",
        f"repositories/{client.repository}/branches/main/staging/backing",
        params={"path": "never", "presign": "true"},
    )
    uri = f"lakefs://{client.repository}"
    assert len(files(sqlite_lakebed, client.repository)) == 4
    assert run(cli.app, ["gc", "run", uri, "--no-concurrent-writers"]) == 1
    assert "1 unfinished uploads: list them with" in capsys.readouterr().err
    assert run(cli.app, ["gc", "end-uploads", uri, "--all", "--yes"]) == 0
    capsys.readouterr()
    assert run(cli.app, ["gc", "run", uri, "--no-concurrent-writers", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["deleted"], summary["committed"]) == (3, 1)
    assert client.read("a") == "version 2"
    assert len(files(sqlite_lakebed, client.repository)) == 1


def test_another_folder_than_the_server_s(
    client: Client,
    sqlite_lakebed: LakebedServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other, copy, same = tmp_path / "other", tmp_path / "copy", tmp_path / "same"
    other.mkdir()
    assert run(cli.app, ["gc", "check", f"lakefs://{client.repository}"]) == 0
    # The copy has marks in all places where the server leaves them, but those of yesterday.
    (marks,) = folder_of(sqlite_lakebed, client.repository).glob("_lakebed/gc/*/marks")
    shutil.copytree(root(sqlite_lakebed), copy)
    for place in range(256):
        mark = copy / marks.relative_to(root(sqlite_lakebed)) / f"{place:02x}"
        mark.write_text(f"{place:02x}" * 16)
    capsys.readouterr()
    same.symlink_to(root(sqlite_lakebed))
    for command in ("run", "check"):
        for folder in (other, copy):
            arguments = ["gc", command, f"lakefs://{client.repository}"]
            assert run(cli.app, [*arguments, "--local-root", str(folder)]) == 1
            error = capsys.readouterr().err
            assert "not the server's storage" in error
            assert f"({folder}): give its folder on this machine by --local-root" in error
    assert list(other.iterdir()) == []  # nobody made a storage of it
    arguments = ["gc", "check", f"lakefs://{client.repository}"]
    assert run(cli.app, [*arguments, "--local-root", str(same)]) == 0


def test_a_server_on_another_machine(
    client: Client,
    sqlite_lakebed: LakebedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its folder has the same name as one here, which is that of another server."""
    here = tmp_path / "objects"
    shutil.copytree(root(sqlite_lakebed), here)
    before = sorted(here.rglob("*"))
    rightly = GarbageServer.write_marker

    def write_marker(self: GarbageServer) -> tuple[GCMarker, Path | None]:
        found, there = rightly(self)
        assert there == root(sqlite_lakebed)
        return found, here

    monkeypatch.setattr(GarbageServer, "write_marker", write_marker)
    assert run(cli.app, ["gc", "run", f"lakefs://{client.repository}"]) == 1
    assert "give its folder on this machine by --local-root" in capsys.readouterr().err
    assert sorted(here.rglob("*")) == before
    place = ["--local-root", str(root(sqlite_lakebed))]
    assert run(cli.app, ["gc", "check", f"lakefs://{client.repository}", *place]) == 0


def test_the_data_source(
    client: Client, sqlite_lakebed: LakebedServer, spark: SparkSession
) -> None:
    for path in ("a/1", "a/2", "b/3"):
        client.upload(path, path)
    client.commit()
    client.upload("a/staged", "not shown")
    spark.dataSource.register(LakebedDataSource)
    objects = (
        spark.read.format("lakebed")
        .option("endpoint", sqlite_lakebed.endpoint)
        .option("access_key_id", sqlite_lakebed.access_key_id)
        .option("secret_access_key", sqlite_lakebed.secret_access_key)
        .option("local_root", str(root(sqlite_lakebed)))
        .load(f"lakefs://{client.repository}/main/a/")
    )
    rows = objects.orderBy("path").collect()
    assert [(row.path, row.size) for row in rows] == [("a/1", 3), ("a/2", 3)]
    assert rows[0].address.startswith(f"{sqlite_lakebed.namespace}/{client.repository}/repos/")
