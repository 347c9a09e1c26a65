"""Programs that know fsspec read and write a lake."""

import gc
import pickle
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lakebed

TABLE = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def files(lake: lakebed.Lake) -> Any:
    return lake.filesystem()


@pytest.fixture
def place(main: lakebed.Branch) -> str:
    return f"lakebed://{main.repository}/{main.id}"


def test_pandas_reads_and_writes(files: Any, place: str, main: lakebed.Branch) -> None:
    frame = TABLE.to_pandas()
    for suffix in ("parquet", "csv"):
        name = f"{place}/tables/t.{suffix}"
        options = {"storage_options": files.storage_options}
        getattr(frame, f"to_{suffix}")(name, index=False, **options)
        found = getattr(pd, f"read_{suffix}")(name, **options)
        pd.testing.assert_frame_equal(found, frame)
    assert [each.path for each in main.uncommitted()] == ["tables/t.csv", "tables/t.parquet"]


@pytest.mark.slow
def test_dask_reads_and_writes_in_its_processes(folder_lake: lakebed.Lake, tmp_path: Path) -> None:
    main = folder_lake.repository("dask").create().branch("main")
    options = {"storage_options": {"folder": str(tmp_path / "data")}}
    frame = dd.from_pandas(pd.DataFrame({"n": range(100)}), npartitions=2)
    frame.to_parquet("lakebed://dask/main/table", **options)
    assert [each.path for each in main.objects()] == [f"table/part.{n}.parquet" for n in (0, 1)]
    found = dd.read_parquet("lakebed://dask/main/table", **options)
    assert found.n.sum().compute(scheduler="processes", num_workers=1) == 4950


def test_duckdb_reads_and_writes(files: Any, place: str) -> None:
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        connection.sql("SELECT range AS n FROM range(1000)").write_parquet(f"{place}/n.parquet")
        found = connection.sql(f"SELECT count(*), sum(n) FROM '{place}/*.parquet'").fetchall()
    assert found == [(1000, 499500)]


def test_a_created_directory_is_empty_as_duckdb_2_expects(files: Any, place: str) -> None:
    """DuckDB 2 lists the directory of ``COPY … PARTITION_BY`` after `mkdir`."""
    with pytest.raises(FileNotFoundError):
        files.ls(f"{place}/parts")
    files.mkdir(f"{place}/parts/")
    assert files.ls(f"{place}/parts") == []
    assert files.isdir(f"{place}/parts")
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        rows = "SELECT range AS n, range % 2 AS k FROM range(10)"
        connection.execute(f"COPY ({rows}) TO '{place}/parts' (FORMAT parquet, PARTITION_BY k)")
        query = f"SELECT k, count(*) FROM '{place}/parts/*/*.parquet' GROUP BY 1 ORDER BY 1"
        assert connection.execute(query).fetchall() == [(0, 5), (1, 5)]
    files.rm(f"{place}/parts", recursive=True)
    files.rmdir(f"{place}/parts")
    assert not files.exists(f"{place}/parts")


def test_pyarrow_reads_and_writes(files: Any, place: str, main: lakebed.Branch) -> None:
    inside = place.removeprefix("lakebed://")
    pq.write_table(TABLE, f"{inside}/one.parquet", filesystem=files)
    assert pq.read_table(f"{inside}/one.parquet", filesystem=files).equals(TABLE)
    ds.write_dataset(
        TABLE,
        f"{inside}/all",
        filesystem=files,
        format="parquet",
        partitioning=["name"],
        partitioning_flavor="hive",
    )
    found = ds.dataset(f"{inside}/all", filesystem=files, partitioning="hive").to_table()
    assert sorted(found["id"].to_pylist()) == [1, 2, 3]
    assert len(list(main.objects("all/"))) == 3


def test_a_commit_is_read_as_it_was(files: Any, place: str, main: lakebed.Branch) -> None:
    files.pipe(f"{place}/a", b"old")
    commit = main.commit("Old")
    files.pipe(f"{place}/a", b"new")
    assert files.cat(f"{main.repository}/{commit.id}/a") == b"old"
    assert files.cat(f"{main.repository}/main~0/a") == b"old"
    assert files.cat(f"{place}/a") == b"new"


def test_folders_are_listed_copied_and_removed(
    files: Any, place: str, main: lakebed.Branch, repository: lakebed.Repository
) -> None:
    above = f"{main.repository}/main"
    assert main.repository in files.ls("", detail=False)
    assert files.ls(main.repository, detail=False) == [above]
    assert files.ls(above) == []
    for path in ("a", "in/b", "in/deep/c"):
        files.pipe(f"{place}/{path}", path.encode())
    assert files.ls(f"{place}/", detail=False) == [f"{above}/a", f"{above}/in"]
    assert files.find(place) == [f"{above}/a", f"{above}/in/b", f"{above}/in/deep/c"]
    assert files.glob(f"{place}/**/c") == [f"{above}/in/deep/c"]
    assert (files.isdir(f"{place}/in"), files.isfile(f"{place}/in")) == (True, False)
    assert (files.isfile(f"{place}/a"), files.exists(f"{place}/b")) == (True, False)
    assert files.info(f"{place}/a")["size"] == 1
    assert files.checksum(f"{place}/a") != files.checksum(f"{place}/in/b")
    assert files.modified(f"{place}/a").tzinfo is not None
    files.mv(f"{place}/a", f"{place}/moved/a")
    files.cp(f"{place}/in/", f"{place}/copy/", recursive=True)
    files.makedirs(f"{place}/new/folder")
    with pytest.raises(IsADirectoryError):
        files.rm(f"{place}/in")
    files.rm(f"{place}/in", recursive=True)
    left = [each.path for each in main.objects()]
    assert left == ["copy/b", "copy/deep/c", "moved/a"]
    with pytest.raises(FileNotFoundError):
        files.ls(f"{place}/in")
    with pytest.raises(FileNotFoundError):
        files.info("no-such-repository/main/a")


def test_unsupported_operations_are_explained(files: Any, place: str) -> None:
    with pytest.raises(lakebed.Invalid, match="objects are written as a whole"):
        files.open(f"{place}/a", "ab")
    with pytest.raises(lakebed.Invalid, match="is not a file"):
        files.open(place, "wb")
    with pytest.raises(lakebed.Invalid, match="merge it"), files.transaction:
        files.open(f"{place}/a", "wb")
    with pytest.raises(lakebed.Invalid, match="not both"):
        fsspec.filesystem("lakebed", folder="f", endpoint="http://127.0.0.1:1")


def test_it_is_found_by_its_name_and_goes_to_other_processes(tmp_path: Path) -> None:
    """As a scheduler sends it to its workers."""
    with lakebed.open(tmp_path) as lake:
        lake.repository("abc").create().branch("main").object("a").upload("text")
    files = fsspec.filesystem("lakebed", folder=str(tmp_path))
    type(files).clear_instance_cache()
    again = pickle.loads(pickle.dumps(files))
    assert again is not files
    assert again.cat("abc/main/a") == b"text"


def test_an_unreferenced_filesystem_closes_its_connection(tmp_path: Path) -> None:
    files = fsspec.filesystem("lakebed", folder=str(tmp_path))
    lake = files._lake
    type(files).clear_instance_cache()
    assert list(lake.repositories()) == []
    del files
    gc.collect()
    with pytest.raises(lakebed.LakeError, match="closed"):
        list(lake.repositories())
