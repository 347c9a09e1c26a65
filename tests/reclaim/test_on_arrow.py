"""A run in one process, whose parts go on side by side."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import Address, LocalSettings, Namespace, StorageUnavailable
from lakebed.block.drivers.local.store import LocalBlockStore
from lakebed.formats import AddressType
from lakebed.lake.model import new_entry
from lakebed.reclaim.collector.errors import MissingHistory
from tests.kit import staging
from tests.kit.lake import open_lake
from tests.spark.lakes import MAIN, REPOSITORY, GCLake, local_lake


def test_an_unreadable_address_is_named_and_stops_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such entries moved in from lakeFS before addresses were checked."""
    with local_lake(tmp_path, None) as lake:
        entry = new_entry(
            b"bad", "local:///mnt/x", address_type=AddressType.FULL, size=1, checksum="",
            modified=0, content_type="", metadata={},
        )  # fmt: skip
        staging.put(lake.lake.engine, REPOSITORY, MAIN, entry)
        kept = lake.upload("a")
        lake.commit()
        lake.upload("garbage")
        lake.delete("garbage")
        lake.collect()
        assert lake.stored() == {kept}
    assert (
        "an entry has an unreadable address (see `lakebed fsck`): 'local:///mnt/x'" in caplog.text
    )


def test_history_that_is_missing_is_told_whatever_else_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalBlockStore.list_folders

    def list_folders(store: LocalBlockStore, namespace: Namespace) -> Iterator[str]:
        if "_lakebed" in namespace.prefix:
            return real(store, namespace)
        raise StorageUnavailable(str(namespace))

    with open_lake("sqlite", tmp_path) as opened:
        lake = GCLake(opened, LocalSettings(tmp_path / "objects"), None)
        lake.upload("a")
        lake.commit()
        namespace = opened.repository.namespace
        (ranges,) = opened.block.list_objects(namespace.folder("_lakebed/ranges"))
        opened.block.delete(Address.parse(ranges.column("address")[0].as_py()))
        monkeypatch.setattr(LocalBlockStore, "list_folders", list_folders)
        with pytest.raises(MissingHistory):
            lake.run()
