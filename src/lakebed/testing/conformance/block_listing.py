"""Conformance suite of block storage: listings."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import LIST_SCHEMA, Address, BlockStore, InvalidAddress, Namespace

# In byte order; a folder sorts with its trailing slash.
ORDERED_PATHS = ["A", "Z/z", "a b", "a!/x", "a+b", "a-b", "a-b2/x", "a.txt", "a/-", "a/b", "a/b.c"]
ORDERED_PATHS += ["a/b0/c", "a0", "aa/b", "b%2Fc", "b?c#d", "é", "\uffee", "😀/x", "😀😀"]


def addresses_of(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Return the addresses of a listing, checking the form of its batches."""
    found: list[str] = []
    for batch in batches:
        assert batch.schema == LIST_SCHEMA
        assert batch.num_rows > 0
        found += batch.column("address").to_pylist()
    return found


class ListingConformance:
    """Listings. Applied by `lakebed.testing.conformance.block.BlockConformance`."""

    many_objects = 1500
    """More objects than fit on a page of a listing."""

    def test_listings_are_in_order_of_the_paths(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        for path in reversed(ORDERED_PATHS):
            store.put(namespace.address(path), [path.encode()])
        expected = [str(namespace.address(path)) for path in ORDERED_PATHS]
        assert addresses_of(store.list_objects(namespace)) == expected
        for number, path in enumerate(ORDERED_PATHS):
            rest = store.list_objects(namespace, start_after=namespace.address(path))
            assert addresses_of(rest) == expected[number + 1 :]

    def test_listings_tell_size_time_and_etag(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        store.put(namespace.address("a"), [b"12345"])
        store.put(namespace.address("b"), [])
        table = pa.Table.from_batches(store.list_objects(namespace))
        assert table["size"].to_pylist() == [5, 0]
        for address, mtime, etag in zip(
            table["address"], table["mtime"], table["etag"], strict=True
        ):
            info = store.head(Address.parse(address.as_py()))
            assert abs(info.mtime - mtime.as_py()) <= timedelta(seconds=1)
            assert info.etag == etag.as_py() != ""

    def test_listings_keep_to_the_namespace(self, store: BlockStore, namespace: Namespace) -> None:
        for path in ("dev/1", "dev-2/1", "dev.txt", "de/1", "dev/x/1", "Dev/1", "dev0/1"):
            store.put(namespace.address(path), [b""])
        folder = namespace.folder("dev")
        expected = [str(folder.address(path)) for path in ("1", "x/1")]
        assert addresses_of(store.list_objects(folder)) == expected
        assert addresses_of(store.list_objects(namespace.folder("d"))) == []
        before, behind = namespace.address("a"), namespace.address("z")
        assert addresses_of(store.list_objects(folder, start_after=before)) == expected
        assert addresses_of(store.list_objects(folder, start_after=behind)) == []

    def test_folders_are_in_order_of_the_paths_in_them(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        for path in ("dev/1", "dev/x/1", "dev-2/1", "dev.txt", "de/1", "dev0/1", "d\u00e9v/x/y/1"):
            store.put(namespace.address(path), [b""])
        # The trailing slash counts, as in path order.
        expected = ["de", "dev-2", "dev", "dev0", "d\u00e9v"]
        assert list(store.list_folders(namespace)) == expected
        assert list(store.list_folders(namespace.folder("dev"))) == ["x"]
        assert list(store.list_folders(namespace.folder("dev0"))) == []
        assert list(store.list_folders(namespace.folder("d"))) == []
        assert list(store.list_folders(namespace.folder("dev.txt"))) == []

    def test_listings_agree_with_a_sorted_list(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        names = st.sampled_from(["a", "a-b", "a.b", "a0", "A", "b", "a b", "é", "😀"])
        paths = st.lists(names, min_size=1, max_size=3).map("/".join)

        @given(kept=st.sets(paths, max_size=8), after=paths, folder=paths)
        def check(kept: set[str], after: str, folder: str) -> None:
            here = namespace.folder(uuid4().hex)
            # A disk cannot store an object below another.
            kept = {
                path for path in kept if not any(other.startswith(path + "/") for other in kept)
            }
            for path in kept:
                store.put(here.address(path), [b""])
            listed = sorted(str(here.address(path)) for path in kept)
            start = here.address(after)
            assert addresses_of(store.list_objects(here)) == listed
            assert addresses_of(store.list_objects(here, start_after=start)) == [
                address for address in listed if address > str(start)
            ]
            below = str(here.folder(folder))
            assert addresses_of(store.list_objects(here.folder(folder), start_after=start)) == [
                address for address in listed if address.startswith(below) and address > str(start)
            ]

        check()

    def test_listings_of_many_objects(self, store: BlockStore, namespace: Namespace) -> None:
        paths = [f"{number % 7}/{number:05}" for number in range(self.many_objects)]
        addresses = [namespace.address(path) for path in paths]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda address: store.put(address, []), addresses))
        assert addresses_of(store.list_objects(namespace)) == sorted(map(str, addresses))
        assert all(result.error is None for result in store.delete_many(addresses))
        assert addresses_of(store.list_objects(namespace)) == []

    def test_objects_deleted_during_a_listing(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        addresses = [namespace.address(f"{number % 3}/{number}") for number in range(12)]
        for address in addresses:
            store.put(address, [])
        found = []
        for batch in store.list_objects(namespace):
            for text in batch.column("address").to_pylist():
                found.append(text)
                store.delete(Address.parse(text))
        assert set(found) <= set(map(str, addresses))
        assert addresses_of(store.list_objects(namespace)) == []

    def test_start_after_is_of_the_same_store(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        with pytest.raises(InvalidAddress):
            list(store.list_objects(namespace, start_after=Address.parse("gs://elsewhere/x")))
