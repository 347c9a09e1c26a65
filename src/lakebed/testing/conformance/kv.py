"""The conformance suite of key-value stores: what every driver must do, and how it is shown.

To apply it to a driver, subclass `StoreConformance` in a test module and say how to get the URL of
an empty store:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def url(self, tmp_path: Path) -> str:
            return f"mystore://{tmp_path}"

The tests open the store by `open_store`, so they show the driver with the wrappers of production
around it. Every test uses partitions of its own, so a store may be shared between tests.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from lakebed.kv import (
    ABSENT,
    EXISTS,
    InvalidArgument,
    KeyNotFound,
    LimitExceeded,
    PredicateFailed,
    SchemaTooNew,
    Store,
    StoreClosed,
    Version,
    open_store,
)
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY, SCHEMA_VERSION, check_schema
from lakebed.testing.conformance.kv_machine import AWKWARD_KEYS, StoreMachine


def increment(url: str, partition: bytes, rounds: int, threads: int) -> None:
    """Add one to the counter `rounds` times from each of some threads, by compare-and-swap."""
    with open_store(url) as store:
        increment_with(store, partition, rounds, threads)


def increment_with(store: Store, partition: bytes, rounds: int, threads: int) -> None:
    """Do what `increment` does, on an open store."""

    def work() -> None:
        done = 0
        while done < rounds:
            entry = store.get(partition, b"counter")
            try:
                store.set_if(partition, b"counter", b"%d" % (int(entry.value) + 1), entry.predicate)
            except PredicateFailed:
                continue
            done += 1

    in_threads([work] * threads)


def _try_in_child(store: Store, partition: bytes) -> int:
    """Use a store in a forked child; return 0 if it behaves, else the number of what did not."""
    calls: list[Callable[[], object]] = [
        lambda: store.get(partition, b"key"),
        lambda: store.set(partition, b"key", b"of the child"),
        lambda: list(store.scan(partition)),
    ]
    signal.alarm(30)  # a child that hangs must not hang its parent
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


def in_threads(calls: list[Callable[[], None]]) -> None:
    """Run calls side by side; raise what one of them raised."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for future in [pool.submit(call) for call in calls]:
            future.result()


