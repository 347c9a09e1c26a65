"""A store in a Valkey cluster: slots, redirections while they are moved, and refusals."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import valkey
from valkey.crc import key_slot

from lakebed.kv import (
    ABSENT,
    ForeignStore,
    Item,
    PredicateFailed,
    StoreUnavailable,
    UnsafeStore,
    open_store,
)
from lakebed.kv.store import Store, puts
from lakebed.testing.servers.databases import DatabaseServer, valkey_cluster, valkey_url

pytestmark = [pytest.mark.extended, pytest.mark.slow]

PARTITIONS = [b"p%d" % number for number in range(40)] + [b"}", b"a}b", b"{x}", b"{", b"*[a]?"]


class Cluster:
    """The nodes of a cluster, and the clients of each."""

    def __init__(self, servers: list[DatabaseServer], stack: ExitStack) -> None:
        self.url = valkey_url(servers[0].port)
        self.clients: list[Any] = [
            stack.enter_context(valkey.Valkey(port=each.port)) for each in servers
        ]
        self._ports = [each.port for each in servers]
        self._ids = [each.execute_command("CLUSTER MYID").decode() for each in self.clients]

    def node_of(self, slot: int) -> int:
        for number, client in enumerate(self.clients):
            if any(
                first <= slot <= last and port == self._ports[number]
                for first, last, (_, port, *_) in client.execute_command("CLUSTER SLOTS")
            ):
                return number
        raise AssertionError(slot)

    def begin(self, slot: int, source: int, target: int) -> None:
        """Begin to move a slot: from now on the source redirects missing keys."""
        self._set(target, slot, f"IMPORTING {self._ids[source]}")
        self._set(source, slot, f"MIGRATING {self._ids[target]}")

    def move_keys(self, slot: int, source: int, target: int, *, count: int = 100) -> None:
        names = self.clients[source].execute_command(f"CLUSTER GETKEYSINSLOT {slot} {count}")
        for name in names:
            self.clients[source].migrate("127.0.0.1", self._ports[target], name, 0, 5000)

    def end(self, slot: int, target: int) -> None:
        for number in [target, *range(len(self._ids))]:
            self._set(number, slot, f"NODE {self._ids[target]}")

    def _set(self, node: int, slot: int, state: str) -> None:
        self.clients[node].execute_command(f"CLUSTER SETSLOT {slot} {state}")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack.enter_context(valkey_cluster()), stack)


@pytest.fixture
def store(cluster: Cluster) -> Iterator[Store]:
    with open_store(cluster.url) as store:
        yield store


def fill(store: Store) -> None:
    for partition in PARTITIONS:
        store.write(puts(partition, [(b"a", partition), (b"b", b"2")]))


def items_of(store: Store, partition: bytes) -> list[bytes]:
    return [item.value for item in store.scan(partition)]


def slot_of(partition: bytes) -> int:
    slot: int = key_slot(b"lakebed:{p" + partition + b"}h")
    return slot


def test_each_partition_is_on_one_node_and_the_store_on_all(cluster: Cluster, store: Store) -> None:
    fill(store)
    found = [set(client.keys("lakebed:*")) for client in cluster.clients]
    assert all(found)
    for partition in PARTITIONS:
        names = {b"lakebed:{p" + partition + b"}" + kind for kind in (b"h", b"z")}
        assert len([keys for keys in found if names <= keys]) == 1
        assert len([keys for keys in found if names & keys]) == 1
    assert set(PARTITIONS) <= set(store.partitions())
    many = [(partition, b"a") for partition in PARTITIONS]
    assert [item and item.value for item in store.get_many(many)] == PARTITIONS


def test_an_open_store_follows_a_moved_slot(cluster: Cluster, store: Store) -> None:
    fill(store)
    slot = slot_of(b"p0")
    source = cluster.node_of(slot)
    target = (source + 1) % 3
    cluster.begin(slot, source, target)
    cluster.move_keys(slot, source, target)
    cluster.end(slot, target)
    many = [(b"p1", b"a"), (b"p0", b"a"), (b"p2", b"a")]
    assert [item and item.value for item in store.get_many(many)] == [b"p1", b"p0", b"p2"]
    assert items_of(store, b"p0") == [b"p0", b"2"]
    version = store.set(b"p0", b"a", b"new")
    with open_store(cluster.url) as other:
        assert other.get(b"p0", b"a") == Item(b"a", b"new", version)


def test_a_slot_that_is_being_moved_is_read_and_written(cluster: Cluster, store: Store) -> None:
    fill(store)
    slot = slot_of(b"p0")
    source = cluster.node_of(slot)
    target = (source + 1) % 3
    cluster.begin(slot, source, target)
    assert store.get(b"p0", b"a").value == b"p0"  # still at the source
    cluster.move_keys(slot, source, target)
    assert items_of(store, b"p0") == [b"p0", b"2"]
    assert store.get_many([(b"p0", b"a"), (b"p1", b"b")])[1] is not None
    with pytest.raises(PredicateFailed):
        store.set(b"p0", b"a", b"never", ABSENT)
    store.set(b"p0", b"c", b"3", ABSENT)
    with pytest.raises(StoreUnavailable, match="slots are being migrated: list the partitions"):
        list(store.partitions())
    cluster.end(slot, target)
    assert items_of(store, b"p0") == [b"p0", b"2", b"3"]
    assert set(PARTITIONS) <= set(store.partitions())


def test_a_partition_split_between_nodes_is_not_written(cluster: Cluster, store: Store) -> None:
    """Its hash has been moved, its sorted set not yet; nothing of a write may be applied."""
    fill(store)
    slot = slot_of(b"p0")
    source = cluster.node_of(slot)
    target = (source + 1) % 3
    cluster.begin(slot, source, target)
    cluster.move_keys(slot, source, target, count=1)
    with pytest.raises(StoreUnavailable, match=r"refused the write"):
        store.set(b"p0", b"c", b"3", ABSENT)
    cluster.move_keys(slot, source, target)
    store.set(b"p0", b"c", b"3", ABSENT)
    assert items_of(store, b"p0") == [b"p0", b"2", b"3"]


def test_each_node_must_keep_its_writes(cluster: Cluster) -> None:
    cluster.clients[2].config_set("appendfsync", "everysec")
    with pytest.raises(UnsafeStore, match="appendfsync is everysec and must be always"):
        open_store(cluster.url)
    open_store(f"{cluster.url}?durable=true").close()


@pytest.mark.parametrize("node", range(3))
def test_records_of_a_server_without_cluster_mode_are_refused(cluster: Cluster, node: int) -> None:
    partition = next(
        each for each in PARTITIONS if cluster.node_of(key_slot(b"lakebed:h:" + each)) == node
    )
    cluster.clients[node].hset(b"lakebed:h:" + partition, b"key", b"value")
    with pytest.raises(
        ForeignStore, match="cluster mode on, and records written with cluster mode"
    ):
        open_store(cluster.url)
