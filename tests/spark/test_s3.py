"""Runs over S3: the same job, another storage."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakebed.block import S3Settings, open_block
from lakebed.engine.model import BranchID
from lakebed.kv import open_store
from tests.kit.object_stores import BUCKET
from tests.spark.lakes import DEV, REPOSITORY, GCLake, gc_lake

pytestmark = pytest.mark.timeout(600)


@contextmanager
def s3_lake(settings: S3Settings, folder: Path, spark: SparkSession) -> Iterator[GCLake]:
    namespace = f"s3://{BUCKET}/gc-{uuid.uuid4().hex[:8]}"
    with open_store(f"sqlite:///{folder}/lake.db") as store, open_block(settings) as block:
        yield gc_lake(store, block, settings, spark, namespace=namespace)


def test_branches_are_found_without_listing_all(
    moto_settings: S3Settings, tmp_path: Path, spark: SparkSession
) -> None:
    with s3_lake(moto_settings, tmp_path, spark) as lake:
        names = [DEV, *map(BranchID, ("dev-2", "dev0", "devel"))]
        for name in names:
            if name != DEV:
                lake.lake.engine.refs.create_branch(REPOSITORY, name, "main")
            lake.upload("a", name, name)
            lake.upload("b", name, name)
        repository = lake.lake.repository
        parent = repository.namespace.folder(f"repos/{repository.unique_id}/branches")
        # In the order of paths: what follows a name is a slash.
        assert list(lake.lake.block.list_folders(parent)) == ["dev-2", "dev", "dev0", "devel"]


def test_two_runs(seaweedfs_settings: S3Settings, tmp_path: Path, spark: SparkSession) -> None:
    with s3_lake(seaweedfs_settings, tmp_path, spark) as lake:
        kept = {lake.upload("a", "1")}
        lake.commit()
        lake.upload("b", "2")
        kept.add(lake.upload("b", "3"))
        lake.commit()
        lake.upload("c", "4", DEV)
        lake.lake.engine.refs.delete_branch(REPOSITORY, DEV)
        first, second = lake.collect()
        assert (first.waiting, first.deleted) == (2, 0)
        assert (second.mode, second.deleted, second.failed) == ("optimized", 2, 0)
        assert lake.stored() == kept
