import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakebed.block import LocalSettings, Namespace, StorageUnavailable, open_block
from lakebed.kv import StoreUnavailable
from lakebed.server.http import readiness as readiness_module
from lakebed.server.http.readiness import NotReady, Readiness
from lakebed.server.probes import StorageProbe
from lakebed.server.settings import BlockstoreSettings
from tests.server.kit import server

HOST = "db.internal.example"


def answer() -> None:
    """A question that is answered."""


def test_a_server_whose_parts_answer_is_ready() -> None:
    with server() as served:
        for path in ("/readiness", "/api/v1/readiness"):
            found = served.request("GET", path)
            assert (found.status_code, found.json) == (200, {"database": "ok", "storage": "ok"})
            assert served.request("HEAD", path).status_code == 200


def test_readiness_names_the_failed_part_but_not_its_host(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with server() as served:

        def fail(*_: object) -> None:
            raise StoreUnavailable(f"cannot connect to {HOST}")

        monkeypatch.setattr(served.services.foundation.store, "get", fail)
        found = served.request("GET", "/readiness")
        assert found.status_code == 503
        assert found.headers["Retry-After"] == "1"
        assert found.json == {
            "database": "does not answer",
            "storage": "ok",
            "message": "the database does not answer",
            "kind": "not_ready",
        }
        assert HOST not in found.text
        assert HOST in caplog.text
        monkeypatch.undo()
        assert served.request("GET", "/readiness").status_code == 200
        assert served.request("GET", "/_health").status_code == 200


def test_a_question_that_hangs_takes_bounded_time_and_one_thread() -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait()

    readiness = Readiness({"database": hang, "storage": answer}, bound_seconds=0.05)
    for _ in range(20):
        with pytest.raises(NotReady, match=r"^the database does not answer$") as caught:
            readiness.check()
        assert isinstance(caught.value.__cause__, TimeoutError)
    asking = [each for each in threading.enumerate() if each.name == "readiness-database"]
    assert len(asking) == 1
    release.set()
    asking[0].join()
    readiness.check()


def test_probes_do_not_wait_for_what_has_hung_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait()

    moments = iter([0.0])  # the question is asked; an hour later come the probes
    clock = SimpleNamespace(monotonic=lambda: next(moments, 3600.0))
    monkeypatch.setattr(readiness_module, "time", clock)
    readiness = Readiness({"database": hang}, bound_seconds=3600.0)
    for _ in range(30):
        with pytest.raises(NotReady):
            readiness.check()  # would wait for an hour
    release.set()


def test_all_that_fail_are_named() -> None:
    def fail() -> None:
        raise StorageUnavailable("no route")

    with pytest.raises(NotReady, match=r"^the database and the storage do not answer$"):
        Readiness({"database": fail, "storage": fail}).check()


def test_a_folder_that_is_gone_is_no_answer(tmp_path: Path) -> None:
    root = tmp_path / "objects"
    settings = BlockstoreSettings(local=LocalSettings(root))
    with open_block(settings.block) as block:
        ask = StorageProbe(block, settings, lambda: None)
        ask()
        shutil.move(root, tmp_path / "elsewhere")
        with pytest.raises(FileNotFoundError):
            ask()
        shutil.move(tmp_path / "elsewhere", root)
        ask()


@pytest.mark.parametrize("prefix", [None, "s3://", "/not/an/address"])
def test_a_cloud_is_asked_where_a_repository_is(
    monkeypatch: pytest.MonkeyPatch, prefix: str | None
) -> None:
    settings = BlockstoreSettings(type="memory", default_namespace_prefix=prefix)
    with open_block(settings.block) as block:
        monkeypatch.setattr(block, "scheme", "s3")
        asked: list[str] = []
        monkeypatch.setattr(block, "head", lambda address: asked.append(str(address)))
        namespaces = [None, Namespace.parse("s3://bucket/lake")]
        ask = StorageProbe(block, settings, lambda: namespaces.pop(0))
        for _ in range(3):
            ask()
        assert asked == ["s3://bucket/lake/lakebed-readiness/not-there"] * 2


def test_a_database_that_is_away_is_not_the_fault_of_the_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find() -> Namespace | None:
        raise StoreUnavailable("away")

    settings = BlockstoreSettings(type="memory")
    with open_block(settings.block) as block:
        monkeypatch.setattr(block, "scheme", "s3")
        asked: list[str] = []
        monkeypatch.setattr(block, "head", lambda address: asked.append(str(address)))
        StorageProbe(block, settings, find)()
        assert asked == []


def test_a_cloud_is_asked_where_its_repositories_go(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BlockstoreSettings(type="memory", default_namespace_prefix="s3://bucket/lakes/")
    with open_block(settings.block) as block:
        monkeypatch.setattr(block, "scheme", "s3")
        asked: list[str] = []
        monkeypatch.setattr(block, "head", lambda address: asked.append(str(address)))
        StorageProbe(block, settings, lambda: None)()
        assert asked == ["s3://bucket/lakes/lakebed-readiness/not-there"]
