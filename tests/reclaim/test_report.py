"""Files of old runs go; what the state goes by, and what is no run's, stays."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import Address, LocalSettings, Namespace, open_block
from lakebed.formats import OWNER_PATH, DamagedFile, Owner, encode_owner
from lakebed.formats.gc_files import SUMMARY_NAME, GCRunID
from lakebed.formats.layout import state_path
from lakebed.reclaim.collector.errors import NotTheOwner
from lakebed.reclaim.collector.report import KEPT_US, prune, read_summary, run_ids
from lakebed.reclaim.collector.storage import Storage

NOW_US = 1_800_000_000_000_000


def run_id(began_us: int) -> GCRunID:
    return GCRunID(f"{began_us:016x}{'ab' * 10}")


OLD = run_id(NOW_US - KEPT_US - 1)
YOUNG = run_id(NOW_US - KEPT_US)
LATEST = run_id(NOW_US)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = Storage(LocalSettings(tmp_path), Namespace.parse("local://lake/data"), "a0")
    with open_block(storage.settings) as block:
        owner = encode_owner(Owner("installation", "lake", "a0"))
        block.create(storage.namespace.address(OWNER_PATH), owner)
        yield storage


def files(storage: Storage) -> set[Address]:
    batches = storage.block.list_objects(storage.namespace.folder("_lakebed/gc"))
    return {Address.parse(each) for batch in batches for each in batch["address"].to_pylist()}


def test_old_runs_go(storage: Storage) -> None:
    runs = (GCRunID("0" * 36), OLD, YOUNG, LATEST)
    for each in runs:
        for name in ("run.json", "summary.json", "objects-1.parquet"):
            storage.block.put(storage.file(each, name), [b"x"])
    others = {
        storage.namespace.address(state_path("a0")),
        storage.file(GCRunID("0000-notes"), "mine.txt"),
        # Another repository's, and one that only begins with the same letters.
        storage.namespace.address(f"_lakebed/gc/a00/runs/{OLD}/run.json"),
        storage.namespace.address(f"_lakebed/gc/b0/runs/{OLD}/run.json"),
    }
    for address in others:
        storage.block.put(address, [b"x"])
    kept = {storage.file(each, "run.json") for each in (YOUNG, LATEST)}
    assert prune(storage, LATEST) == 2
    assert list(run_ids(storage)) == ["0000-notes", YOUNG, LATEST]
    assert others | kept < files(storage)
    assert prune(storage, LATEST) == 0


def test_nothing_goes_of_a_repository_that_was_made_again(storage: Storage) -> None:
    storage.block.put(storage.file(OLD, "run.json"), [b"x"])
    owner = encode_owner(Owner("installation", "lake", "b0"))
    storage.block.put(storage.namespace.address(OWNER_PATH), [owner])
    with pytest.raises(NotTheOwner):
        prune(storage, LATEST)
    assert files(storage) == {storage.file(OLD, "run.json")}


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 100_000, b'{"run_id": 1}'])
def test_a_summary_that_is_none_is_named(storage: Storage, content: bytes) -> None:
    assert read_summary(storage, LATEST) is None
    storage.block.create(storage.file(LATEST, SUMMARY_NAME), content)
    with pytest.raises(DamagedFile, match=f"{LATEST}/{SUMMARY_NAME} is damaged"):
        read_summary(storage, LATEST)
