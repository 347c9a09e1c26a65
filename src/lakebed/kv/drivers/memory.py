"""A store in the memory of one process, for tests, demos and the simulator."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Final

from sortedcontainers import SortedDict

from lakebed.base.runtime import Runtime
from lakebed.kv.errors import InvalidArgument, KeyNotFound, PredicateFailed, StoreClosed
from lakebed.kv.store import (
    ANY,
    DeletePredicate,
    Item,
    Limits,
    Put,
    Store,
    Version,
    check_deletable,
    check_predicate,
    holds,
    new_version,
)

SINGLE_PROCESS: Final = True


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open a new, empty store; see `lakebed.kv.open_store`."""
    if url not in {"memory://", "memory:"}:
        raise InvalidArgument(f"a memory store has no name: use memory:// instead of {url}")
    return MemoryStore(runtime)


class MemoryStore(Store):
    """A sorted map per partition, under one lock."""

    name = "memory"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=64 << 20)
    shared_between_processes = False

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._partitions: dict[bytes, SortedDict[bytes, Item]] = defaultdict(SortedDict)
        self._closed = False

    def get(self, partition: bytes, key: bytes) -> Item:
        self._check(partition, key)
        with self._lock:
            item = self._find(partition, key)
        if item is None:
            raise KeyNotFound(partition, key)
        return item

    def write(
        self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        for put in writes:
            self._check(put.partition, put.key, put.value)
            check_predicate(put.predicate)
        for place in reads:
            self._check(*place)
        with self._lock:
            for partition, key, value, predicate, version in writes:
                if not holds(predicate, self._version(partition, key)):
                    raise PredicateFailed(partition, key)
                item = Item(key, value, version or new_version(self._runtime))
                self._partitions[partition][key] = item
            return [self._find(*place) for place in reads]

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        self._check(partition, key)
        check_deletable(predicate)
        with self._lock:
            if not holds(predicate, self._version(partition, key)):
                raise PredicateFailed(partition, key)
            self._remove(partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        if self._closed:
            raise StoreClosed
        with self._lock:
            items = self._partitions.get(partition)
            if items is None:
                return []
            keys = items.irange(start, end, inclusive=(True, False))
            return [items[key] for key in islice(keys, limit)]

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        if self._closed:
            raise StoreClosed
        with self._lock:
            return [each for each in self._partitions if each > cursor], None

    def close(self) -> None:
        self._closed = True

    def _check(self, partition: bytes, key: bytes, value: bytes = b"") -> None:
        if self._closed:
            raise StoreClosed
        self.limits.check(partition, key, value)

    def _find(self, partition: bytes, key: bytes) -> Item | None:
        # Not by the default of the mapping: a lookup must not create a partition.
        items = self._partitions.get(partition)
        return None if items is None else items.get(key)

    def _version(self, partition: bytes, key: bytes) -> Version | None:
        item = self._find(partition, key)
        return None if item is None else item.predicate

    def _remove(self, partition: bytes, key: bytes) -> None:
        items = self._partitions.get(partition)
        if items is not None:
            items.pop(key, None)
            if not items:
                del self._partitions[partition]
