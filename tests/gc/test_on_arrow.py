"""A run in one process, whose parts go on side by side."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import Address, LocalSettings, Namespace, StorageUnavailable
from lakebed.block.drivers.local.store import LocalBlockStore
from lakebed.gc.errors import MissingHistory
from tests.kit.lake import open_lake
from tests.spark.lakes import GCLake


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
