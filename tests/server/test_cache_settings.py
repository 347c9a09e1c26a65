"""The cache on disk and the builders, from the settings of a server to what it does."""

import multiprocessing
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakebed.server.app import open_services
from lakebed.server.config_files import load
from tests.server.kit import ADMIN, BRANCH, REPOSITORY, Server


@contextmanager
def serve(folder: Path, **flags: object) -> Iterator[Server]:
    """A server on data in a folder, as a new process would open it."""
    settings = load(
        environment={},
        flags={
            "database.url": f"sqlite:///{folder}/lakebed.db",
            "blockstore.local.root": folder / "objects",
            "auth.secret_key": "0123456789abcdef0123456789abcdef",
            **{name.replace("__", "."): value for name, value in flags.items()},
        },
    )
    services = open_services(settings)
    try:
        yield Server(services)
    finally:
        services.close()


def commit(server: Server) -> str:
    path = f"/repositories/{REPOSITORY}/branches/{BRANCH}/commits"
    answer = server.call("POST", path, json={"message": "some"})
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def read(server: Server, ref: str) -> int:
    path = f"/repositories/{REPOSITORY}/refs/{ref}/objects/stat"
    return server.call("GET", path, params={"path": "a"}).status_code


def cached(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in (folder / "cache").rglob("*") if file.is_file()}


@pytest.fixture
def head(tmp_path: Path) -> str:
    """A commit with an object."""
    with serve(tmp_path) as server:
        server.services.auth.setup("admin", ADMIN)
        body = {"name": REPOSITORY, "storage_namespace": f"local://lakes/{REPOSITORY}"}
        assert server.call("POST", "/repositories", json=body).status_code == 201
        server.put("a")
        return commit(server)


def test_what_was_read_once_is_read_by_a_new_process_without_the_storage(
    tmp_path: Path, head: str
) -> None:
    folder = tmp_path / "cache"
    with serve(tmp_path, cache__disk_folder=folder) as server:
        assert read(server, head) == 200
    shutil.rmtree(tmp_path / f"objects/lakes/{REPOSITORY}/_lakebed")
    with serve(tmp_path, cache__disk_folder=folder) as server:
        assert [read(server, head), read(server, head)] == [200, 200]
    with serve(tmp_path) as server:
        assert read(server, head) == 410


def test_a_damaged_file_in_the_cache_is_found_and_replaced(
    tmp_path: Path, head: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cache"
    with serve(tmp_path, cache__disk_folder=folder) as server:
        assert read(server, head) == 200
    sound = cached(tmp_path)
    assert len(sound) == 2  # a metarange and a range
    for file, data in sound.items():
        file.write_bytes(data[:-20] + bytes(20))
    with serve(tmp_path, cache__disk_folder=folder) as server:
        assert read(server, head) == 200
    assert cached(tmp_path) == sound
    assert caplog.text.count("is damaged, it is fetched again") == 2


def test_the_cache_keeps_no_more_than_it_may(tmp_path: Path, head: str) -> None:
    with serve(tmp_path, cache__disk_folder=tmp_path / "cache", cache__disk_bytes=100) as server:
        assert read(server, head) == 200
    assert cached(tmp_path) == {}


@pytest.mark.usefixtures("head")
def test_a_commit_as_large_as_is_set_goes_to_a_builder(tmp_path: Path) -> None:
    with serve(tmp_path, engine__large_commit_keys=3) as server:
        for names, builders in (("bc", 0), ("def", 1)):
            for name in names:
                server.put(name)
            commit(server)
            children = multiprocessing.active_children()
            assert len(children) == builders
    for child in children:
        child.kill()
        child.join()
