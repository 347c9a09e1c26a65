"""Runs over buckets that keep versions of deleted objects, or lock them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from lakebed.block import Address, DeleteResult, Forbidden, Namespace, S3Settings, open_block
from lakebed.block.drivers.s3.store import S3BlockStore
from lakebed.clients.garbage import check
from lakebed.kv import open_store
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.collector.storage import open_storage
from tests.kit.lake import REPOSITORY, make_lake
from tests.kit.object_stores import versioned
from tests.spark.lakes import GCLake, LocalServer

pytestmark = pytest.mark.slow


@contextmanager
def opened(
    settings: S3Settings,
    namespace: Namespace,
    folder: Path,
    versions: Literal["keep", "delete"],
) -> Iterator[GCLake]:
    with open_store(f"sqlite:///{folder}/lake.db") as store, open_block(settings) as block:
        gc = CatalogSettings(versions=versions)
        yield GCLake(make_lake(store, block, gc, namespace=str(namespace)), settings, None)


def versions_of(client: Any, namespace: Namespace) -> list[dict[str, Any]]:
    """The versions of data objects that the bucket has, delete markers not among them."""
    found = client.list_object_versions(Bucket=namespace.parts.bucket)
    return [each for each in found.get("Versions", []) if "/repos/" in each["Key"]]


def test_versions_are_kept_by_default_and_the_report_says_so(
    moto_settings: S3Settings, tmp_path: Path
) -> None:
    assert CatalogSettings().versions == "keep"
    client, namespace = versioned(moto_settings)
    with opened(moto_settings, namespace, tmp_path, "keep") as lake:
        lake.upload("a", "12345")
        lake.delete("a")
        first, second = lake.collect()
        assert (first.versions, first.waiting, second.versions) == ("keep", 1, "keep")
        assert (second.deleted, second.deleted_bytes) == (1, 0)
        assert (second.kept, second.kept_bytes, second.versions_deleted) == (1, 5, 0)
        assert second.sentence().endswith(
            "The bucket keeps older versions of 1 of them (5 bytes), since gc.versions is keep:"
            " delete these by a lifecycle rule of the bucket."
        )
        assert lake.stored() == set()
    assert [each["Size"] for each in versions_of(client, namespace)] == [5]


def test_all_versions_go_if_the_setting_says_so(moto_settings: S3Settings, tmp_path: Path) -> None:
    client, namespace = versioned(moto_settings)
    with opened(moto_settings, namespace, tmp_path, "delete") as lake:
        address = lake.upload("a", "12345")
        key = address.removeprefix(f"s3://{namespace.parts.bucket}/")
        # Another tool has replaced the bytes: an older version of the same object.
        client.put_object(Bucket=namespace.parts.bucket, Key=key, Body=b"123")
        lake.delete("a")
        kept = lake.upload("b", "kept")
        _, second = lake.collect()
        assert (second.versions, second.deleted, second.failed) == ("delete", 1, 0)
        assert (second.versions_deleted, second.deleted_bytes) == (2, 8)
        assert (second.kept, second.locked, second.success) == (0, 0, True)
        assert lake.stored() == {kept}
    assert [each["Size"] for each in versions_of(client, namespace)] == [4]


def test_a_locked_object_is_no_failure_and_is_tried_again(
    moto_settings: S3Settings, tmp_path: Path
) -> None:
    client, namespace = versioned(moto_settings, locks=True)
    with opened(moto_settings, namespace, tmp_path, "delete") as lake:
        locked, _ = lake.upload("a", "12345"), lake.upload("b", "123")
        key = locked.removeprefix(f"s3://{namespace.parts.bucket}/")
        client.put_object_retention(
            Bucket=namespace.parts.bucket,
            Key=key,
            Retention={"Mode": "GOVERNANCE", "RetainUntilDate": datetime(2199, 1, 2, tzinfo=UTC)},
        )
        lake.delete("a")
        lake.delete("b")
        _, second = lake.collect()
        assert (second.due, second.deleted, second.deleted_bytes) == (2, 1, 3)
        assert (second.locked, second.failed, second.success) == (1, 0, True)
        until = "the first until 2199-01-02T00:00:00+00:00; later runs retry them."
        assert second.sentence().endswith(f" 1 objects are locked by the storage, {until}")
        assert lake.stored() == {locked}
        lake.later(24 * 9)
        assert lake.run().locked == 1
        client.put_object_retention(
            Bucket=namespace.parts.bucket,
            Key=key,
            Retention={"Mode": "GOVERNANCE", "RetainUntilDate": datetime(2020, 1, 2, tzinfo=UTC)},
            BypassGovernanceRetention=True,
        )
        lake.later()
        last = lake.run()
        assert (last.deleted, last.locked, lake.stored()) == (1, 0, set())
    assert versions_of(client, namespace) == []


def test_files_of_old_runs_leave_no_versions(moto_settings: S3Settings, tmp_path: Path) -> None:
    client, namespace = versioned(moto_settings)
    with opened(moto_settings, namespace, tmp_path, "delete") as lake:
        old = lake.run().run_id
        lake.later(24 * 31)
        lake.run()
    found = client.list_object_versions(Bucket=namespace.parts.bucket)
    assert not [each for each in found["Versions"] if old in each["Key"]]


@pytest.mark.parametrize("setting", ["keep", "delete"])
def test_versions_of_a_deleted_repository_go_by_the_same_setting(
    setting: Literal["keep", "delete"], moto_settings: S3Settings, tmp_path: Path
) -> None:
    client, namespace = versioned(moto_settings)
    with opened(moto_settings, namespace, tmp_path, setting) as lake:
        lake.upload("a", "12345")
        purges = lake.lake.reclaim.repository_purges
        lake.lake.engine.repositories.delete(REPOSITORY)
        purges.request(REPOSITORY)
        lake.later(24 * 9)
        assert purges.run_due() > 0
    listed = client.list_objects_v2(Bucket=namespace.parts.bucket).get("Contents", [])
    assert not [each for each in listed if "/repos/" in each["Key"]]
    kept = [each["Size"] for each in versions_of(client, namespace)]
    assert kept == ([5] if setting == "keep" else [])


def test_a_missing_right_is_in_the_summary(
    moto_settings: S3Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_store: object, addresses: Sequence[Address]) -> list[DeleteResult]:
        return [
            DeleteResult(each, Forbidden("they need s3:ListBucketVersions")) for each in addresses
        ]

    _, namespace = versioned(moto_settings)
    with opened(moto_settings, namespace, tmp_path, "delete") as lake:
        address = lake.upload("a", "12345")
        lake.delete("a")
        monkeypatch.setattr(S3BlockStore, "delete_versions", refuse)
        _, second = lake.collect()
        assert (second.deleted, second.failed, second.success) == (0, 1, False)
        assert second.why == "they need s3:ListBucketVersions"
        assert "the storage refused 1: they need s3:ListBucketVersions." in second.sentence()
        assert lake.stored() == {address}
        storage = open_storage(LocalServer(lake.lake), moto_settings)
        with pytest.raises(Forbidden, match="s3:ListBucketVersions"):
            check._write_and_delete(storage, lake.lake.clock)


def test_a_check_leaves_no_versions(moto_settings: S3Settings, tmp_path: Path) -> None:
    client, namespace = versioned(moto_settings)
    with opened(moto_settings, namespace, tmp_path, "delete") as lake:
        storage = open_storage(LocalServer(lake.lake), moto_settings)
        found = check._write_and_delete(storage, lake.lake.clock)
    assert found == "in the folder of garbage collection; gc.versions is delete"
    listed = client.list_object_versions(Bucket=namespace.parts.bucket)["Versions"]
    assert not [each for each in listed if "/checks/" in each["Key"]]