class StoreConformance:
    """What every driver must do. Subclasses override `url`."""

    @pytest.fixture
    def url(self) -> str:
        """The URL of a store that nobody else uses."""
        raise NotImplementedError("a conformance class says how to get the URL of its store")

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        """The store, open."""
        with open_store(url) as store:
            yield store

    @pytest.fixture
    def partition(self) -> bytes:
        """A partition that nobody else uses."""
        return b"partition-" + uuid4().hex.encode()

    # One key

    def test_a_value_comes_back(self, store: Store, partition: bytes) -> None:
        version = store.set(partition, b"key", b"value")
        assert store.get(partition, b"key") == (b"key", b"value", version)

    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    def test_keys_and_values_are_binary_safe(
        self, store: Store, partition: bytes, key: bytes
    ) -> None:
        awkward_partition = partition + key
        store.set(awkward_partition, key, key)
        assert store.get(awkward_partition, key).value == key
        assert [entry.key for entry in store.scan(awkward_partition)] == [key]
        store.delete(awkward_partition, key)
        assert list(store.scan(awkward_partition)) == []

    def test_an_empty_value_is_a_value(self, store: Store, partition: bytes) -> None:
        store.set(partition, b"key", b"")
        assert store.get(partition, b"key").value == b""

    def test_a_missing_key_is_named(self, store: Store, partition: bytes) -> None:
        store.set(partition, b"other", b"value")
        with pytest.raises(KeyNotFound, match="no key 'missing' in partition") as caught:
            store.get(partition, b"missing")
        assert (caught.value.partition, caught.value.key) == (partition, b"missing")

    def test_partitions_are_apart(self, store: Store, partition: bytes) -> None:
        longer = partition + b"/"
        store.set(partition, b"key", b"one")
        store.set(longer, b"key", b"two")
        assert store.get(partition, b"key").value == b"one"
        store.delete(partition, b"key")
        assert store.get(longer, b"key").value == b"two"
        assert list(store.scan(partition)) == []

    def test_every_write_has_a_version_of_its_own(self, store: Store, partition: bytes) -> None:
        versions = [store.set(partition, b"key", b"same") for _ in range(3)]
        versions.append(store.set_if(partition, b"key", b"same", EXISTS))
        versions.append(store.set_if(partition, b"key", b"same", versions[-1]))
        store.set_many(partition, [(b"key", b"same"), (b"other", b"same")])
        versions += [entry.predicate for entry in store.scan(partition)]
        assert len(set(versions)) == len(versions)

    def test_delete_of_what_is_not_there_is_fine(self, store: Store, partition: bytes) -> None:
        store.delete(partition, b"key")
        store.set(partition, b"key", b"value")
        store.delete(partition, b"key")
        store.delete(partition, b"key")
        with pytest.raises(KeyNotFound):
            store.get(partition, b"key")

    # Conditional writes

    def test_set_if_absent(self, store: Store, partition: bytes) -> None:
        version = store.set_if(partition, b"key", b"first", ABSENT)
        with pytest.raises(PredicateFailed):
            store.set_if(partition, b"key", b"second", ABSENT)
        assert store.get(partition, b"key") == (b"key", b"first", version)
        store.delete(partition, b"key")
        store.set_if(partition, b"key", b"third", ABSENT)
        assert store.get(partition, b"key").value == b"third"

    def test_set_if_exists(self, store: Store, partition: bytes) -> None:
        with pytest.raises(PredicateFailed):
            store.set_if(partition, b"key", b"value", EXISTS)
        with pytest.raises(KeyNotFound):
            store.get(partition, b"key")
        store.set(partition, b"key", b"value")
        version = store.set_if(partition, b"key", b"new", EXISTS)
        assert store.get(partition, b"key") == (b"key", b"new", version)

    def test_set_if_unchanged(self, store: Store, partition: bytes) -> None:
        old = store.set(partition, b"key", b"old")
        new = store.set_if(partition, b"key", b"new", old)
        assert store.get(partition, b"key") == (b"key", b"new", new)
        with pytest.raises(PredicateFailed) as caught:
            store.set_if(partition, b"key", b"newer", old)
        assert (caught.value.partition, caught.value.key) == (partition, b"key")
        assert store.get(partition, b"key") == (b"key", b"new", new)

    def test_a_predicate_is_of_one_key(self, store: Store, partition: bytes) -> None:
        store.set(partition, b"key", b"value")
        other = store.set(partition, b"other", b"value")
        with pytest.raises(PredicateFailed):
            store.set_if(partition, b"key", b"new", other)
        with pytest.raises(PredicateFailed):
            store.delete_if(partition, b"key", other)
        assert store.get(partition, b"key").value == b"value"

    def test_set_if_unchanged_of_a_deleted_key(self, store: Store, partition: bytes) -> None:
        version = store.set(partition, b"key", b"value")
        store.delete(partition, b"key")
        with pytest.raises(PredicateFailed):
            store.set_if(partition, b"key", b"new", version)
        with pytest.raises(KeyNotFound):
            store.get(partition, b"key")

    def test_delete_if_unchanged(self, store: Store, partition: bytes) -> None:
        old = store.set(partition, b"key", b"value")
        new = store.set(partition, b"key", b"value")
        with pytest.raises(PredicateFailed):
            store.delete_if(partition, b"key", old)
        assert store.get(partition, b"key").predicate == new
        store.delete_if(partition, b"key", new)
        with pytest.raises(PredicateFailed):
            store.delete_if(partition, b"key", new)

    def test_a_content_that_comes_back_is_not_the_same_write(
        self, store: Store, partition: bytes
    ) -> None:
        first = store.set(partition, b"key", b"A")
        store.set(partition, b"key", b"B")
        store.set(partition, b"key", b"A")
        with pytest.raises(PredicateFailed):
            store.set_if(partition, b"key", b"C", first)
        second = store.get(partition, b"key").predicate
        store.delete(partition, b"key")
        store.set_if(partition, b"key", b"A", ABSENT)
        for stale in (first, second):
            with pytest.raises(PredicateFailed):
                store.set_if(partition, b"key", b"C", stale)
            with pytest.raises(PredicateFailed):
                store.delete_if(partition, b"key", stale)
        assert store.get(partition, b"key").value == b"A"

    # Scans

    def test_scan_is_in_byte_order(self, store: Store, partition: bytes) -> None:
        for key in reversed(AWKWARD_KEYS):
            store.set(partition, key, b"value of " + key)
        entries = list(store.scan(partition))
        assert [entry.key for entry in entries] == sorted(AWKWARD_KEYS)
        assert all(entry.value == b"value of " + entry.key for entry in entries)
        assert all(store.get(partition, entry.key) == entry for entry in entries)

    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            (b"", [b"a", b"b", b"b\x00", b"c"]),
            (b"b", [b"b", b"b\x00", b"c"]),
            (b"b\x00", [b"b\x00", b"c"]),
            (b"bb", [b"c"]),
            (b"c\x00", []),
        ],
    )
    def test_scan_starts_at_or_after(
        self, store: Store, partition: bytes, start: bytes, expected: list[bytes]
    ) -> None:
        store.set_many(partition, [(key, b"") for key in (b"c", b"a", b"b\x00", b"b")])
        assert [entry.key for entry in store.scan(partition, start=start)] == expected

    @pytest.mark.parametrize("limit", [0, 1, 31, 32, 33, 199, 200, 201, 100_000])
    def test_scan_stops_at_the_limit(self, store: Store, partition: bytes, limit: int) -> None:
        keys = [b"%05d" % number for number in range(200)]
        store.set_many(partition, [(key, b"value") for key in keys])
        found = [entry.key for entry in store.scan(partition, limit=limit)]
        assert found == keys[:limit]

    def test_scan_of_many_pages(self, store: Store, partition: bytes) -> None:
        keys = [b"%06d" % number for number in range(20_000)]
        store.set_many(partition, [(key, key) for key in keys])
        assert [entry.key for entry in store.scan(partition)] == keys
        assert [entry.value for entry in store.scan(partition, start=keys[7])] == keys[7:]

    def test_scan_of_large_values(self, store: Store, partition: bytes) -> None:
        for number in range(80):
            store.set(partition, b"%03d" % number, bytes([number]) * 200_000)
        sizes = [len(entry.value) for entry in store.scan(partition)]
        assert sizes == [200_000] * 80

    def test_delete_while_iterating(self, store: Store, partition: bytes) -> None:
        keys = [b"%05d" % number for number in range(500)]
        store.set_many(partition, [(key, b"value") for key in keys])
        seen = []
        for entry in store.scan(partition):
            store.delete_if(partition, entry.key, entry.predicate)
            seen.append(entry.key)
        assert seen == keys
        assert list(store.scan(partition)) == []

    def test_keys_that_come_and_go_while_iterating(self, store: Store, partition: bytes) -> None:
        steady = [b"%05d" % number for number in range(0, 1000, 2)]
        store.set_many(partition, [(key, b"value") for key in steady])
        seen = []
        for count, entry in enumerate(store.scan(partition)):
            seen.append(entry.key)
            store.set(partition, b"%05d" % (2 * count + 101), b"newcomer")
            store.delete(partition, b"%05d" % (2 * count - 99))
        assert [key for key in seen if int(key) % 2 == 0] == steady
        assert seen == sorted(set(seen))

    def test_a_scan_holds_nothing_between_pages(self, store: Store, partition: bytes) -> None:
        store.set_many(partition, [(b"%05d" % number, b"value") for number in range(300)])
        scan = store.scan(partition)
        next(scan)
        writer = threading.Thread(
            target=lambda: store.set(partition, b"00299", b"new"), daemon=True
        )
        writer.start()
        writer.join(timeout=30)
        assert not writer.is_alive(), "a write waited for a scan that was not being read"
        assert [entry.value for entry in scan][-1] == b"new"

    # Bulk calls

    def test_get_many_keeps_the_order(self, store: Store, partition: bytes) -> None:
        other = partition + b"-other"
        store.set(partition, b"a", b"1")
        store.set(partition, b"b", b"2")
        store.set(other, b"a", b"3")
        wanted = [(other, b"a"), (partition, b"b"), (partition, b"missing"), (partition, b"a")]
        wanted += [(partition + b"-missing", b"a"), (partition, b"b")]
        found = store.get_many(wanted)
        assert [entry and entry.value for entry in found] == [b"3", b"2", None, b"1", None, b"2"]
        assert found[1] == store.get(partition, b"b")
        assert store.get_many([]) == []

    def test_set_many_overwrites(self, store: Store, partition: bytes) -> None:
        stale = store.set(partition, b"00001", b"old")
        store.set_many(partition, ((b"%05d" % number, b"new") for number in range(2500)))
        store.set_many(partition, [])
        entries = list(store.scan(partition))
        assert len(entries) == 2500
        assert all(entry.value == b"new" for entry in entries)
        assert entries[1].predicate != stale

    def test_the_last_of_equal_keys_in_set_many_stays(self, store: Store, partition: bytes) -> None:
        store.set_many(partition, [(b"key", b"1"), (b"other", b""), (b"key", b"2")])
        assert store.get(partition, b"key").value == b"2"

    def test_drop_partition(self, store: Store, partition: bytes) -> None:
        other = partition + b"/"
        store.set_many(partition, [(b"%05d" % number, b"value") for number in range(3000)])
        store.set(other, b"key", b"value")
        store.drop_partition(partition)
        store.drop_partition(partition)
        assert list(store.scan(partition)) == []
        assert store.get(other, b"key").value == b"value"

    # Arguments and limits

    @pytest.mark.parametrize(
        ("partition", "key", "value", "complaint"),
        [
            (b"", b"key", b"value", "partition must not be empty"),
            (b"partition", b"", b"value", "key must not be empty"),
            (b"partition", b"key", None, "value must be bytes, not NoneType"),
            (b"partition", b"key", "text", "value must be bytes, not str"),
            (b"partition", "key", b"value", "key must be bytes, not str"),
            (None, b"key", b"value", "partition must be bytes, not NoneType"),
        ],
    )
    def test_bad_arguments_are_refused(
        self, store: Store, partition: bytes, key: bytes, value: bytes, complaint: str
    ) -> None:
        with pytest.raises(InvalidArgument, match=complaint):
            store.set(partition, key, value)
        with pytest.raises(InvalidArgument, match=complaint):
            store.set_if(partition, key, value, ABSENT)
        with pytest.raises(InvalidArgument, match=complaint):
            store.set_many(partition, [(key, value)])
        if not complaint.startswith("value"):
            for call in (store.get, store.delete):
                with pytest.raises(InvalidArgument, match=complaint):
                    call(partition, key)
            with pytest.raises(InvalidArgument, match=complaint):
                store.get_many([(partition, key)])
        if complaint.startswith("partition"):
            with pytest.raises(InvalidArgument, match=complaint):
                store.drop_partition(partition)
            with pytest.raises(InvalidArgument, match=complaint):
                list(store.scan(partition))

    @pytest.mark.parametrize("predicate", [None, b"", b"short", "text", 7])
    def test_what_is_no_predicate_is_refused(
        self, store: Store, partition: bytes, predicate: Version
    ) -> None:
        store.set(partition, b"key", b"value")
        with pytest.raises(InvalidArgument, match="predicate"):
            store.set_if(partition, b"key", b"new", predicate)
        with pytest.raises(InvalidArgument, match="predicate"):
            store.delete_if(partition, b"key", predicate)
        assert store.get(partition, b"key").value == b"value"

    def test_delete_if_takes_only_versions(self, store: Store, partition: bytes) -> None:
        store.set(partition, b"key", b"value")
        for presence in (ABSENT, EXISTS):
            with pytest.raises(InvalidArgument, match="predicate"):
                store.delete_if(partition, b"key", presence)  # type: ignore[arg-type] # the test
        assert store.get(partition, b"key").value == b"value"

    def test_a_scan_refuses_bad_arguments(self, store: Store, partition: bytes) -> None:
        with pytest.raises(InvalidArgument, match="limit must be 0 or more, not -1"):
            store.scan(partition, limit=-1)
        with pytest.raises(InvalidArgument, match="start must be bytes"):
            store.scan(partition, start="text")  # type: ignore[arg-type] # the test

    def test_the_declared_limits_hold(self, store: Store, partition: bytes) -> None:
        limits = store.limits
        assert limits.partition_bytes >= 400
        assert limits.key_bytes >= 1_100
        assert limits.value_bytes >= 1 << 20
        # Bytes that do not compress, so that a limit on the stored size shows.
        noise = bytes((i * i * 31 + i * 7 + (i >> 3)) % 256 for i in range(limits.key_bytes))
        widest = (partition * limits.partition_bytes)[: limits.partition_bytes]
        store.set(widest, noise, b"value")
        assert store.get(widest, noise).value == b"value"
        assert [entry.key for entry in store.scan(widest)] == [noise]
        assert list(store.scan(widest, start=noise + b"\x00")) == []
        store.drop_partition(widest)

    def test_what_exceeds_a_limit_is_refused(self, store: Store, partition: bytes) -> None:
        limits = store.limits
        for bad_partition, key, value, number in [
            (b"p" * (limits.partition_bytes + 1), b"key", b"", limits.partition_bytes),
            (partition, b"k" * (limits.key_bytes + 1), b"", limits.key_bytes),
            (partition, b"key", b"v" * (limits.value_bytes + 1), limits.value_bytes),
        ]:
            with pytest.raises(LimitExceeded, match=f"at most {number}"):
                store.set(bad_partition, key, value)
            with pytest.raises(LimitExceeded, match=f"at most {number}"):
                store.set_if(bad_partition, key, value, ABSENT)
        assert list(store.scan(partition)) == []

    def test_a_value_of_a_mebibyte(self, store: Store, partition: bytes) -> None:
        value = bytes(range(256)) * 4096
        version = store.set(partition, b"key", value)
        assert store.get(partition, b"key").value == value
        store.set_if(partition, b"key", value[::-1], version)
        assert store.get(partition, b"key").value == value[::-1]

    # Opening and closing

    def test_a_closed_store_refuses_calls(self, url: str, partition: bytes) -> None:
        store = open_store(url)
        version = store.set(partition, b"key", b"value")
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get(partition, b"key"),
            lambda: store.set(partition, b"key", b"value"),
            lambda: store.set_if(partition, b"key", b"value", version),
            lambda: store.delete(partition, b"key"),
            lambda: store.delete_if(partition, b"key", version),
            lambda: list(store.scan(partition)),
            lambda: store.get_many([(partition, b"key")]),
            lambda: store.set_many(partition, [(b"key", b"value")]),
            lambda: store.drop_partition(partition),
        ]
        for call in calls:
            with pytest.raises(StoreClosed, match="closed"):
                call()

    def test_what_closing_leaves(self, url: str, partition: bytes) -> None:
        with open_store(url) as store:
            entry = (b"key", b"value", store.set(partition, b"key", b"value"))
            shared = store.shared_between_processes
        with open_store(url) as store:
            assert list(store.scan(partition)) == ([entry] if shared else [])

    def test_what_two_handles_share(self, url: str, store: Store, partition: bytes) -> None:
        with open_store(url) as other:
            version = store.set(partition, b"key", b"value")
            if store.shared_between_processes:
                assert other.get(partition, b"key").predicate == version
                other.set_if(partition, b"key", b"new", version)
                assert [entry.value for entry in store.scan(partition)] == [b"new"]
            else:
                assert list(other.scan(partition)) == []

    def test_a_store_of_a_newer_version_is_refused(self, url: str, store: Store) -> None:
        store.set(METADATA_PARTITION, SCHEMA_KEY, b"%d" % (SCHEMA_VERSION + 1))
        try:
            with pytest.raises(SchemaTooNew, match="upgrade Lakebed"):
                check_schema(store)
            if store.shared_between_processes:
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

    # Many at once

    def test_a_counter_ends_exact(self, url: str, store: Store, partition: bytes) -> None:
        store.set(partition, b"counter", b"0")
        if store.shared_between_processes:
            context = multiprocessing.get_context("spawn")
            children = [
                context.Process(target=increment, args=(url, partition, 25, 4)) for _ in range(4)
            ]
            for child in children:
                child.start()
            for child in children:
                child.join()
            assert [child.exitcode for child in children] == [0] * 4
        else:
            increment_with(store, partition, rounds=25, threads=16)
        assert store.get(partition, b"counter").value == b"400"

    def test_one_of_many_creates_wins(self, store: Store, partition: bytes) -> None:
        winners: list[tuple[bytes, int]] = []
        barrier = threading.Barrier(8)

        def create(name: int) -> None:
            for number in range(20):
                key = b"%02d" % number
                barrier.wait()
                try:
                    store.set_if(partition, key, b"%d" % name, ABSENT)
                except PredicateFailed:
                    continue
                winners.append((key, name))

        in_threads([partial(create, name) for name in range(8)])
        assert sorted(winners) == [(e.key, int(e.value)) for e in store.scan(partition)]
        assert len(winners) == 20

    def test_one_of_many_conditional_deletes_wins(self, store: Store, partition: bytes) -> None:
        versions = [store.set(partition, b"%02d" % number, b"value") for number in range(20)]
        deleted: list[int] = []
        barrier = threading.Barrier(8)

        def delete() -> None:
            for number, version in enumerate(versions):
                barrier.wait()
                try:
                    store.delete_if(partition, b"%02d" % number, version)
                except PredicateFailed:
                    continue
                deleted.append(number)

        in_threads([delete] * 8)
        assert sorted(deleted) == list(range(20))
        assert list(store.scan(partition)) == []

    def test_a_scan_under_load_yields_steady_keys_once(
        self, store: Store, partition: bytes
    ) -> None:
        steady = [b"%05d" % number for number in range(0, 3000, 3)]
        store.set_many(partition, [(key, b"steady") for key in steady])
        stop = threading.Event()

        def churn(offset: int) -> None:
            number = offset
            while not stop.is_set():
                key = b"%05d" % number
                store.set(partition, key, b"passing")
                store.delete(partition, key)
                number = (number + 3) % 3000

        def look() -> None:
            try:
                for _ in range(10):
                    seen = [entry.key for entry in store.scan(partition)]
                    assert seen == sorted(set(seen))
                    assert [key for key in seen if int(key) % 3 == 0] == steady
            finally:
                stop.set()

        in_threads([lambda: churn(1), lambda: churn(2), look])

    def test_get_many_never_reads_a_later_key_first(self, store: Store, partition: bytes) -> None:
        """Of a writer's two keys, the one that it writes last is read first: never ahead."""
        pair = [(partition, b"last"), (partition, b"first")]
        store.set(partition, b"first", b"0")
        store.set(partition, b"last", b"0")
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                store.set(partition, b"first", b"%d" % number)
                store.set(partition, b"last", b"%d" % number)

        def look() -> None:
            try:
                for _ in range(300):
                    last, first = store.get_many(pair)
                    assert last is not None
                    assert first is not None
                    assert int(last.value) <= int(first.value)
            finally:
                stop.set()

        in_threads([write, look])

    def test_agrees_with_a_sorted_dict(self, store: Store, partition: bytes) -> None:
        class Machine(StoreMachine):
            def __init__(self) -> None:
                super().__init__(store, partition + uuid4().hex.encode())

        run_state_machine_as_test(Machine, settings=settings(deadline=None))
