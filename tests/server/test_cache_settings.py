"""The cache on disk, from the settings of a server to what it does."""

import shutil
from pathlib import Path

import pytest

from tests.server.disk_kit import first_commit, serve
from tests.server.kit import REPOSITORY, Server


def read(server: Server, ref: str) -> int:
    path = f"/repositories/{REPOSITORY}/refs/{ref}/objects/stat"
    return server.call("GET", path, params={"path": "a"}).status_code


def cached(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in (folder / "cache").rglob("*") if file.is_file()}


@pytest.fixture
def head(tmp_path: Path) -> str:
    """A commit with an object."""
    return first_commit(tmp_path)


def test_a_new_process_reads_cached_ranges_without_the_storage(tmp_path: Path, head: str) -> None:
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
    assert caplog.text.count("is damaged and fetched again") == 2


def test_the_cache_keeps_no_more_than_it_may(tmp_path: Path, head: str) -> None:
    with serve(tmp_path, cache__disk_folder=tmp_path / "cache", cache__disk_bytes=100) as server:
        assert read(server, head) == 200
    assert cached(tmp_path) == {}
