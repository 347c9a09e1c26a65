"""Deleting: a result for every object, whatever the storage does. What executors run, run here."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

from lakebed.block import (
    Address,
    BlockError,
    BlockStore,
    DeleteResult,
    Forbidden,
    MemorySettings,
    Namespace,
    StorageUnavailable,
    open_block,
)
from lakebed.formats import OWNER_PATH, Owner, encode_owner
from lakebed.formats.gc_files import GC_RESULT_SCHEMAS, GCResultKind, GCRunID, decode_result
from lakebed.reclaim.collector import storage as storages
from lakebed.reclaim.collector.errors import NotTheOwner
from lakebed.reclaim.collector.executors import write as writing
from lakebed.reclaim.collector.storage import Storage

NAMESPACE = Namespace.parse("mem://lake/data")
RUN = GCRunID("run")


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    block = open_block(MemorySettings())
    monkeypatch.setattr(storages, "_opened", lambda _settings: block)
    monkeypatch.setattr(writing, "_PAUSE_SECONDS", 0.001)
    block.put(NAMESPACE.address(OWNER_PATH), [encode_owner(Owner("i", "lake", "a0"))])
    return Storage(MemorySettings(), NAMESPACE, "a0")


def objects(*names: str) -> pa.RecordBatch:
    columns = [list(names), *([3] * len(names) for _ in range(3)), ["candidate"] * len(names)]
    arrays = [*columns, [4] * len(names)]
    return pa.RecordBatch.from_arrays(
        [pa.array(array) for array in arrays],
        schema=GC_RESULT_SCHEMAS[GCResultKind.DUE],
    )


def swept(
    storage: Storage, *batches: pa.RecordBatch
) -> dict[GCResultKind, list[dict[str, object]]]:
    found: dict[GCResultKind, list[dict[str, object]]] = {}
    for batch in writing.delete_due(storage, RUN)(iter(batches)):
        for row in batch.to_pylist():
            kind = GCResultKind(row["kind"])
            data = storage.block.read(storage.file(RUN, row["name"]))
            table = decode_result(data, kind, row["content_id"], file=row["name"])
            assert table.num_rows == row["rows"]
            found.setdefault(kind, []).extend(table.to_pylist())
    return found


def put(storage: Storage, *names: str) -> None:
    for name in names:
        storage.block.put(NAMESPACE.address(name), [b"abc"])


def failing(
    monkeypatch: pytest.MonkeyPatch, block: BlockStore, errors: dict[str, list[BlockError]]
) -> Counter[str]:
    calls: Counter[str] = Counter()
    rightly = block.delete_many

    def delete_one(address: Address) -> DeleteResult:
        name = NAMESPACE.relative(address)
        calls[name] += 1
        if errors.get(name):
            return DeleteResult(address, errors[name].pop(0))
        return rightly([address])[0]

    def delete_many(addresses: Sequence[Address]) -> list[DeleteResult]:
        return [delete_one(address) for address in addresses]

    monkeypatch.setattr(block, "delete_many", delete_many)
    return calls


def test_every_object_has_a_result(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    put(storage, "a", "b", "c", "d", "kept")
    calls = failing(
        monkeypatch,
        storage.block,
        {
            "b": [Forbidden("hands off")],
            "c": [StorageUnavailable("busy"), StorageUnavailable("busy")],
            "d": [StorageUnavailable("down")] * 9,
        },
    )
    found = swept(storage, objects("a", "b", "gone already"), objects("c", "d"))
    results = {row["path"]: row["error"] for row in found[GCResultKind.SWEPT]}
    assert results == {"a": "", "b": "hands off", "gone already": "", "c": "", "d": "down"}
    # The next run must know of them.
    assert [row["path"] for row in found[GCResultKind.OBJECTS]] == ["b", "d"]
    assert {row["found_us"] for row in found[GCResultKind.OBJECTS]} == {4}
    folder = NAMESPACE.folder(f"_lakebed/gc/a0/runs/{RUN}")
    listed = [text for batch in storage.block.list_objects(folder) for text in batch[0].to_pylist()]
    (report,) = [text for text in listed if text.endswith(".txt")]
    lines = storage.block.read(Address.parse(report)).decode().splitlines()
    assert lines[:2] == ["a\t3\tdeleted", "b\t3\thands off"]
    assert calls["b"] == 1
    assert calls["c"] == 3
    assert calls["d"] == 4
    still = {
        name
        for name in ("a", "b", "c", "d", "kept")
        if storage.block.exists(NAMESPACE.address(name))
    }
    assert still == {"b", "d", "kept"}


def test_whose_the_namespace_is_is_asked_before_every_batch(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(storage, "a", "b", "c")
    monkeypatch.setattr(writing, "BATCH", 1)
    rightly = storage.block.delete_many

    def delete_many(addresses: Sequence[Address]) -> list[DeleteResult]:
        results = rightly(addresses)
        owner = encode_owner(Owner("i", "lake", "a1"))
        storage.block.put(NAMESPACE.address(OWNER_PATH), [owner])
        return results

    monkeypatch.setattr(storage.block, "delete_many", delete_many)
    with pytest.raises(NotTheOwner, match="deleted and created again"):
        swept(storage, objects("a", "b", "c"))
    assert not storage.block.exists(NAMESPACE.address("a"))
    assert storage.block.exists(NAMESPACE.address("b"))
