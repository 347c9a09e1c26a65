"""Conformance suite of key-value stores: scans."""

import threading

import pytest

from lakebed.kv import Store
from lakebed.kv.store import PARTITIONS_PAGE, puts
from lakebed.testing.conformance.kv_machine import AWKWARD_KEYS, Sizes


class ScansConformance(Sizes):
    """Keys are returned in order, from the given start, each once."""

    def test_scan_is_in_byte_order(self, store: Store, partition: bytes) -> None:
        for key in reversed(AWKWARD_KEYS):
            store.set(partition, key, b"value of " + key)
        items = list(store.scan(partition))
        assert [item.key for item in items] == sorted(AWKWARD_KEYS)
        assert all(item.value == b"value of " + item.key for item in items)
        assert all(store.get(partition, item.key) == item for item in items)

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
        store.write(puts(partition, [(key, b"") for key in (b"c", b"a", b"b\x00", b"b")]))
        assert [item.key for item in store.scan(partition, start=start)] == expected

    @pytest.mark.parametrize(
        ("start", "prefix", "expected"),
        [
            (b"", b"", [b"a", b"b", b"b\x00", b"b\xff", b"c", b"\xff", b"\xff\xff"]),
            (b"", b"b", [b"b", b"b\x00", b"b\xff"]),
            (b"b\x00", b"b", [b"b\x00", b"b\xff"]),
            (b"", b"b\xff", [b"b\xff"]),
            (b"", b"\xff", [b"\xff", b"\xff\xff"]),
            (b"", b"bb", []),
            (b"c", b"b", []),
        ],
    )
    def test_scan_of_a_prefix(
        self, store: Store, partition: bytes, start: bytes, prefix: bytes, expected: list[bytes]
    ) -> None:
        keys = (b"c", b"a", b"b\x00", b"b", b"b\xff", b"\xff", b"\xff\xff")
        store.write(puts(partition, [(key, b"") for key in keys]))
        # The next key in the database belongs to another partition.
        store.set(partition + b"\x00", b"b", b"")
        assert [item.key for item in store.scan(partition, start, prefix=prefix)] == expected
        found = [item.key for item in store.scan(partition, start, prefix=prefix, limit=2)]
        assert found == expected[:2]

    def test_scan_of_a_prefix_of_many_pages(self, store: Store, partition: bytes) -> None:
        keys = [b"%06d" % number for number in range(self.bulk)]
        store.write(puts(partition, [(key, key) for key in keys]))
        for prefix in (b"0", b"0000", b"00001", keys[-1]):
            found = [item.key for item in store.scan(partition, prefix=prefix)]
            assert found == [key for key in keys if key.startswith(prefix)]

    def test_a_page_ends_before_a_key(self, store: Store, partition: bytes) -> None:
        store.write(puts(partition, [(b"%03d" % number, b"") for number in range(100)]))
        for count in (1, 50, 99):
            page = store.scan_page(partition, b"", 100, b"%03d" % count)
            assert [item.key for item in page] == [b"%03d" % number for number in range(count)]

    def test_scan_stops_at_the_limit(self, store: Store, partition: bytes) -> None:
        keys = [b"%05d" % number for number in range(200)]
        store.write(puts(partition, [(key, b"value") for key in keys]))
        for limit in (0, 1, 31, 32, 33, 199, 200, 201, 100_000):
            found = [item.key for item in store.scan(partition, limit=limit)]
            assert found == keys[:limit], limit

    def test_scan_of_many_pages(self, store: Store, partition: bytes) -> None:
        keys = [b"%06d" % number for number in range(self.bulk)]
        store.write(puts(partition, [(key, key) for key in keys]))
        assert [item.key for item in store.scan(partition)] == keys
        assert [item.value for item in store.scan(partition, start=keys[7])] == keys[7:]
        assert [item[:2] for item in store.scan(partition)] == [(key, key) for key in keys]

    def test_scan_of_large_values(self, store: Store, partition: bytes) -> None:
        values = [(b"%03d" % number, bytes([number]) * 200_000) for number in range(80)]
        store.write(puts(partition, values))
        assert [(item.key, item.value) for item in store.scan(partition)] == values
        for key, _ in values:
            store.delete(partition, key)  # otherwise listings of a whole table would read it again

    def test_every_partition_is_listed_once(self, store: Store, partition: bytes) -> None:
        """Include awkward names, and names that are prefixes of others."""
        awkward = [partition + key[:100] for key in AWKWARD_KEYS if len(key) < 200]
        many = [partition + b"-%04d" % number for number in range(PARTITIONS_PAGE + 1)]
        # The highest name of its length.
        highest = b"\xff" * len(many[0])
        for each in (*awkward, *many, highest):
            store.set(each, b"key", b"value")
        store.write(
            puts(partition, [(b"%04d" % number, b"") for number in range(min(1200, self.bulk))])
        )
        listed = list(store.partitions())
        assert len(listed) == len(set(listed))
        assert {*awkward, *many, highest, partition} <= set(listed)

    def test_an_empty_partition_is_not_listed_or_listed_empty(
        self, store: Store, partition: bytes
    ) -> None:
        store.set(partition, b"key", b"value")
        store.delete(partition, b"key")
        store.set(partition + b"2", b"key", b"value")
        for listed in store.partitions():
            assert listed != partition or not list(store.scan(listed))
        assert partition + b"2" in store.partitions()

    def test_delete_while_iterating(self, store: Store, partition: bytes) -> None:
        keys = [b"%05d" % number for number in range(min(500, self.bulk))]
        store.write(puts(partition, [(key, b"value") for key in keys]))
        seen = []
        for item in store.scan(partition):
            store.delete(partition, item.key, item.predicate)
            seen.append(item.key)
        assert seen == keys
        assert list(store.scan(partition)) == []

    def test_keys_written_and_deleted_during_a_scan(self, store: Store, partition: bytes) -> None:
        steady = [b"%05d" % number for number in range(0, min(1000, 2 * self.bulk), 2)]
        store.write(puts(partition, [(key, b"value") for key in steady]))
        seen = []
        for count, item in enumerate(store.scan(partition)):
            seen.append(item.key)
            store.set(partition, b"%05d" % (2 * count + 101), b"newcomer")
            store.delete(partition, b"%05d" % (2 * count - 99))
        assert [key for key in seen if int(key) % 2 == 0] == steady
        assert seen == sorted(set(seen))

    def test_a_scan_holds_nothing_between_pages(self, store: Store, partition: bytes) -> None:
        store.write(puts(partition, [(b"%05d" % number, b"value") for number in range(300)]))
        scan = store.scan(partition)
        next(scan)
        writer = threading.Thread(
            target=lambda: store.set(partition, b"00299", b"new"), daemon=True
        )
        writer.start()
        writer.join(timeout=30)
        assert not writer.is_alive(), "a write waited for a scan that was not being read"
        assert [item.value for item in scan][-1] == b"new"
