"""The conformance suite of key-value stores.

To test a driver, subclass `StoreConformance` in a test module and provide the URL of an empty
store:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def url(self, tmp_path: Path) -> str:
            return f"mystore://{tmp_path}"

The tests open the store by `open_store`, so they test the driver inside the production wrappers.
Every test uses its own partitions, so tests may share a store.
"""

import os
import signal
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from lakebed.base.runtime import ThreadRuntime, call_before_waiting
from lakebed.kv import (
    ABSENT,
    EXISTS,
    KeyNotFound,
    PredicateFailed,
    SchemaTooNew,
    Store,
    StoreClosed,
    StoreLocked,
    open_store,
)
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY, SCHEMA_VERSION, check_schema
from lakebed.kv.store import Put, new_version, puts
from lakebed.testing.conformance.kv_arguments import ArgumentsConformance
from lakebed.testing.conformance.kv_concurrency import ConcurrencyConformance
from lakebed.testing.conformance.kv_machine import AWKWARD_KEYS
from lakebed.testing.conformance.kv_scans import ScansConformance


class SequentialConformance(ScansConformance, ArgumentsConformance):
    """Conformance suite for a single caller. Subclasses override `url`."""

    @pytest.fixture
    def url(self) -> str:
        """URL of a store used only by this test class."""
        raise NotImplementedError("override `url` with the URL of the store")

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        """The open store."""
        with open_store(url) as store:
            yield store

    @pytest.fixture
    def partition(self) -> bytes:
        """Partition of a single test."""
        return b"partition-" + uuid4().hex.encode()

    # Single keys

    def test_get_returns_the_value_set(self, store: Store, partition: bytes) -> None:
        version = store.set(partition, b"key", b"value")
        assert store.get(partition, b"key") == (b"key", b"value", version)

    def test_a_waiting_call_is_reported(self, store: Store, partition: bytes) -> None:
        """A leader of the thread pool releases leadership before it waits."""
        said: list[str] = []
        call_before_waiting(lambda: said.append("written"))
        try:
            store.set(partition, b"key", b"value")
            call_before_waiting(lambda: said.append("read"))
            store.get(partition, b"key")
        finally:
            call_before_waiting(lambda: None)
        assert ("written" in said) == store.shared_between_processes
        if self.over_a_network is not None:
            assert ("read" in said) == self.over_a_network

    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    def test_keys_and_values_are_binary_safe(
        self, store: Store, partition: bytes, key: bytes
    ) -> None:
        awkward_partition = partition + key
        store.set(awkward_partition, key, key)
        assert store.get(awkward_partition, key).value == key
        assert [item.key for item in store.scan(awkward_partition)] == [key]
        store.delete(awkward_partition, key)
        assert list(store.scan(awkward_partition)) == []

    def test_an_empty_value_is_a_value(self, store: Store, partition: bytes) -> None:
        store.set(partition, b"key", b"")
        assert store.get(partition, b"key").value == b""

    def test_a_missing_key_is_named(self, store: Store, partition: bytes) -> None:
        store.set(partition, b"other", b"value")
        with pytest.raises(KeyNotFound, match="'missing' not found in partition") as caught:
            store.get(partition, b"missing")
        assert (caught.value.partition, caught.value.key) == (partition, b"missing")

    def test_partitions_are_separate(self, store: Store, partition: bytes) -> None:
        longer = partition + b"/"
        store.set(partition, b"key", b"one")
        store.set(longer, b"key", b"two")
        assert store.get(partition, b"key").value == b"one"
        store.delete(partition, b"key")
        assert store.get(longer, b"key").value == b"two"
        assert list(store.scan(partition)) == []

    def test_every_write_has_a_version_of_its_own(self, store: Store, partition: bytes) -> None:
        versions = [store.set(partition, b"key", b"same") for _ in range(3)]
        versions.append(store.set(partition, b"key", b"same", EXISTS))
        versions.append(store.set(partition, b"key", b"same", versions[-1]))
        store.write(puts(partition, [(b"key", b"same"), (b"other", b"same")]))
        versions += [item.predicate for item in store.scan(partition)]
        assert len(set(versions)) == len(versions)

    def test_deleting_a_missing_key_succeeds(self, store: Store, partition: bytes) -> None:
        store.delete(partition, b"key")
        store.set(partition, b"key", b"value")
        store.delete(partition, b"key")
        store.delete(partition, b"key")
        with pytest.raises(KeyNotFound):
            store.get(partition, b"key")

    # Conditional writes

    def test_set_if_absent(self, store: Store, partition: bytes) -> None:
        version = store.set(partition, b"key", b"first", ABSENT)
        with pytest.raises(PredicateFailed):
            store.set(partition, b"key", b"second", ABSENT)
        assert store.get(partition, b"key") == (b"key", b"first", version)
        store.delete(partition, b"key")
        store.set(partition, b"key", b"third", ABSENT)
        assert store.get(partition, b"key").value == b"third"

    def test_set_if_exists(self, store: Store, partition: bytes) -> None:
        with pytest.raises(PredicateFailed):
            store.set(partition, b"key", b"value", EXISTS)
        with pytest.raises(KeyNotFound):
            store.get(partition, b"key")
        store.set(partition, b"key", b"value")
        version = store.set(partition, b"key", b"new", EXISTS)
        assert store.get(partition, b"key") == (b"key", b"new", version)

    def test_set_if_unchanged(self, store: Store, partition: bytes) -> None:
        old = store.set(partition, b"key", b"old")
        new = store.set(partition, b"key", b"new", old)
        assert store.get(partition, b"key") == (b"key", b"new", new)
        with pytest.raises(PredicateFailed) as caught:
            store.set(partition, b"key", b"newer", old)
        assert (caught.value.partition, caught.value.key) == (partition, b"key")
        assert store.get(partition, b"key") == (b"key", b"new", new)

    @pytest.mark.parametrize("count", [1, 3, 20])
    def test_reads_behind_a_write(self, store: Store, partition: bytes, count: int) -> None:
        other = store.set(partition, b"00", b"there")
        keys = [(partition, b"%02d" % number) for number in reversed(range(count))]
        store.write([Put(partition, b"key", b"first", ABSENT)], keys)
        found = store.write([Put(partition, b"key", b"second", EXISTS)], keys)
        assert found == [None] * (count - 1) + [(b"00", b"there", other)]
        keys = [(partition, b"key"), (partition, b"none")]
        version = new_version(ThreadRuntime())
        found = store.write([Put(partition, b"key", b"third", EXISTS, version)], keys)
        assert found == [(b"key", b"third", version), None]
        with pytest.raises(PredicateFailed) as caught:
            store.write([Put(partition, b"key", b"fourth", ABSENT)], keys)
        assert (caught.value.partition, caught.value.key) == (partition, b"key")
        assert store.write([Put(partition, b"key", b"fifth", version)]) == []
        assert store.get(partition, b"key").value == b"fifth"

    def test_versions_of_another_key_do_not_match(self, store: Store, partition: bytes) -> None:
        store.set(partition, b"key", b"value")
        other = store.set(partition, b"other", b"value")
        with pytest.raises(PredicateFailed):
            store.set(partition, b"key", b"new", other)
        with pytest.raises(PredicateFailed):
            store.delete(partition, b"key", other)
        assert store.get(partition, b"key").value == b"value"

    def test_set_if_unchanged_of_a_deleted_key(self, store: Store, partition: bytes) -> None:
        version = store.set(partition, b"key", b"value")
        store.delete(partition, b"key")
        with pytest.raises(PredicateFailed):
            store.set(partition, b"key", b"new", version)
        with pytest.raises(KeyNotFound):
            store.get(partition, b"key")

    def test_delete_if_unchanged(self, store: Store, partition: bytes) -> None:
        old = store.set(partition, b"key", b"value")
        new = store.set(partition, b"key", b"value")
        with pytest.raises(PredicateFailed):
            store.delete(partition, b"key", old)
        assert store.get(partition, b"key").predicate == new
        store.delete(partition, b"key", new)
        with pytest.raises(PredicateFailed):
            store.delete(partition, b"key", new)

    def test_an_equal_later_value_has_another_version(self, store: Store, partition: bytes) -> None:
        first = store.set(partition, b"key", b"A")
        store.set(partition, b"key", b"B")
        store.set(partition, b"key", b"A")
        with pytest.raises(PredicateFailed):
            store.set(partition, b"key", b"C", first)
        second = store.get(partition, b"key").predicate
        store.delete(partition, b"key")
        store.set(partition, b"key", b"A", ABSENT)
        for stale in (first, second):
            with pytest.raises(PredicateFailed):
                store.set(partition, b"key", b"C", stale)
            with pytest.raises(PredicateFailed):
                store.delete(partition, b"key", stale)
        assert store.get(partition, b"key").value == b"A"

    # Bulk calls

    def test_get_many_keeps_the_order(self, store: Store, partition: bytes) -> None:
        other = partition + b"-other"
        store.set(partition, b"a", b"1")
        store.set(partition, b"b", b"2")
        store.set(other, b"a", b"3")
        wanted = [(other, b"a"), (partition, b"b"), (partition, b"missing"), (partition, b"a")]
        wanted += [(partition + b"-missing", b"a"), (partition, b"b")]
        found = store.get_many(wanted)
        assert [item and item.value for item in found] == [b"3", b"2", None, b"1", None, b"2"]
        assert found[1] == store.get(partition, b"b")
        assert store.get_many([]) == []
        for count in range(1, 3 * len(wanted)):
            assert store.get_many((3 * wanted)[:count]) == (3 * found)[:count]

    def test_many_writes_overwrite(self, store: Store, partition: bytes) -> None:
        stale = store.set(partition, b"00001", b"old")
        count = min(2500, self.bulk)
        store.write(puts(partition, ((b"%05d" % number, b"new") for number in range(count))))
        store.write(puts(partition, []))
        items = list(store.scan(partition))
        assert len(items) == count
        assert all(item.value == b"new" for item in items)
        assert items[1].predicate != stale

    def test_the_last_of_equal_keys_stays(self, store: Store, partition: bytes) -> None:
        store.write(puts(partition, [(b"key", b"1"), (b"other", b""), (b"key", b"2")]))
        assert store.get(partition, b"key").value == b"2"

    def test_writes_to_several_partitions(self, store: Store, partition: bytes) -> None:
        other = partition + b"-other"
        stale = store.set(partition, b"key", b"old")
        store.write([Put(other, b"key", b"1"), Put(partition, b"key", b"2"), Put(other, b"a", b"")])
        store.write([])
        items = [*store.scan(other), *store.scan(partition)]
        assert [(item.key, item.value) for item in items] == [
            (b"a", b""),
            (b"key", b"1"),
            (b"key", b"2"),
        ]
        assert len({stale, *(item.predicate for item in items)}) == 4
        with pytest.raises(PredicateFailed):
            store.set(partition, b"key", b"3", stale)
        store.set(partition, b"key", b"3", items[2].predicate)

    def test_the_last_of_equal_keys_stays_among_others(
        self, store: Store, partition: bytes
    ) -> None:
        other = partition + b"-other"
        store.write(
            [Put(partition, b"key", b"1"), Put(other, b"key", b""), Put(partition, b"key", b"2")]
        )
        assert store.get(partition, b"key").value == b"2"
        assert store.get(other, b"key").value == b""

    @pytest.mark.parametrize("count", [1, 20])
    def test_reads_behind_several_writes(self, store: Store, partition: bytes, count: int) -> None:
        other = partition + b"-other"
        places = [(partition, b"%02d" % number) for number in range(count)]
        versions = [new_version(ThreadRuntime()) for _ in places]
        writes = [
            Put(*place, b"value", version=version)
            for place, version in zip(places, versions, strict=True)
        ]
        found = store.write([*writes, Put(other, b"key", b"")], [*places, (other, b"none")])
        assert [item and item.predicate for item in found] == [*versions, None]
        assert store.write([], places) == found[:-1]

    def test_several_writes_with_predicates_end_at_the_first_that_fails(
        self, store: Store, partition: bytes
    ) -> None:
        other = partition + b"-other"
        writes = [
            Put(partition, b"a", b"1", ABSENT),
            Put(other, b"a", b"1"),
            Put(partition, b"a", b"2", EXISTS),
            Put(partition, b"b", b"1", EXISTS),
            Put(partition, b"c", b"1"),
        ]
        found = store.write([*writes[:3], writes[4]], [(partition, b"a"), (other, b"a")])
        assert [item and item.value for item in found] == [b"2", b"1"]
        store.delete(partition, b"a")
        store.delete(partition, b"c")
        with pytest.raises(PredicateFailed) as caught:
            store.write(writes, [(partition, b"a")])
        assert (caught.value.partition, caught.value.key) == (partition, b"b")
        assert [item[:2] for item in store.scan(partition)] == [(b"a", b"2")]
        with pytest.raises(PredicateFailed):
            store.write(writes)
        assert [item[:2] for item in store.scan(partition)] == [(b"a", b"2")]

    def test_drop_tombstones(self, store: Store, partition: bytes) -> None:
        keys = [b"%03d" % number for number in range(100)]
        store.write(puts(partition, [(key, b"value") for key in keys]))
        for key in keys[::2]:
            store.delete(partition, key)
        store.drop_tombstones(partition, keys[1], 1, keys[3])
        start: bytes | None = b""
        while start is not None:
            start = store.drop_tombstones(partition, start, 30)
        assert [item.key for item in store.scan(partition)] == keys[1::2]
        store.set(partition, keys[0], b"new", ABSENT)
        assert store.get(partition, keys[0]).value == b"new"

    # Opening and closing

    def test_a_closed_store_refuses_calls(self, url: str, partition: bytes) -> None:
        store = open_store(url)
        version = store.set(partition, b"key", b"value")
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get(partition, b"key"),
            lambda: store.set(partition, b"key", b"value"),
            lambda: store.set(partition, b"key", b"value", version),
            lambda: store.write([Put(partition, b"key", b"value", version)], [(partition, b"key")]),
            lambda: store.delete(partition, b"key"),
            lambda: store.delete(partition, b"key", version),
            lambda: list(store.scan(partition)),
            lambda: store.get_many([(partition, b"key")]),
            lambda: store.write(puts(partition, [(b"key", b"value")])),
            lambda: store.write([Put(partition, b"key", b"value")]),
        ]
        for call in calls:
            with pytest.raises(StoreClosed, match="closed"):
                call()

    def test_closing_keeps_or_drops_the_records(self, url: str, partition: bytes) -> None:
        with open_store(url) as store:
            item = (b"key", b"value", store.set(partition, b"key", b"value"))
            shared = store.shared_between_processes
        with open_store(url) as store:
            assert list(store.scan(partition)) == ([item] if shared else [])

    def test_two_handles_share_one_store(self, url: str, store: Store, partition: bytes) -> None:
        if self.one_handle:
            with pytest.raises(StoreLocked, match="is already open"):
                open_store(url)
            return
        with open_store(url) as other:
            version = store.set(partition, b"key", b"value")
            if store.shared_between_processes:
                assert other.get(partition, b"key").predicate == version
                other.set(partition, b"key", b"new", version)
                assert [item.value for item in store.scan(partition)] == [b"new"]
            else:
                assert list(other.scan(partition)) == []

    def test_a_store_of_a_newer_version_is_refused(self, url: str, store: Store) -> None:
        store.set(METADATA_PARTITION, SCHEMA_KEY, b"%d" % (SCHEMA_VERSION + 1))
        try:
            with pytest.raises(SchemaTooNew, match="upgrade Lakebed"):
                check_schema(store)
            if store.shared_between_processes and not self.one_handle:
                with pytest.raises(SchemaTooNew, match="upgrade Lakebed"):
                    open_store(url)
        finally:
            store.set(METADATA_PARTITION, SCHEMA_KEY, b"%d" % SCHEMA_VERSION)

    def test_a_child_does_not_use_the_store_of_its_parent(
        self, store: Store, partition: bytes
    ) -> None:
        store.set(partition, b"key", b"value")
        child = os.fork()
        if child == 0:
            os._exit(_try_in_child(store, partition))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert store.get(partition, b"key").value == b"value"
        store.set(partition, b"key", b"new")


class StoreConformance(SequentialConformance, ConcurrencyConformance):
    """Conformance suite of key-value stores. Subclasses override `url`."""


def _try_in_child(store: Store, partition: bytes) -> int:
    """Use a store in a forked child; return 0, or the number of the call that misbehaved."""
    calls: list[Callable[[], object]] = [
        lambda: store.get(partition, b"key"),
        lambda: store.set(partition, b"key", b"of the child"),
        lambda: list(store.scan(partition)),
    ]
    signal.alarm(30)  # a hanging child must not block its parent
    for number, call in enumerate(calls, start=1):
        try:
            call()
        except StoreClosed:
            refused = True
        except BaseException:  # noqa: BLE001 - nothing may leave the child but its exit code
            return 10 + number
        else:
            refused = False
        if refused != store.shared_between_processes:
            return number
    store.close()
    return 0
