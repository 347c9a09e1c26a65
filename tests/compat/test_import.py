"""Imports by the clients that people have, and by our command line, against real servers."""

import json
from pathlib import Path

import boto3
import lakefs_sdk as sdk
import pytest
from botocore.config import Config
from lakefs import Client, Repository
from lakefs.import_manager import ImportManager
from lakefs_sdk.exceptions import ApiException

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.cli_kit import CommandLine


@pytest.fixture
def repository(sqlite_lakebed: LakebedServer, repository_name: str) -> Repository:
    server = sqlite_lakebed
    client = Client(
        host=server.endpoint, username=server.access_key_id, password=server.secret_access_key
    )
    made = Repository(repository_name, client=client)
    return made.create(storage_namespace=f"{server.namespace}/{repository_name}")


@pytest.fixture
def files(sqlite_lakebed: LakebedServer, repository_name: str) -> Path:
    """A folder of the server's storage that no repository knows."""
    folder = sqlite_lakebed.folder / "objects" / "outside" / repository_name
    for name in ("a.txt", "b/1", "b/2", "bell\a"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_the_python_wrapper_imports(repository: Repository, files: Path) -> None:
    main = repository.branch("main")
    place = f"local://outside/{files.name}"
    manager: ImportManager = main.import_data(commit_message="bring it in", metadata={"by": "me"})
    status = manager.prefix(f"{place}/", "lake/").object(f"{place}/a.txt", "one.txt").run()
    assert (status.completed, status.ingested_objects) == (True, 4)
    assert status.commit.message == "bring it in"
    assert status.commit.metadata == {"by": "me", ".lakefs.merge.strategy": "source-wins"}
    assert [each.path for each in main.objects()] == [
        "lake/a.txt", "lake/b/1", "lake/b/2", "one.txt",
    ]  # fmt: skip
    assert main.object("lake/b/1").reader(mode="r").read() == "b/1"
    assert ".lakefs.last.import.timestamp" in repository.metadata
    with pytest.raises(Exception, match="completed") as over:
        manager.cancel()
    assert getattr(over.value, "status_code", None) == 409


def test_a_changed_object_answers_410(
    repository: Repository, files: Path, sqlite_lakebed: LakebedServer
) -> None:
    main = repository.branch("main")
    main.import_data("in").prefix(f"local://outside/{files.name}/", "").run()
    (files / "b/1").write_text("B/1")
    objects = main.object("b/1")._client.sdk_client.objects_api
    for presign in (False, True):
        with pytest.raises(ApiException) as gone:
            objects.get_object(repository.id, "main", "b/1", presign=presign)
        assert gone.value.status == 410
        assert "changed since import" in gone.value.body
    s3 = boto3.client(
        "s3",
        endpoint_url=sqlite_lakebed.endpoint,
        aws_access_key_id=sqlite_lakebed.access_key_id,
        aws_secret_access_key=sqlite_lakebed.secret_access_key,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        region_name="us-east-1",
    )
    with pytest.raises(Exception, match="changed since import"):
        s3.get_object(Bucket=repository.id, Key="main/b/1")
    found = s3.get_object(Bucket=repository.id, Key="main/b/2")
    assert found["Body"].read() == b"b/2"


def test_statuses(repository: Repository, files: Path) -> None:
    api = repository.branch("main")._client.sdk_client.import_api
    place = f"local://outside/{files.name}"

    def start(*paths: tuple[str, str], kind: str = "common_prefix") -> str:
        locations = [
            sdk.ImportLocation(type=kind, path=path, destination=destination)
            for path, destination in paths
        ]
        creation = sdk.ImportCreation(paths=locations, commit=sdk.CommitCreation(message="m"))
        return str(api.import_start(repository.id, "main", creation).id)

    def refused(*paths: tuple[str, str], kind: str = "common_prefix") -> tuple[int, str]:
        with pytest.raises(ApiException) as error:
            start(*paths, kind=kind)
        return error.value.status, error.value.body

    status, body = refused((place, "a/b"), (place, "a"))
    assert status == 400
    assert "'a/'" in body
    assert "'a/b/'" in body
    namespace = str(repository.properties.storage_namespace)
    status, body = refused((namespace, ""))
    assert (status, json.loads(body)["message"]) == (400, "invalid import source")
    assert refused((namespace.rsplit("/", 1)[0], ""))[0] == 400
    assert refused((f"{place}/../x", ""))[0] == 400
    assert refused(("s3://other/x", ""))[0] == 400
    assert refused((f"{place}/a.txt", "x/"), kind="object")[0] == 400
    with pytest.raises(ApiException) as unknown:
        api.import_status(repository.id, "main", "unknown")
    assert unknown.value.status == 404
    with pytest.raises(ApiException) as unknown:
        api.import_cancel(repository.id, "main", "unknown")
    assert unknown.value.status == 404


def test_an_import_of_nothing_is_a_commit(repository: Repository) -> None:
    main = repository.branch("main")
    head = main.get_commit().id
    commit = main.import_data(commit_message="nothing").run().commit
    assert (commit.message, commit.parents) == ("nothing", [head])


def test_config_says_that_imports_are_there(repository: Repository) -> None:
    config = repository.branch("main")._client.sdk_client.config_api.get_config()
    assert config.storage_config.import_support
    assert config.storage_config.import_validity_regex == "^local://.+"


@pytest.fixture
def command(
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    return CommandLine(sqlite_lakebed, monkeypatch, capsys)


def test_one_command_imports_a_folder(
    command: CommandLine, repository: Repository, files: Path
) -> None:
    target = f"lakefs://{repository.id}/main/lake/"
    source = f"local://outside/{files.name}"
    asked = ("import", "--from", source, "--to", target)
    code, printed, said = command.result(*asked, "-m", "in", "--meta", "k=v")
    assert (code, printed.count("\n")) == (0, 1)
    assert f"Imported 3 object(s) from {source} in commit " in printed
    assert "1 object(s) were skipped" in said
    assert "bell\\x07" in said
    assert "cannot import" in command.error(*asked, "--strict")
    nothing = command.error("import", "--from", f"{source}/nothing", "--to", target)
    assert "nothing to import" in nothing
    one = command.json("import", "--from", f"{source}/a.txt", "--to", f"{target}one", "--object")
    assert (one["objects"], one["skipped"]) == (1, 0)
    paths = [each.path for each in repository.branch("main").objects()]
    assert paths == ["lake/a.txt", "lake/b/1", "lake/b/2", "lake/one"]
    assert "needs a path in --to" in command.result(*asked[:3], "--to", target[:-5], "--object")[2]
