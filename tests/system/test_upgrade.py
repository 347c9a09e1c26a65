"""Stores of other versions: a store of schema 1 is refused, one of the base version is shared.

`older_lakebed.tar.xz` is a server of schema 1, before retention: its commits have no time of
storing, no branch and no sources. `lakebed-0.2.0.tar.xz` is the base version, from which upgrades
start. Both were made by::

    git archive <commit> src/lakebed ':!src/lakebed/server/ui/app/vendor' | xz -9e
"""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from lakebed.testing.servers.lakebed import (
    Settings,
    end,
    launch,
    log_of,
    settings_in,
    wait_until_ready,
)

pytestmark = pytest.mark.extended

OLDER: Final = Path(__file__).with_name("older_lakebed.tar.xz")
BASE: Final = Path(__file__).with_name("lakebed-0.2.0.tar.xz")
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

    def content(self, ref: str) -> dict[str, str]:
        """All objects of a ref, with what is in them."""
        listed = self.ask("GET", f"/repositories/lake/refs/{ref}/objects/ls")["results"]
        where = f"/repositories/lake/refs/{ref}/objects"
        paths = [each["path"] for each in listed]
        return {path: self.api.get(where, params={"path": path}).text for path in paths}

    def log(self, ref: str) -> list[tuple[str, str]]:
        found = self.ask("GET", f"/repositories/lake/refs/{ref}/commits")["results"]
        return [(each["id"], each["message"]) for each in found]


def settings_for(folder: Path, data: Path, database: str) -> Settings:
    folder.mkdir()
    return settings_in(
        folder,
        {
            "database": {"url": f"sqlite:///{data}/{database}.db"},
            "blockstore": {"local": {"root": str(data / "objects")}},
            "processes": {"workers": 1, "shutdown_seconds": 5},
        },
    )


@contextmanager
def serving(
    folder: Path, data: Path, database: str, *, source: Path | None = None
) -> Iterator[Server]:
    """Start a server on the data, of the sources in a folder or of this version."""
    sections = settings_for(folder, data, database)
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
def test_the_refs_of_an_older_version_move_by_a_dump(tmp_path: Path) -> None:
    with tarfile.open(OLDER) as archive:
        archive.extractall(tmp_path / "older", filter="data")
    data = tmp_path / "data"
    data.mkdir()
    where = "/repositories/lake"
    place = {"name": "lake", "storage_namespace": "local://lake"}
    with serving(tmp_path / "a", data, "old", source=tmp_path / "older" / "src") as older:
        set_up(older)
        older.ask("POST", "/repositories", json=place)
        older.put("main", "a.txt", b"by the older one")
        older.commit("main", "one")
        older.ask("POST", f"{where}/branches", json={"name": "dev", "source": "main"})
        older.put("dev", "b.txt", b"on a branch")
        older.commit("dev", "two")
        older.ask("POST", f"{where}/tags", json={"id": "v1", "ref": "main"})
        refs = ("main", "dev", "v1")
        before = [(older.content(ref), older.log(ref)) for ref in refs]
        dump = older.ask("PUT", f"{where}/refs/dump")

    folder = tmp_path / "b"
    process = launch(folder, settings_for(folder, data, "old"), "-m", "lakebed", "run", "--config")
    try:
        assert process.wait(PATIENCE_SECONDS) != 0
    finally:
        end(process)
    assert "the store has schema version 1, but this Lakebed supports only 2" in log_of(folder)

    (data / "objects" / "lake" / "_lakebed" / "owner").unlink()
    with serving(tmp_path / "c", data, "new") as newer:
        set_up(newer)
        newer.ask("POST", "/repositories?bare=true", json=place)
        newer.ask("PUT", f"{where}/refs/restore", json=dump)
        assert [(newer.content(ref), newer.log(ref)) for ref in refs] == before
        newer.put("dev", "c.txt", b"by the newer one")
        newer.commit("dev", "three")
        assert set(newer.content("dev")) == {"a.txt", "b.txt", "c.txt"}


def set_up(server: Server) -> httpx.Auth:
    made = server.ask("POST", "/setup_lakefs", json={"username": "admin"})
    server.api.auth = keys = httpx.BasicAuth(made["access_key_id"], made["secret_access_key"])
    return keys


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_base_version_and_this_one_serve_one_store(tmp_path: Path) -> None:
    with tarfile.open(BASE) as archive:
        archive.extractall(tmp_path / "base", filter="data")
    data = tmp_path / "data"
    data.mkdir()
    branches = "/repositories/lake/branches"
    place = {"name": "lake", "storage_namespace": "local://lake"}
    with (
        serving(tmp_path / "a", data, "store", source=tmp_path / "base" / "src") as base,
        serving(tmp_path / "b", data, "store") as newer,
    ):
        newer.api.auth = set_up(base)
        base.ask("POST", "/repositories", json=place)
        for one, other, branch in ((base, newer, "one"), (newer, base, "two")):
            one.ask("POST", branches, json={"name": branch, "source": "main"})
            other.put(branch, f"{branch}.txt", b"staged by the other version")
            assert one.content(branch)[f"{branch}.txt"] == "staged by the other version"
            commit = one.commit(branch, "one")
            assert other.log(branch)[0] == (commit, "one")
            other.ask("POST", f"/repositories/lake/refs/{branch}/merge/main", json={})
            assert one.content("main") == other.content(branch)
            one.ask("DELETE", f"{branches}/{branch}")
            assert other.api.get(f"{branches}/{branch}").status_code == 404
