"""Imports on Spark, by the command line and against a real server."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakebed.clients import cli
from lakebed.clients.cli.running import run
from lakebed.clients.http.http import Client as HTTPClient
from lakebed.clients.http.settings import ClientSettings
from lakebed.clients.ingest import job as jobs
from lakebed.clients.ingest import running
from lakebed.clients.ingest import server as ingest_server
from lakebed.clients.ingest.__main__ import main
from lakebed.clients.ingest.errors import ImportEnded
from lakebed.clients.ingest.job import IngestJob
from lakebed.clients.ingest.server import ImportBranch, ImportReporter, Started
from lakebed.reclaim.collector.storage import find_storage
from lakebed.testing.servers.lakebed import LakebedServer
from lakebed.wire.base import Error
from lakebed.wire.imports import (
    ImportCreation,
    ImportLocation,
    ImportQuery,
    ImportReport,
    ImportStatus,
)
from lakebed.wire.refs import CommitCreation
from tests.spark.clients import Client, folder_of, sign_in

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

NAMES = [f"{folder}/{number:02d}" for folder in ("a", "b/c", "d") for number in range(10)]
FOUND = sorted(["one", *NAMES])


@pytest.fixture
def client(
    sqlite_lakebed: LakebedServer, repository_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    sign_in(sqlite_lakebed, monkeypatch)
    client = Client(sqlite_lakebed, repository_name)
    yield client
    client.close()


@pytest.fixture
def source(sqlite_lakebed: LakebedServer, repository_name: str) -> str:
    """A folder of the server's storage that no repository knows."""
    folder = sqlite_lakebed.folder / "objects" / "outside" / repository_name
    for name in (*FOUND, "bell\a"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return f"local://outside/{repository_name}"


def imported(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(cli.app, ["import", *arguments, "--json"]) == 0, capsys.readouterr().err
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_the_command_line(
    client: Client,
    source: str,
    sqlite_lakebed: LakebedServer,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    to = f"lakefs://{client.repository}/main"
    by_server = imported(capsys, "--from", source, "--to", f"{to}/lake")
    on_spark = imported(capsys, "--from", source, "--to", f"{to}/lake", "--spark")
    for summary in (by_server, on_spark):
        assert (summary["objects"], summary["skipped"]) == (len(FOUND), 1)
    ranges = [each["commit"]["meta_range_id"] for each in (by_server, on_spark)]
    assert ranges[0] == ranges[1]
    assert client.read("lake/b/c/07") == "b/c/07"
    left = folder_of(sqlite_lakebed, client.repository) / "_lakebed/imports"
    assert [path for path in left.rglob("*") if path.is_file()] == []

    main(["--from", source, "--to", f"{to}/again", "-m", "by the other entry"])
    printed = capsys.readouterr()
    assert f"Imported {len(FOUND)} object(s) from {source} in commit " in printed.out
    assert client.read("again/one") == "one"

    for wrong, why in [
        (["--from", source, "--strict"], "without --strict"),
        (["--from", f"{source}/nothing"], "nothing to import"),
    ]:
        assert run(cli.app, ["import", *wrong, "--to", f"{to}/wrong", "--spark"]) == 1
        said = capsys.readouterr().err
        assert why in said
        assert "Traceback" not in said


class Making:
    """An import that a test makes step by step."""

    def __init__(self, client: Client, server: LakebedServer, source: str) -> None:
        self.branch = ImportBranch(client.repository, "main")
        settings = ClientSettings(server.endpoint, server.access_key_id, server.secret_access_key)
        self.http = HTTPClient(settings)
        path = ImportLocation(type="common_prefix", path=source, destination="lake")
        body = ImportCreation(paths=[path], commit=CommitCreation(message="m"), spark=True)
        answer = self.http.imports.start(client.repository, "main", body)
        self.started = Started.of(answer)
        self.query = ImportQuery(id=answer.id)
        self.server = ImportReporter(self.http, self.branch, self.started)
        self.storage = find_storage(self.started.marker, self.started.local_root)

    def job(self, spark: SparkSession) -> IngestJob:
        return IngestJob(spark, self.server, self.storage, self.started)

    def commits(self) -> int:
        """How many commits the branch has, with the one that it began with."""
        return len(self.http.refs.log(self.branch.repository, "main").results)

    def ended(self) -> ImportStatus:
        """How the import stands when it has ended; a test has a time-out."""
        while not (status := self.status()).completed and status.error is None:
            time.sleep(0.1)
        return status

    def status(self) -> ImportStatus:
        return self.http.imports.status(self.branch.repository, "main", self.query)

    def hand_in(self, metarange_id: str) -> None:
        self.server.report(ImportReport(paths=self.server.paths, metarange_id=metarange_id))


@pytest.fixture
def making(client: Client, source: str, sqlite_lakebed: LakebedServer) -> Iterator[Making]:
    made = Making(client, sqlite_lakebed, source)
    yield made
    made.http.close()


def test_a_cancel_ends_the_job(
    making: Making, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is canceled while executors are at work: these wait until the job is gone."""
    monkeypatch.setattr(ingest_server, "HEARTBEAT_SECONDS", 0.1)

    def endless(*_args: object, **_options: object) -> Callable[[object], Iterator[object]]:
        def read(_batches: object) -> Iterator[object]:
            time.sleep(120)
            yield from ()

        return read

    monkeypatch.setattr(jobs, "list_found", endless)
    job = making.job(spark)
    real = job._list

    def canceled(*args: Any) -> Any:
        making.http.imports.cancel(making.branch.repository, "main", making.query)
        return real(*args)

    monkeypatch.setattr(job, "_list", canceled)
    with pytest.raises(ImportEnded, match="Canceled"):
        job.run()
    assert making.status().error == Error(message="Canceled")


class Died(BaseException):
    """What a killed process does next: nothing."""


def test_a_job_that_dies_at_any_step_changes_nothing(
    client: Client,
    source: str,
    sqlite_lakebed: LakebedServer,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each step is done, and nothing after it. Then the import is made again, and ends well."""
    for step in ("_list", "_store_metarange"):
        making = Making(client, sqlite_lakebed, source)
        job = making.job(spark)
        real = getattr(job, step)

        def dying(*args: Any, real: Callable[..., Any] = real) -> Any:
            real(*args)
            raise Died

        monkeypatch.setattr(job, step, dying)
        for silent in ("_report_failure", "_remove_listing"):  # the dead do not speak or clean up
            monkeypatch.setattr(job, silent, lambda *_args: None)
        with pytest.raises(Died):
            job.run()
        assert not making.status().completed
        assert making.commits() == 1
        making.http.close()
    to = f"lakefs://{client.repository}/main/lake"
    assert imported(capsys, "--from", source, "--to", to, "--spark")["objects"] == len(FOUND)
    assert client.read("lake/one") == "one"


def test_the_server_hears_of_a_job_before_spark_is_there(
    making: Making, sqlite_lakebed: LakebedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where machines are busy, Spark takes longer to start than a silent job is waited for."""
    monkeypatch.setattr(ingest_server, "HEARTBEAT_SECONDS", 0.1)

    def starting(*_args: object, **_options: object) -> None:
        while making.status().current_prefix != "starting Spark":
            time.sleep(0.05)  # a test has a time-out
        raise Died

    monkeypatch.setattr(running, "new_session", starting)
    settings = ClientSettings(
        sqlite_lakebed.endpoint, sqlite_lakebed.access_key_id, sqlite_lakebed.secret_access_key
    )
    options = running.JobOptions()
    with pytest.raises(Died):
        running.run_job(settings, making.branch, making.started, options, lambda _line: None)


def test_what_is_handed_in_twice_or_made_twice_is_published_once(
    making: Making, client: Client, spark: SparkSession, sqlite_lakebed: LakebedServer
) -> None:
    ranges = Path(folder_of(sqlite_lakebed, client.repository)) / "_lakebed/ranges"
    job = making.job(spark)
    first = job._make()
    written = {path: path.read_bytes() for path in ranges.iterdir()}
    assert making.job(spark)._make() == first
    assert {path: path.read_bytes() for path in ranges.iterdir()} == written
    job._remove_listing()
    for _ in range(2):
        making.hand_in(first)
    assert making.ended().completed
    making.hand_in(first)
    assert making.commits() == 2
    assert client.read("lake/one") == "one"
