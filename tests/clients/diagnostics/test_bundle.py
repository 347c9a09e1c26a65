"""The bundle for bug reports: it tells what is wrong, survives it, and gives no secret away."""

import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakebed.auth import records_pb2 as auth_pb
from lakebed.auth.entities import keys as auth_keys
from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.keys import BRANCHES, LEASES
from lakebed.kv import StoreUnavailable, open_store
from lakebed.kv.drivers.sqlite.driver import SqliteStore
from lakebed.kv.records import Records
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.lake import records_pb2 as catalog_pb
from lakebed.lake.commits import HeadChanges
from lakebed.lake.keys import TASKS
from lakebed.testing.servers.object_stores import free_ports
from tests.kit.lake import MAIN, REPOSITORY, open_lake

pytestmark = pytest.mark.slow

PLANTED = {
    "object": "CONTENT-of-an-object",
    "credential": "SEALED-credential",
    "secret_key": "KEY-of-the-server-itself",
    "metrics": "KEY-for-all-the-metrics",
    "password": "p4$$ \"wörd'",
    "variable": "VARIABLE-of-the-cloud",
    "hook": "VARIABLE-for-a-hook",
    "log": "PASSWORD-in-the-log",
}


class Installation:
    """A server's folder: settings, database, storage and log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "lake.db"
        self.objects = folder / "objects"
        self.log = folder / "server.log"
        self.config = folder / "lakebed.yaml"
        self.settings: dict[str, Any] = {
            "listen": {"port": free_ports(1)[0]},
            "database": {"url": f"sqlite:///{self.database}"},
            "blockstore": {"local": {"root": str(self.objects)}},
            "auth": {"secret_key": PLANTED["secret_key"]},
            "metrics": {"key": PLANTED["metrics"]},
            "logging": {"file": str(self.log)},
        }

    def save(self) -> None:
        self.config.write_text(yaml.safe_dump(self.settings))


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    made = Installation(tmp_path)
    made.save()
    with open_lake("disk", tmp_path) as lake:
        lake.upload(b"committed", PLANTED["object"])
        HeadChanges(lake.engine).commit(
            REPOSITORY, MAIN, CommitRequest(committer="ann", message="one")
        )
        lake.upload(b"staged", PLANTED["object"])
        Records(lake.store, auth_keys.CREDENTIALS, auth_keys.AUTH).set(
            b"AKIA1", auth_pb.Credential(user="ada", secret=PLANTED["credential"].encode())
        )
    lines = [
        {"level": "info", "message": "not of interest"},
        {"level": "error", "message": f"cannot reach db://u:{PLANTED['log']}@host"},
        {"level": "warning", "message": f"it was {PLANTED['secret_key']}"},
    ]
    made.log.write_text("\n".join(map(json.dumps, lines)) + "\nERROR in plain text\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED["variable"])
    monkeypatch.setenv("LAKEFSACTION_X", PLANTED["hook"])
    return made


class Diagnosed:
    """A bundle that was made."""

    def __init__(self, file: Path, printed: str) -> None:
        self.printed = printed
        with zipfile.ZipFile(file) as bundle:
            names = bundle.namelist()
            texts = {name: bundle.read(name).decode() for name in names}
        self.text = "\n".join(texts.values())
        self.documents = {Path(name).stem: json.loads(text) for name, text in texts.items()}
        for name, secret in PLANTED.items():
            for form in {secret, json.dumps(secret)[1:-1]}:
                assert form not in self.text, name
                assert form not in self.printed, name

    def __getitem__(self, name: str) -> Any:
        return self.documents[name]

    @property
    def notes(self) -> list[str]:
        return self["summary"]["look_at"]  # type: ignore[no-any-return]


@pytest.fixture
def diagnose(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Diagnosed]:
    def run(*arguments: str) -> Diagnosed:
        file = installation.folder / "bundle.zip"
        command = ["diagnose", "--config", str(installation.config), "--output", str(file)]
        assert running.run(cli.app, [*command, *arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        assert file.stat().st_mode & 0o077 == 0
        return Diagnosed(file, printed.out)

    return run


def all_files(folder: Path) -> dict[Path, str]:
    return {
        path: sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"lake.db-shm", "lake.db-wal", "bundle.zip"}
    }


def test_an_installation_that_is_well(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    before = all_files(installation.folder)
    made = diagnose("--deep")
    assert all_files(installation.folder) == before, "it changed something"
    assert made.notes == []
    assert set(made.documents) == {
        "summary", "versions", "settings", "log", "database", "records", "branches", "stuck",
        "cleaner", "files", "storage", "garbage_collection", "clocks",
    }  # fmt: skip
    assert made["settings"]["auth"]["secret_key"] == "********"
    assert made["database"]["driver"] == "sqlite"
    assert made["database"]["latency_ms"]["median"] >= 0
    assert made["records"]["records"]["Commit"] == 2
    assert made["records"]["records"]["StagedEntry"] == 2
    assert made["storage"]["repositories"] == {"lake": "ok"}
    assert made["garbage_collection"] == {"lake": "never ran"}
    assert made["files"][0]["metaranges"] == 2
    assert (made["files"][0]["sampled"], made["files"][0]["damages"]) == (False, [])
    assert [each if isinstance(each, str) else each["level"] for each in made["log"]] == [
        "error",
        "warning",
        "ERROR in plain text",
    ]
    assert "no server responds" in made["clocks"]["server_ahead_seconds"]


def test_stuck_old_and_future_records_are_reported(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    with open_store(installation.settings["database"]["url"]) as store:
        lake = [each for each in store.partitions() if each.startswith(b"lake-")]
        (partition,) = [each for each in lake if b":" not in each]
        Records(store, TASKS, partition).set(
            b"t1", catalog_pb.Task(state=catalog_pb.TASK_STATE_RUNNING, updated_us=10**15)
        )
        branches = Records(store, BRANCHES, partition)
        main = branches.get(b"main").message
        main.sealed_tokens.extend(f"lake-main:{number}" for number in range(10))
        branches.set(b"main", main)
        dev = branches.get(b"dev").message
        old = pb.StagedEntry(identity=b"x", entry=pb.Entry(address="a", modified_us=10**15))
        store.set(dev.staging_token.encode(), b"key/old", old.SerializeToString())
        Records(store, LEASES, METADATA_PARTITION).set(b"other", pb.Lease(renewed_us=4 * 10**15))
    made = diagnose()
    assert [(each["kind"], each["key"]) for each in made["stuck"]] == [("Task", "tasks/t1")]
    assert {(each["branch"], each["sealed_tokens"]) for each in made["branches"]} == {
        ("main", 10),
        ("dev", 0),
    }
    assert made["branches"][0]["repository"] == "lake"
    assert made["clocks"]["latest_record_ahead_seconds"] > 10**9
    assert len(made.notes) == 3


def test_damaged_records_and_files_are_told(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    with open_store(installation.settings["database"]["url"]) as store:
        store.set(auth_keys.AUTH, b"credentials/AKIA1", b"\xff" + PLANTED["credential"].encode())
        store.set(METADATA_PARTITION, b"leases/cleaner", b"\xff")
    next(installation.objects.rglob("_lakebed/ranges/*")).unlink()
    made = diagnose()
    assert {(each["partition"], each["key"]) for each in made["records"]["damaged"]} == {
        ("auth", "credentials/AKIA1"),
        ("kv_metadata", "leases/cleaner"),
    }
    assert made["files"][0]["damages"][0]["what"] == "range"
    assert made.notes == [
        "repository lake: 1 problems",
        "2 records are damaged, see records.json",
    ]


def test_a_database_that_cannot_be_opened(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    installation.database.write_bytes(b"this is no database" * 1000)
    made = diagnose()
    assert "failed" in made["database"]
    assert made["storage"]["scheme"] == "local"


def test_a_database_that_does_not_answer(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    port = free_ports(1)[0]
    password = "p4%24%24%20%22w%C3%B6rd%27"
    url = f"postgresql://lake:{password}@127.0.0.1:{port}/lake"
    installation.settings["database"]["url"] = url
    installation.save()
    made = diagnose()
    assert "failed" in made["database"]
    assert password not in made.text
    assert made["settings"]["database"]["url"].startswith("postgresql://lake:********@127.0.0.1")


def test_a_storage_that_is_gone(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    installation.objects.rename(installation.folder / "elsewhere")
    made = diagnose("--deep")
    assert made["records"]["complete"]
    assert {each["what"] for each in made["files"][0]["damages"]} == {"metarange"}
    assert "failed" in made["storage"] or "FAILED" in json.dumps(made["storage"])


def test_settings_that_cannot_be_read(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    installation.config.write_text(f"auth: {{secret_key: [{PLANTED['secret_key']}")
    made = diagnose()
    assert "not valid YAML" in made["settings"]["failed"]
    assert made["versions"]["packages"]["lakebed"]


def test_a_log_that_is_not_there(
    installation: Installation, diagnose: Callable[..., Diagnosed]
) -> None:
    installation.log.unlink()
    made = diagnose()
    assert "failed" in made["log"]
    assert made["records"]["complete"]


def test_a_store_that_fails_half_way(
    diagnose: Callable[..., Diagnosed], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SqliteStore.scan_page

    def scan_page(self: SqliteStore, partition: bytes, *rest: Any) -> Any:
        if partition == b"graveler":
            raise StoreUnavailable("the disk is on fire")
        return original(self, partition, *rest)

    monkeypatch.setattr(SqliteStore, "scan_page", scan_page)
    monkeypatch.setattr("lakebed.kv.retries.PATIENCE_SECONDS", 0.0)
    made = diagnose()
    assert not made["records"]["complete"]
    assert made["records"]["records"]["Credential"] == 1
    assert "could not read all records: the disk is on fire" in made.notes
