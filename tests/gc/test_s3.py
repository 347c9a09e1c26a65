"""Runs over S3: the same job, another storage."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakebed.block import S3Settings, open_block
from lakebed.gc.listing import folders
from lakebed.graveler.model import BranchID
from lakebed.kv import open_store
from tests.gc.lakes import DEV, REPOSITORY, GCLake, gc_lake

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, seaweedfs_settings: S3Settings) -> Iterator[GCLake]:
    with (
        open_store(f"sqlite:///{tmp_path}/lake.db") as store,
        open_block(seaweedfs_settings) as block,
    ):
        namespace = f"s3://lake/gc-{uuid.uuid4().hex[:8]}"
        yield gc_lake(store, block, seaweedfs_settings, spark, namespace=namespace)


def test_branches_and_partitions_are_found_without_listing_all(lake: GCLake) -> None:
    for name in ("dev-2", "dev0", "devel"):
        lake.lake.graveler.create_branch(REPOSITORY, BranchID(name), "main")
    names = [DEV, BranchID("dev-2"), BranchID("dev0"), BranchID("devel")]
    for name in names:
        lake.upload("a", name, name)
        lake.upload("b", name, name)
    repository = lake.lake.repository
    parent = repository.namespace.folder(f"repos/{repository.unique_id}/branches")
    # In the order of paths: what follows a name is a slash.
    assert list(folders(lake.lake.block, parent)) == ["dev-2", "dev", "dev0", "devel"]


def test_two_runs(lake: GCLake) -> None:
    kept = {lake.upload("a", "1")}
    lake.commit()
    lake.upload("b", "2")
    kept.add(lake.upload("b", "3"))
    lake.upload("c", "4", DEV)
    lake.lake.graveler.delete_branch(REPOSITORY, DEV)
    first, second = lake.collect()
    assert (first.waiting, first.deleted) == (2, 0)
    assert (second.mode, second.deleted, second.failed) == ("optimized", 2, 0)
    assert lake.stored() == kept
