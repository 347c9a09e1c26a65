"""What goes wrong while a run is under way: an error of one line, and nothing live deleted."""

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import psutil
import pytest
from pyspark.sql import SparkSession

from lakebed.auth import AuthCacheSettings
from lakebed.block import S3Settings
from lakebed.clients import cli
from lakebed.clients.cli.running import run
from lakebed.clients.http.retry import OUTLAST_RESTARTS
from lakebed.reclaim.collector.spark import TASK_LOGGERS
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.kit.object_stores import BUCKET
from tests.kit.served import eventually
from tests.kit.unruly_proxy import UnrulyProxy, unruly_proxy
from tests.spark.clients import Client, files, folder_of, sign_in

pytestmark = pytest.mark.timeout(600)

When = Callable[[str, Callable[[], object]], None]

PREPARED = "Reading commits"
JUDGED = "objects to delete"


def make_garbage(client: Client) -> None:
    """Two objects that stay, two that are overwritten before anybody committed them."""
    for number in range(3):
        client.upload("a", f"a{number}")
    client.commit()
    client.upload("b", "staged")


def quiet_run(client: Client) -> int:
    return run(cli.app, ["gc", "run", f"lakefs://{client.repository}", "--no-concurrent-writers"])


@pytest.fixture
def when(monkeypatch: pytest.MonkeyPatch) -> When:
    """Does something, once, when a run says that it got so far."""

    def do(words: str, then: Callable[[], object]) -> None:
        left = [then]

        def say(line: str) -> None:
            if words in line and left:
                left.pop()()

        monkeypatch.setattr("lakebed.clients.cli.commands.gc.warn", say)

    return do


@pytest.fixture
def server(sqlite_lakebed: LakebedServer, monkeypatch: pytest.MonkeyPatch) -> LakebedServer:
    sign_in(sqlite_lakebed, monkeypatch)
    return sqlite_lakebed


@pytest.fixture
def client(server: LakebedServer, repository_name: str, spark: SparkSession) -> Iterator[Client]:
    client = Client(server, repository_name)
    make_garbage(client)
    yield client
    client.close()


