"""What only the driver of FoundationDB does, with a model of its client."""

import ast
import inspect
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import (
    ABSENT,
    InvalidArgument,
    OutcomeUnknown,
    PredicateFailed,
    StoreUnavailable,
    Version,
    open_store,
)
from lakebed.kv.drivers import foundationdb
from lakebed.kv.drivers.foundationdb import PIECE_BYTES, PIECES, FoundationDBStore
from lakebed.kv.store import puts
from tests.kit.fdb_model import Client, Cluster, Fault, Transaction

pytestmark = pytest.mark.slow

Write = Callable[[FoundationDBStore, Version], object]
WRITES: dict[str, Write] = {
    "set": lambda store, _: store.set(b"p", b"key", b"new"),
    "set_if": lambda store, version: store.set(b"p", b"key", b"new", version),
    "create": lambda store, _: store.set(b"p", b"other", b"new", ABSENT),
    "delete": lambda store, _: store.delete(b"p", b"key"),
    "delete_if": lambda store, version: store.delete(b"p", b"key", version),
    "set_many": lambda store, _: store.write(puts(b"p", [(b"key", b"new"), (b"other", b"new")])),
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    client = Client()
    monkeypatch.setattr(foundationdb, "fdb", client)
    return client.open("/model")


@pytest.fixture
def store(cluster: Cluster) -> FoundationDBStore:
    return FoundationDBStore("foundationdb:///model", ThreadRuntime())


def rows(store: FoundationDBStore) -> list[tuple[bytes, bytes]]:
    return [(item.key, item.value) for item in store.scan(b"p")]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_commit_that_is_late_is_not_applied(
    cluster: Cluster, store: FoundationDBStore, write: Write
) -> None:
    version = store.set(b"p", b"key", b"old")
    cluster.faults = [Fault.LATE]
    with pytest.raises(OutcomeUnknown, match="error 1031"):
        write(store, version)
    assert len(cluster.held) == 1
    assert cluster.release() == 0
    assert rows(store) == [(b"key", b"old")]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_without_the_fence_it_would_be(
    cluster: Cluster, store: FoundationDBStore, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_fence", lambda _: None)
    version = store.set(b"p", b"key", b"old")
    cluster.faults = [Fault.LATE]
    with pytest.raises(OutcomeUnknown):
        write(store, version)
    assert cluster.release() == 1
    assert rows(store) != [(b"key", b"old")]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REPLY_LOST])
def test_a_commit_without_a_reply_may_have_been_applied(
    cluster: Cluster, store: FoundationDBStore, write: Write, fault: Fault
) -> None:
    version = store.set(b"p", b"key", b"old")
    cluster.faults = [fault]
    with pytest.raises(OutcomeUnknown, match="error 1021") as caught:
        write(store, version)
    assert not isinstance(caught.value, StoreUnavailable)
    assert (rows(store) == [(b"key", b"old")]) == (fault is Fault.LOST)


def test_a_fence_is_tried_until_it_is_committed(cluster: Cluster, store: FoundationDBStore) -> None:
    store.set(b"p", b"key", b"old")
    cluster.faults = [Fault.LATE, Fault.LOST, Fault.LATE]
    with pytest.raises(OutcomeUnknown):
        store.set(b"p", b"key", b"new")
    assert not cluster.faults
    # Of the two that are late, the fence changes nothing.
    cluster.release()
    assert rows(store) == [(b"key", b"old")]


def test_a_process_that_cannot_fence_ends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndError(Exception):
        pass

    def end() -> None:
        raise EndError

    monkeypatch.setattr(foundationdb, "FENCE_SECONDS", 0.0)
    store = FoundationDBStore("foundationdb:///model", ThreadRuntime(), give_up=end)  # type: ignore[arg-type] # it raises
    cluster.faults = [Fault.LATE, Fault.LOST]
    with pytest.raises(EndError):
        store.set(b"p", b"key", b"new")


def test_lost_replies_are_settled_by_the_wrappers(
    cluster: Cluster, store: FoundationDBStore
) -> None:
    with open_store("foundationdb:///model") as retrying:
        version = retrying.set(b"p", b"key", b"old")
        cluster.faults = [Fault.REPLY_LOST]
        version = retrying.set(b"p", b"key", b"new", version)
        cluster.faults = [Fault.LATE]
        version = retrying.set(b"p", b"key", b"newer", version)
        cluster.release()
        assert retrying.get(b"p", b"key") == (b"key", b"newer", version)


