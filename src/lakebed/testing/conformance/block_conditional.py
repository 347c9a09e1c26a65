"""Conformance suite of block storage: conditional writes."""

import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain

import pytest

from lakebed.block import (
    Address,
    AlreadyExists,
    Between,
    BlockSettings,
    BlockStore,
    ETag,
    Namespace,
    NotSupported,
    ObjectNotFound,
    PreconditionFailed,
    Suffix,
    open_block,
)


def increment(settings: BlockSettings, address: Address, rounds: int, threads: int) -> None:
    """Increment a counter `rounds` times in each of some threads, by compare-and-swap."""
    with open_block(settings) as store:
        increment_with(store, address, rounds, threads)


def increment_with(store: BlockStore, address: Address, rounds: int, threads: int) -> None:
    """Run `increment` on an open store."""

    def work() -> None:
        done = 0
        while done < rounds:
            # In this order: after a concurrent write, the ETag is outdated and the replace fails.
            etag = store.head(address).etag
            number = int(store.read(address))
            try:
                store.replace(address, b"%d" % (number + 1), etag)
            except PreconditionFailed:
                continue
            done += 1

    with switching_often(), ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work) for _ in range(threads)]:
            future.result()


@contextmanager
def switching_often() -> Iterator[None]:
    """Switch threads after every few instructions, to expose races."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class ConditionalConformance:
    """`create` and `replace`. Applied by `lakebed.testing.conformance.block.BlockConformance`."""

    def test_create_only_if_absent(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("folder/object")
        etag = store.create(address, b"first")
        assert store.head(address).etag == etag
        with pytest.raises(AlreadyExists, match=str(address)) as caught:
            store.create(address, b"second")
        assert isinstance(caught.value, FileExistsError)
        assert store.read(address) == b"first"
        store.delete(address)
        store.create(address, b"")
        assert store.read(address) == b""

    def test_objects_named_by_their_contents(self, store: BlockStore, namespace: Namespace) -> None:
        objects = [(namespace.address(f"ranges/{name}"), name.encode()) for name in "abc"]
        assert store.create_by_content([]) == []
        assert store.create_by_content(objects[:1]) == [True]
        assert store.create_by_content(objects) == [False, True, True]
        for address, data in objects:
            assert store.read(address) == data
        store.delete(objects[1][0])
        assert store.create_by_content(objects) == [False, True, False]
        assert store.read(objects[1][0]) == b"b"

    def test_a_stream_is_written_only_if_absent_when_it_ends(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("folder/object")
        if store.supports_presign:  # the call is not needed then
            with pytest.raises(NotSupported):
                store.put_new(address, [b"data"])
            return

        def slow() -> Iterator[bytes]:
            yield b"slow, "
            store.put_new(address, [b"first"])
            yield b"and late"

        with pytest.raises(AlreadyExists, match=str(address)):
            store.put_new(address, slow())
        assert store.read(address) == b"first"
        store.delete(address)
        again = store.put_new(address, [b"a", b"gain"])
        assert (again.size, again.etag) == (5, store.head(address).etag)
        assert store.read(address) == b"again"

    def test_reads_and_copies_require_the_given_etag(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address, copy = namespace.address("folder/object"), namespace.address("copy")
        store.put(address, [b"first"])
        first = store.head(address).etag
        for byte_range, expected in ((None, b"first"), (Between(1, 3), b"ir"), (Suffix(2), b"st")):
            with store.get(address, byte_range=byte_range, etag=first) as stream:
                assert (b"".join(stream), stream.object_size) == (expected, 5)
        store.copy(address, copy, etag=first)
        assert store.read(copy) == b"first"
        store.put(address, [b"other"])
        for byte_range in (None, Between(1, 3), Suffix(2)):
            with pytest.raises(PreconditionFailed, match=str(address)):
                store.get(address, byte_range=byte_range, etag=first)
        with pytest.raises(PreconditionFailed, match=str(address)):
            store.copy(address, copy, etag=first)
        assert store.read(copy) == b"first"
        store.delete(address)
        with pytest.raises((ObjectNotFound, PreconditionFailed)):
            store.get(address, etag=first)

    def test_replace_only_if_unchanged(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("folder/object")
        first = store.create(address, b"1")
        second = store.replace(address, b"2", first)
        assert store.head(address).etag == second != first
        with pytest.raises(PreconditionFailed, match=str(address)):
            store.replace(address, b"3", first)
        assert store.read(address) == b"2"
        third = store.put(address, [b"3"]).etag
        with pytest.raises(PreconditionFailed):
            store.replace(address, b"4", second)
        store.replace(address, b"5", third)
        assert store.read(address) == b"5"

    def test_replacing_a_deleted_object_fails(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("folder/object")
        etag = store.create(address, b"1")
        store.delete(address)
        with pytest.raises(PreconditionFailed):
            store.replace(address, b"2", etag)
        with pytest.raises(PreconditionFailed):
            store.replace(namespace.address("never/there"), b"2", etag)
        assert not store.exists(address)

    def test_consecutive_writes_have_different_etags(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("object")
        etags = [store.put(address, [b"%04d" % number]).etag for number in range(40)]
        assert len(set(etags)) == len(etags)

    def test_one_of_many_creators_wins(self, store: BlockStore, namespace: Namespace) -> None:
        for number in range(5):
            address = namespace.address(f"{number}/object")

            def create(content: bytes, address: Address = address) -> list[tuple[bytes, ETag]]:
                try:
                    return [(content, store.create(address, content))]
                except AlreadyExists:
                    return []

            with switching_often(), ThreadPoolExecutor(8) as pool:
                contents = [b"%d" % number for number in range(8)]
                won = list(chain.from_iterable(pool.map(create, contents)))
            assert won == [(store.read(address), store.head(address).etag)]

    def test_counting_by_replace_from_threads(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("counter")
        store.create(address, b"0")
        increment_with(store, address, rounds=25, threads=4)
        assert store.read(address) == b"100"

    def test_counting_by_replace_from_processes(
        self, settings: BlockSettings, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("counter")
        store.create(address, b"0")
        if not store.shared_between_processes:
            with open_block(settings) as other:
                assert not other.exists(address)
            return
        context = multiprocessing.get_context("spawn")
        workers = [
            context.Process(target=increment, args=(settings, address, 25, 2)) for _ in range(2)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0, 0]
        assert store.read(address) == b"100"
