"""A server of an older version and one of this version work on one store, one after the other.

`older_lakebed.tar.xz` is the server of before rules of retention: its commits do not say when they
were stored, from which branch they are, or what they took from others. It was made by::

    git archive <commit> src/lakebed | xz -9e
"""

import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from lakebed.testing.servers.lakebed import (
    end,
    launch,
    log_of,
    settings_in,
    wait_until_ready,
)

pytestmark = pytest.mark.extended

OLDER: Final = Path(__file__).with_name("older_lakebed.tar.xz")
PATIENCE_SECONDS: Final = 60


class Server:
    """A client of one of the servers."""

    def __init__(self, url: str) -> None:
        self.api = httpx.Client(base_url=f"{url}/api/v1", timeout=PATIENCE_SECONDS, trust_env=False)

    def ask(self, method: str, path: str, **options: Any) -> Any:
        answer = self.api.request(method, path, **options)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def put(self, branch: str, path: str, data: bytes) -> None:
        self.ask(
            "POST",
            f"/repositories/lake/branches/{branch}/objects",
            params={"path": path},
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )

    def commit(self, branch: str, message: str) -> str:
        where = f"/repositories/lake/branches/{branch}/commits"
        return str(self.ask("POST", where, json={"message": message})["id"])

    def merge(self, source: str, destination: str) -> str:
        where = f"/repositories/lake/refs/{source}/merge/{destination}"
        return str(self.ask("POST", where, json={})["reference"])

    def content(self, ref: str) -> dict[str, str]:
        """All objects of a ref, with what is in them."""
        listed = self.ask("GET", f"/repositories/lake/refs/{ref}/objects/ls")["results"]
        where = f"/repositories/lake/refs/{ref}/objects"
        paths = [each["path"] for each in listed]
        return {path: self.api.get(where, params={"path": path}).text for path in paths}

    def log(self, ref: str) -> list[tuple[str, str]]:
        found = self.ask("GET", f"/repositories/lake/refs/{ref}/commits")["results"]
        return [(each["id"], each["message"]) for each in found]


@contextmanager
def serving(folder: Path, data: Path, *, source: Path | None = None) -> Iterator[Server]:
    """Start a server on the data, of the sources in a folder or of this version."""
    folder.mkdir()
    sections = settings_in(
        folder,
        {
            "database": {"url": f"sqlite:///{data}/lakebed.db"},
            "blockstore": {"local": {"root": str(data / "objects")}},
            "processes": {"workers": 1, "shutdown_seconds": 5},
        },
    )
    environment = {} if source is None else {"PYTHONPATH": str(source)}
    command = ("-m", "lakebed", "run", "--config")
    process = launch(folder, sections, *command, environment=environment)
    url = f"http://127.0.0.1:{sections['listen']['port']}"
    try:
        wait_until_ready(process, folder, f"lakebed is ready at {url}")
        server = Server(url)
        with server.api:
            yield server
        assert "Traceback" not in log_of(folder)
    finally:
        end(process)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_versions_work_on_one_store_until_the_older_one_ends(tmp_path: Path) -> None:
    with tarfile.open(OLDER) as archive:
        archive.extractall(tmp_path / "older", filter="data")
    data = tmp_path / "data"
    data.mkdir()
    with ExitStack() as older_runs, ExitStack() as newer_runs:
        sources = tmp_path / "older" / "src"
        older = older_runs.enter_context(serving(tmp_path / "a", data, source=sources))
        made = older.ask("POST", "/setup_lakefs", json={"username": "admin"})
        keys = httpx.BasicAuth(made["access_key_id"], made["secret_access_key"])
        older.api.auth = keys
        place = {"name": "lake", "storage_namespace": "local://lake"}
        older.ask("POST", "/repositories", json=place)
        older.put("main", "a.txt", b"by the older one")
        older.commit("main", "one")
        older.put("main", "staged.txt", b"not committed by the older one")
        rules = {"default_retention_days": 30, "branches": []}
        where = "/repositories/lake/settings/gc_rules"
        assert older.api.put(where, json=rules).status_code == HTTPStatus.NOT_IMPLEMENTED

        newer = newer_runs.enter_context(serving(tmp_path / "b", data))
        newer.api.auth = keys
        assert newer.content("main") == older.content("main")
        newer.commit("main", "two, with what the older one staged")
        newer.ask("POST", "/repositories/lake/branches", json={"name": "dev", "source": "main"})
        newer.put("dev", "b.txt", b"by the newer one")
        newer.commit("dev", "three")

        # The older one goes on from records that the newer one has written, and the other way.
        older.put("dev", "c.txt", b"by the older one, over the newer one's commit")
        older.commit("dev", "four")
        older.merge("dev", "main")
        newer.put("dev", "d.txt", b"by the newer one, over the older one's commit")
        newer.commit("dev", "five")
        newer.merge("dev", "main")
        older.ask("POST", "/repositories/lake/tags", json={"id": "v1", "ref": "main"})
        assert set(newer.content("v1")) == {"a.txt", "b.txt", "c.txt", "d.txt", "staged.txt"}
        for ref in ("main", "dev", "v1"):
            assert newer.content(ref) == older.content(ref)
            assert newer.log(ref) == older.log(ref)

        # With the older one gone, what is new works on what is old.
        older_runs.close()
        newer.ask("PUT", where, json=rules)
        assert newer.ask("GET", where) == rules
        assert len(newer.content("v1")) == 5
