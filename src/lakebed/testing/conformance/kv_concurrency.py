"""Conformance suite of key-value stores: concurrent callers."""

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from lakebed.kv import ABSENT, Item, PredicateFailed, Store, open_store
from lakebed.kv.store import Put, puts
from lakebed.testing.conformance.kv_machine import Sizes, StoreMachine


def increment(url: str, partition: bytes, rounds: int, threads: int) -> None:
    """Increment the counter `rounds` times in each of some threads, by compare-and-swap."""
    with open_store(url) as store:
        increment_with(store, partition, rounds, threads)


def increment_with(store: Store, partition: bytes, rounds: int, threads: int) -> None:
    """Run `increment` on an open store."""

    def work() -> None:
        done = 0
        while done < rounds:
            item = store.get(partition, b"counter")
            try:
                store.set(partition, b"counter", b"%d" % (int(item.value) + 1), item.predicate)
            except PredicateFailed:
                continue
            done += 1

    in_threads([work] * threads)


def in_threads(calls: list[Callable[[], None]]) -> None:
    """Run calls in parallel; raise the first exception."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for future in [pool.submit(call) for call in calls]:
            future.result()


class ConcurrencyConformance(Sizes):
    """Of concurrent conditional writes one wins, and none is lost or seen twice."""

    def test_a_counter_ends_exact(self, url: str, store: Store, partition: bytes) -> None:
        store.set(partition, b"counter", b"0")
        if store.shared_between_processes and not self.one_handle:
            context = multiprocessing.get_context("spawn")
            children = [
                context.Process(target=increment, args=(url, partition, 25, self.racers // 4))
                for _ in range(4)
            ]
            for child in children:
                child.start()
            for child in children:
                child.join()
            assert [child.exitcode for child in children] == [0] * 4
        else:
            increment_with(store, partition, rounds=25, threads=self.racers)
        assert int(store.get(partition, b"counter").value) == 25 * self.racers

    def test_one_of_many_creates_wins(self, store: Store, partition: bytes) -> None:
        winners: list[tuple[bytes, int]] = []
        barrier = threading.Barrier(8)

        def create(name: int) -> None:
            for number in range(20):
                key = b"%02d" % number
                barrier.wait()
                try:
                    store.set(partition, key, b"%d" % name, ABSENT)
                except PredicateFailed:
                    continue
                winners.append((key, name))

        in_threads([partial(create, name) for name in range(8)])
        assert sorted(winners) == [(e.key, int(e.value)) for e in store.scan(partition)]
        assert len(winners) == 20

    def test_of_two_concurrent_write_then_get_clients_one_sees_the_other(
        self, store: Store, partition: bytes
    ) -> None:
        seen: dict[bytes, Item | None] = {}
        barrier = threading.Barrier(2)

        def write(own: bytes, other: bytes) -> None:
            for number in range(20):
                barrier.wait()
                key, places = own + b"%d" % number, [(partition, other + b"%d" % number)]
                (seen[key],) = store.write([Put(partition, key, b"value", ABSENT)], places)

        in_threads([partial(write, b"a", b"b"), partial(write, b"b", b"a")])
        pairs = [(seen[b"a%d" % number], seen[b"b%d" % number]) for number in range(20)]
        assert (None, None) not in pairs

    def test_one_of_many_conditional_deletes_wins(self, store: Store, partition: bytes) -> None:
        versions = [store.set(partition, b"%02d" % number, b"value") for number in range(20)]
        deleted: list[int] = []
        barrier = threading.Barrier(8)

        def delete() -> None:
            for number, version in enumerate(versions):
                barrier.wait()
                try:
                    store.delete(partition, b"%02d" % number, version)
                except PredicateFailed:
                    continue
                deleted.append(number)

        in_threads([delete] * 8)
        assert sorted(deleted) == list(range(20))
        assert list(store.scan(partition)) == []

    def test_a_scan_under_load_yields_steady_keys_once(
        self, store: Store, partition: bytes
    ) -> None:
        steady = [b"%05d" % number for number in range(0, min(3000, 3 * self.bulk), 3)]
        store.write(puts(partition, [(key, b"steady") for key in steady]))
        stop = threading.Event()

        def churn(offset: int) -> None:
            number = offset
            while not stop.is_set():
                key = b"%05d" % number
                store.set(partition, key, b"passing")
                store.delete(partition, key)
                number = (number + 3) % 3000

        def observe() -> None:
            try:
                for _ in range(10):
                    seen = [item.key for item in store.scan(partition)]
                    assert seen == sorted(set(seen))
                    assert [key for key in seen if int(key) % 3 == 0] == steady
            finally:
                stop.set()

        in_threads([lambda: churn(1), lambda: churn(2), observe])

    def test_get_many_never_reads_a_later_key_first(self, store: Store, partition: bytes) -> None:
        """`get_many` first reads the key written last: the value is never ahead."""
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

        def observe() -> None:
            try:
                for _ in range(min(300, self.bulk)):
                    last, first = store.get_many(pair)
                    assert last is not None
                    assert first is not None
                    assert int(last.value) <= int(first.value)
            finally:
                stop.set()

        in_threads([write, observe])

    def test_agrees_with_a_sorted_dict(self, store: Store, partition: bytes) -> None:
        class Machine(StoreMachine):
            def __init__(self) -> None:
                super().__init__(store, partition + uuid4().hex.encode())

        assert settings.default is not None
        examples = max(1, settings.default.max_examples // self.share)
        run_state_machine_as_test(Machine, settings=settings(max_examples=examples, deadline=None))
