"""Conformance suite of key-value stores: arguments and limits."""

from typing import ClassVar

import pytest

from lakebed.kv import ABSENT, EXISTS, InvalidArgument, LimitExceeded, Store, Version
from lakebed.kv.store import Limits, Put


class ArgumentsConformance:
    """Invalid arguments are refused before the store is called."""

    least: ClassVar[Limits] = Limits(partition_bytes=400, key_bytes=1_100, value_bytes=1 << 20)
    """Limits that a driver must support, unless its database cannot."""

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
            store.set(partition, key, value, ABSENT)
        bad, fine = Put(partition, key, value), Put(b"partition", b"fine", b"")
        for writes in ([bad], [bad, fine], [fine, bad], [fine._replace(predicate=EXISTS), bad]):
            with pytest.raises(InvalidArgument, match=complaint):
                store.write(writes)
        if not complaint.startswith("value"):
            for call in (store.get, store.delete):
                with pytest.raises(InvalidArgument, match=complaint):
                    call(partition, key)
            with pytest.raises(InvalidArgument, match=complaint):
                store.get_many([(partition, key)])
            with pytest.raises(InvalidArgument, match=complaint):
                store.write([fine], [(partition, key)])
        if complaint.startswith("partition"):
            with pytest.raises(InvalidArgument, match=complaint):
                list(store.scan(partition))

    @pytest.mark.parametrize("predicate", [None, b"", b"short", "text", 7])
    def test_invalid_predicates_are_refused(
        self, store: Store, partition: bytes, predicate: Version
    ) -> None:
        store.set(partition, b"key", b"value")
        with pytest.raises(InvalidArgument, match="predicate"):
            store.set(partition, b"key", b"new", predicate)
        with pytest.raises(InvalidArgument, match="predicate"):
            store.write([Put(partition, b"key", b"new"), Put(partition, b"key", b"n", predicate)])
        with pytest.raises(InvalidArgument, match="predicate"):
            store.delete(partition, b"key", predicate)
        assert store.get(partition, b"key").value == b"value"

    @pytest.mark.parametrize("presence", [ABSENT, EXISTS])
    def test_delete_if_takes_only_versions(
        self, store: Store, partition: bytes, presence: Version
    ) -> None:
        store.set(partition, b"key", b"value")
        with pytest.raises(InvalidArgument, match="predicate"):
            store.delete(partition, b"key", presence)
        assert store.get(partition, b"key").value == b"value"

    @pytest.mark.parametrize("text", ["text"])
    def test_a_scan_refuses_bad_arguments(
        self, store: Store, partition: bytes, text: bytes
    ) -> None:
        with pytest.raises(InvalidArgument, match="limit must be 0 or more, not -1"):
            store.scan(partition, limit=-1)
        with pytest.raises(InvalidArgument, match="start must be bytes"):
            store.scan(partition, start=text)
        with pytest.raises(InvalidArgument, match="prefix must be bytes"):
            store.scan(partition, prefix=text)

    def test_the_declared_limits_hold(self, store: Store, partition: bytes) -> None:
        limits = store.limits
        assert limits.partition_bytes >= self.least.partition_bytes
        assert limits.key_bytes >= self.least.key_bytes
        assert limits.value_bytes >= self.least.value_bytes
        # Incompressible bytes, to expose a limit on the stored size.
        noise = bytes((i * i * 31 + i * 7 + (i >> 3)) % 256 for i in range(limits.key_bytes))
        widest = (partition * limits.partition_bytes)[: limits.partition_bytes]
        value = (noise * (limits.value_bytes // len(noise) + 1))[: limits.value_bytes]
        version = store.set(widest, noise, value)
        assert store.get(widest, noise).value == value
        # Not as a comparison of the items: pytest would print them.
        (item,) = store.scan(widest)
        assert (item.key, item.predicate) == (noise, version)
        assert item.value == value
        assert list(store.scan(widest, start=noise + b"\x00")) == []
        store.delete(widest, noise)

    def test_keys_and_values_above_a_limit_are_refused(
        self, store: Store, partition: bytes
    ) -> None:
        limits = store.limits
        for bad_partition, key, value, number in [
            (b"p" * (limits.partition_bytes + 1), b"key", b"", limits.partition_bytes),
            (partition, b"k" * (limits.key_bytes + 1), b"", limits.key_bytes),
            (partition, b"key", b"v" * (limits.value_bytes + 1), limits.value_bytes),
        ]:
            with pytest.raises(LimitExceeded, match=f"the limit of this store is {number}"):
                store.set(bad_partition, key, value)
            with pytest.raises(LimitExceeded, match=f"the limit of this store is {number}"):
                store.set(bad_partition, key, value, ABSENT)
            with pytest.raises(LimitExceeded, match=f"the limit of this store is {number}"):
                store.write([Put(partition, b"fine", b""), Put(bad_partition, key, value)])
            if not value:
                with pytest.raises(LimitExceeded, match=f"the limit of this store is {number}"):
                    store.get_many([(partition, b"key"), (bad_partition, key)])
        assert list(store.scan(partition)) == []

    def test_a_large_value(self, store: Store, partition: bytes) -> None:
        value = bytes(range(256)) * (self.least.value_bytes // 256)
        version = store.set(partition, b"key", value)
        assert store.get(partition, b"key").value == value
        store.set(partition, b"key", value[::-1], version)
        assert store.get(partition, b"key").value == value[::-1]