def test_a_conflict_changes_nothing(cluster: Cluster, store: FoundationDBStore) -> None:
    version = store.set(b"p", b"key", b"old")
    prepare = store._prepare

    def prepare_and_be_overtaken(
        name: bytes, change: Callable[[foundationdb.Transaction], None]
    ) -> foundationdb.Transaction:
        transaction = prepare(name, change)
        store._prepare = prepare  # type: ignore[method-assign]
        store.set(b"p", b"key", b"of another")
        return transaction

    store._prepare = prepare_and_be_overtaken  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="refused a write: error 1020"):
        store.set(b"p", b"key", b"new", version)
    with pytest.raises(PredicateFailed):
        store.set(b"p", b"key", b"new", version)


def test_a_cluster_that_is_down_is_unavailable(cluster: Cluster, store: FoundationDBStore) -> None:
    cluster.down = True
    with pytest.raises(StoreUnavailable, match="did not answer"):
        store.set(b"p", b"key", b"new")
    with pytest.raises(StoreUnavailable, match="did not answer"):
        store.get(b"p", b"key")
    with pytest.raises(StoreUnavailable, match="did not answer"):
        FoundationDBStore("foundationdb:///model", ThreadRuntime())


def test_the_largest_records_fit(store: FoundationDBStore) -> None:
    limits = store.limits
    partition, key = b"p" * limits.partition_bytes, b"k" * limits.key_bytes
    store.set(partition, key, b"v" * limits.value_bytes)
    store.write(
        puts(partition, [(key[:-1] + b"%d" % n, b"v" * limits.value_bytes) for n in range(9)])
    )
    assert len(list(store.scan(partition))) == 10


def test_a_value_that_is_replaced_leaves_no_pieces(
    cluster: Cluster, store: FoundationDBStore
) -> None:
    def pieces() -> int:
        found = cluster.create_transaction().get_range(PIECES, PIECES + b"\xff", 0)
        return len(found)

    large = b"v" * (3 * PIECE_BYTES)
    store.set(b"p", b"key", large)
    store.set(b"p", b"key\x00", large)
    store.set(b"q", b"key", large)
    assert pieces() == 9
    store.set(b"p", b"key", b"small")
    assert pieces() == 6
    assert store.get(b"p", b"key\x00").value == large
    store.delete(b"p", b"key\x00")
    assert pieces() == 3
    store.delete(b"q", b"key")
    assert pieces() == 0


@pytest.mark.parametrize(
    "url", ["foundationdb://host:4500", "foundationdb://user:secret-word@host/fdb.cluster"]
)
def test_a_url_names_a_cluster_file(url: str) -> None:
    with pytest.raises(InvalidArgument, match="does not name a cluster file") as caught:
        open_store(url)
    assert "secret-word" not in str(caught.value)


def test_a_library_that_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_: int) -> None:
        raise Exception("Unable to locate the library!")  # noqa: TRY002 - as the client does

    monkeypatch.setattr("fdb.api_version", load)
    with pytest.raises(InvalidArgument, match="install the package foundationdb-clients") as caught:
        open_store("foundationdb://")
    assert "\n" not in str(caught.value)


def test_the_model_has_no_method_that_the_client_has_not() -> None:
    """The client cannot be imported without its library; so its source is read."""
    spec = find_spec("fdb")
    assert spec is not None
    assert spec.origin is not None
    source = ast.parse((Path(spec.origin).parent / "impl.py").read_text())
    real = {
        (node.name, function.name): {argument.arg for argument in function.args.args}
        for node in source.body
        if isinstance(node, ast.ClassDef)
        for function in node.body
        if isinstance(function, ast.FunctionDef)
    }
    for name, method in inspect.getmembers(Transaction, inspect.isfunction):
        if name.startswith("_") or name == "read_version":
            continue
        arguments = real.get(("Transaction", name)) or real[("TransactionRead", name)]
        assert set(inspect.signature(method).parameters) <= arguments, name
    assert ("Database", "create_transaction") in real


@pytest.mark.usefixtures("cluster")
def test_a_store_says_that_it_is_experimental(caplog: pytest.LogCaptureFixture) -> None:
    open_store("foundationdb:///model").close()
    assert "foundationdb stores are experimental" in caplog.text
