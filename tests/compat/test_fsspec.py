"""lakefs-spec, and what reads through it: pandas and DuckDB."""

from pathlib import Path

import duckdb
import lakefs
import pandas as pd
import pytest
from lakefs_spec import LakeFSFileSystem

from lakebed.testing.servers.lakebed import LakebedServer

TABLE = pd.DataFrame({"name": ["Baikal", "Inari", "Ladoga"], "depth": [1642, 92, 230]})


@pytest.fixture
def lake(lakebed: LakebedServer, repository_name: str) -> tuple[LakeFSFileSystem, str]:
    options = {
        "host": lakebed.endpoint,
        "username": lakebed.access_key_id,
        "password": lakebed.secret_access_key,
    }
    repository = lakefs.Repository(repository_name, client=lakefs.Client(**options))
    repository.create(storage_namespace=f"{lakebed.namespace}/{repository_name}")
    return LakeFSFileSystem(**options, skip_instance_cache=True), f"{repository_name}/main"


def test_files(lake: tuple[LakeFSFileSystem, str], tmp_path: Path) -> None:
    fs, root = lake
    fs.pipe(f"{root}/a/one.txt", b"one")
    fs.pipe(f"{root}/a/b/two.txt", b"two")
    with fs.open(f"{root}/a/three.txt", "w") as file:
        file.write("three")
    names = sorted(entry["name"] for entry in fs.ls(f"{root}/a/"))
    assert names == [f"{root}/a/b/", f"{root}/a/one.txt", f"{root}/a/three.txt"]
    assert sorted(fs.glob(f"{root}/a/*.txt")) == [f"{root}/a/one.txt", f"{root}/a/three.txt"]
    assert len(fs.find(f"{root}/a")) == 3
    assert fs.cat(f"{root}/a/b/two.txt") == b"two"
    assert fs.info(f"{root}/a/one.txt")["size"] == 3
    local = tmp_path / "local.txt"
    local.write_text("from disk")
    fs.put(str(local), f"{root}/put.txt")
    fs.get(f"{root}/put.txt", str(tmp_path / "back.txt"))
    assert (tmp_path / "back.txt").read_text() == "from disk"
    fs.cp(f"{root}/put.txt", f"{root}/copy.txt")
    assert fs.exists(f"{root}/copy.txt")
    fs.rm(f"{root}/a", recursive=True)
    assert not fs.exists(f"{root}/a/one.txt")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{root}/none", "r").read()


@pytest.mark.filterwarnings("ignore:Finished transaction:UserWarning")
def test_transactions(lake: tuple[LakeFSFileSystem, str]) -> None:
    fs, root = lake
    repository, branch = root.split("/")
    with fs.transaction(repository, branch) as transaction:
        fs.pipe(f"{repository}/{transaction.branch.id}/x", b"1")
        transaction.commit(message="in one go")
    assert fs.cat(f"{root}/x") == b"1"

    def fail() -> None:
        with fs.transaction(repository, branch) as transaction:
            fs.pipe(f"{repository}/{transaction.branch.id}/y", b"2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not fs.exists(f"{root}/y")


def test_pandas(lake: tuple[LakeFSFileSystem, str]) -> None:
    fs, root = lake
    with fs.open(f"{root}/lakes.parquet", "wb") as file:
        TABLE.to_parquet(file)
    with fs.open(f"{root}/lakes.parquet", "rb") as file:
        pd.testing.assert_frame_equal(pd.read_parquet(file), TABLE)


def test_duckdb(lake: tuple[LakeFSFileSystem, str]) -> None:
    fs, root = lake
    for part in range(3):
        with fs.open(f"{root}/parts/{part}.parquet", "wb") as file:
            TABLE.assign(part=part).to_parquet(file)
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        found = connection.sql(
            f"select part, max(depth) from 'lakefs://{root}/parts/*.parquet' group by 1 order by 1"
        ).fetchall()
    assert found == [(0, 1642), (1, 1642), (2, 1642)]