@pytest.fixture
def mortal_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakebedServer]:
    """A server of its own, to be treated badly."""
    with lakebed_server(tmp_path) as started:
        sign_in(started, monkeypatch)
        yield started


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def test_a_repository_deleted_while_a_run_is_under_way(
    client: Client,
    server: LakebedServer,
    when: When,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = files(server, client.repository)
    when(PREPARED, lambda: client.send("DELETE", f"repositories/{client.repository}"))
    assert quiet_run(client) == 1
    assert f"{client.repository}" in one_line(capsys)
    assert files(server, client.repository) == before


def test_credentials_that_are_revoked_while_a_run_is_under_way(
    client: Client,
    server: LakebedServer,
    when: When,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = files(server, client.repository)
    made = client.send("POST", "auth/users/admin/credentials").json()
    key = made["access_key_id"]
    monkeypatch.setenv("LAKEBED_ACCESS_KEY_ID", key)
    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", made["secret_access_key"])

    def revoke() -> None:
        client.send("DELETE", f"auth/users/admin/credentials/{key}")
        time.sleep(AuthCacheSettings().cache_seconds)  # so long another worker may still let it in

    when(PREPARED, revoke)
    assert quiet_run(client) == 1
    assert "(401)" in one_line(capsys)
    assert files(server, client.repository) == before
    sign_in(server, monkeypatch)
    assert quiet_run(client) == 0
    assert len(files(server, client.repository)) == 2
    assert (client.read("a"), client.read("b")) == ("a2", "staged")


def test_a_commit_whose_files_are_missing(
    client: Client, server: LakebedServer, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run names the commit and says what to do; with the file back, it goes on."""
    before = files(server, client.repository)
    log = client.send("GET", f"repositories/{client.repository}/refs/main/commits").json()
    head = log["results"][0]
    folder = folder_of(server, client.repository) / "_lakebed"
    (metarange,) = folder.glob(f"metaranges/{head['meta_range_id']}*")
    (range_,) = folder.glob("ranges/*")
    for file in (metarange, range_):
        aside = file.rename(server.folder / f"{client.repository}.aside")
        assert quiet_run(client) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert f"commit {head['id']} of repository {client.repository}" in line
        assert f"(metarange {head['meta_range_id']}) cannot be read: local://" in line
        assert f"{file.name} is missing in the storage. Nothing was deleted" in line
        assert "restore the file from a backup" in line
        assert files(server, client.repository) == before
        aside.rename(file)
    assert quiet_run(client) == 0
    assert len(files(server, client.repository)) == 2
    assert (client.read("a"), client.read("b")) == ("a2", "staged")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    for name in TASK_LOGGERS:  # no traceback on the terminal
        assert jvm.org.apache.logging.log4j.LogManager.getLogger(name).getLevel().name() == "OFF"


def test_a_server_that_goes_away_while_a_run_is_under_way(
    mortal_server: LakebedServer,
    spark: SparkSession,
    when: When,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = Client(mortal_server, "lake")
    make_garbage(client)
    before = files(mortal_server, "lake")
    leader = psutil.Process(mortal_server.process.pid)
    again: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        for process in [leader, *leader.children(recursive=True)]:
            process.kill()
        mortal_server.process.wait()

    def start() -> None:
        time.sleep(1)  # for so long it is away
        config = str(mortal_server.folder / "lakebed.yaml")
        with (mortal_server.folder / "server-2.log").open("wb") as log:
            command = [sys.executable, "-m", "lakebed", "run", "--config", config]
            again.append(subprocess.Popen(command, stdout=log, stderr=log))

    monkeypatch.setattr(
        "lakebed.clients.garbage.server.OUTLAST_RESTARTS",
        replace(OUTLAST_RESTARTS, seconds_max=0.2),
    )
    when(PREPARED, kill)
    assert quiet_run(client) == 1
    assert "cannot reach" in one_line(capsys)
    assert files(mortal_server, "lake") == before
    # Now it comes back in time.
    monkeypatch.setattr("lakebed.clients.garbage.server.OUTLAST_RESTARTS", OUTLAST_RESTARTS)
    start()
    starter = threading.Thread(target=start)
    try:
        eventually(client.answers)

        def restart() -> None:
            again[0].kill()
            again[0].wait()
            starter.start()

        when(PREPARED, restart)
        assert quiet_run(client) == 0
        assert len(files(mortal_server, "lake")) == 2
        assert (client.read("a"), client.read("b")) == ("a2", "staged")
    finally:
        if starter.ident is not None:
            starter.join()
        for process in again:
            process.terminate()
            process.wait(timeout=60)
        client.close()


@pytest.fixture
def proxy(seaweedfs_settings: S3Settings) -> Iterator[UnrulyProxy]:
    assert seaweedfs_settings.endpoint is not None
    with unruly_proxy(seaweedfs_settings.endpoint) as proxy:
        yield proxy


@pytest.fixture
def s3_client(
    seaweedfs_settings: S3Settings,
    proxy: UnrulyProxy,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Client]:
    """A repository on S3; garbage collection goes through the proxy, the server does not."""
    keys = {
        "access_key_id": seaweedfs_settings.access_key_id,
        "secret_access_key": seaweedfs_settings.secret_access_key,
    }
    s3 = {"endpoint": seaweedfs_settings.endpoint, "path_style": True, **keys}
    through_proxy = replace(seaweedfs_settings, endpoint=proxy.endpoint)
    # Executors have the environment of the Spark that all tests share.
    monkeypatch.setattr(
        "lakebed.clients.cli.commands.gc._block_settings", lambda _local_root: through_proxy
    )
    settings = {"blockstore": {"type": "s3", "s3": s3}}
    namespace = f"s3://{BUCKET}/failures-{uuid.uuid4().hex[:8]}"
    with lakebed_server(tmp_path, settings=settings, namespace=namespace) as server:
        sign_in(server, monkeypatch)
        client = Client(server, "lake")
        make_garbage(client)
        client.prefix = f"{namespace.removeprefix(f's3://{BUCKET}/')}/lake/repos/"
        yield client
        client.close()


def stored(settings: S3Settings, client: Client) -> set[str]:
    s3 = boto3.client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=settings.secret_access_key,
    )
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=client.prefix)
    s3.close()
    return {each["Key"] for each in found["Contents"]}


def test_a_storage_that_refuses(
    s3_client: Client,
    proxy: UnrulyProxy,
    seaweedfs_settings: S3Settings,
    when: When,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = stored(seaweedfs_settings, s3_client)
    assert len(before) == 4
    # The credentials expire.
    expired = dict.fromkeys(("GET", "HEAD", "PUT", "POST", "DELETE"), (400, "ExpiredToken"))
    when(JUDGED, lambda: proxy.refused.update(expired))
    assert quiet_run(s3_client) == 1
    assert "the storage refused a request" in one_line(capsys)
    assert stored(seaweedfs_settings, s3_client) == before
    # They are not good for deleting.
    proxy.refused.clear()
    proxy.refused["POST"] = 403, "AccessDenied"
    assert quiet_run(s3_client) == 1
    assert "2 objects could not be deleted: the credentials do not allow access" in one_line(capsys)
    assert stored(seaweedfs_settings, s3_client) == before
    # They are.
    proxy.refused.clear()
    assert quiet_run(s3_client) == 0
    left = stored(seaweedfs_settings, s3_client)
    assert len(left) == 2
    assert left < before
    assert (s3_client.read("a"), s3_client.read("b")) == ("a2", "staged")


def test_a_server_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEBED_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("LAKEBED_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", "b")
    assert run(cli.app, ["gc", "run", "lakefs://lake"]) == 1
    assert "cannot reach" in one_line(capsys)
