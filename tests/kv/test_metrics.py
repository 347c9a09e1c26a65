from contextlib import AbstractContextManager, nullcontext

import pytest
from prometheus_client import REGISTRY

from lakebed.base import tracing
from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import ABSENT, KeyNotFound, PredicateFailed, Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.managed import ManagedStore
from lakebed.kv.store import Put


class NamedStore(MemoryStore):
    name = "measured"


def sample(metric: str, operation: str, **labels: str) -> float:
    labels |= {"operation": operation, "driver": "measured"}
    return REGISTRY.get_sample_value(metric, labels) or 0.0


def test_every_call_is_counted_and_timed() -> None:
    store: Store = ManagedStore(NamedStore(ThreadRuntime()), ThreadRuntime())
    version = store.set(b"p", b"k", b"v")
    store.set(b"p", b"k", b"w", version)
    store.get(b"p", b"k")
    list(store.scan(b"p"))
    store.get_many([(b"p", b"k")])
    store.write([Put(b"p", b"k", b"v"), Put(b"p", b"l", b"v")])
    store.delete(b"p", b"k", store.get(b"p", b"k").predicate)
    store.delete(b"p", b"k")
    store.drop_tombstones(b"p", b"", 1)
    counts = {
        operation: sample("lakebed_kv_seconds_count", operation)
        for operation in (
            "get", "set", "set_if", "delete", "delete_if", "scan_page",
            "get_many", "write", "drop_tombstones",
        )
    }  # fmt: skip
    assert counts == {**dict.fromkeys(counts, 1.0), "get": 2.0}
    assert sample("lakebed_kv_seconds_sum", "get") > 0


def test_errors_are_counted_by_kind_and_a_missing_key_is_none() -> None:
    store: Store = ManagedStore(NamedStore(ThreadRuntime()), ThreadRuntime())
    store.set(b"p", b"k", b"v")
    failed = sample("lakebed_kv_errors_total", "set_if", kind="predicate_failed")
    with pytest.raises(PredicateFailed):
        store.set(b"p", b"k", b"w", ABSENT)
    with pytest.raises(KeyNotFound):
        store.get(b"p", b"missing")
    assert sample("lakebed_kv_errors_total", "set_if", kind="predicate_failed") == failed + 1
    assert sample("lakebed_kv_errors_total", "get", kind="key_not_found") == 0


def test_calls_are_spans() -> None:
    spans: list[str] = []

    def begin(name: str) -> AbstractContextManager[object]:
        spans.append(name)
        return nullcontext()

    store: Store = ManagedStore(NamedStore(ThreadRuntime()), ThreadRuntime())
    tracing.turn_on(begin)
    try:
        store.set(b"p", b"k", b"v")
        list(store.scan(b"p"))
    finally:
        tracing.turn_off()
    assert spans == ["kv.set", "kv.scan_page"]
