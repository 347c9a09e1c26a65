"""Runs over Azure: the same job, another storage."""

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakebed.block import AzureSettings, open_block
from lakebed.kv import open_store
from tests.kit.object_stores import BUCKET
from tests.spark.lakes import DEV, REPOSITORY, gc_lake

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]


def test_two_runs(azure_settings: AzureSettings, tmp_path: Path, spark: SparkSession) -> None:
    namespace = (
        f"https://{azure_settings.account}.blob.core.windows.net/{BUCKET}/gc-{uuid.uuid4().hex[:8]}"
    )
    with (
        open_store(f"sqlite:///{tmp_path}/lake.db") as store,
        open_block(azure_settings) as block,
    ):
        lake = gc_lake(store, block, azure_settings, spark, namespace=namespace)
        kept = {lake.upload("a", "1")}
        lake.commit()
        lake.upload("b", "2")
        kept.add(lake.upload("b", "3"))
        lake.commit()
        lake.upload("c", "4", DEV)
        lake.lake.engine.refs.delete_branch(REPOSITORY, DEV)
        kept.add(lake.upload("d", "5"))
        first, second = lake.collect()
        assert (first.waiting, first.deleted) == (2, 0)
        assert (second.mode, second.deleted, second.failed) == ("optimized", 2, 0)
        assert lake.stored() == kept
        assert lake.lake.text("main", b"a") == "1"
        assert lake.lake.text("main", b"d") == "5"
