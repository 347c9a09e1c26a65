"""Several installations in one database, each in a namespace of its own.

Every partition gets the namespace in front, so no installation sees a partition of another. Those
who share a database share its limits, its speed and its outages, too.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from lakebed.kv.errors import KeyNotFound, PredicateFailed
from lakebed.kv.store import (
    ANY,
    NAMESPACE_MARK,
    DeletePredicate,
    Guard,
    Item,
    Pair,
    Predicate,
    Put,
    Store,
    Version,
)
from lakebed.kv.wrappers.wrapped import WrappedStore


class NamespacedStore(WrappedStore):
    """The part of a store that belongs to a namespace."""

    def __init__(self, inner: Store, namespace: str) -> None:
        super().__init__(inner)
        self._front = NAMESPACE_MARK + namespace.encode() + b"\x00"
        room = inner.limits.partition_bytes - len(self._front)
        self.limits = replace(inner.limits, partition_bytes=room)

    def get(self, partition: bytes, key: bytes) -> Item:
        with self._naming(partition, key):
            return self._inner.get(self._inside(partition), key)

    def set(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Version:
        with self._naming(partition, key):
            return self._inner.set(self._inside(partition), key, value, predicate, version=version)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        with self._naming(partition, key):
            self._inner.delete(self._inside(partition), key, predicate)

    def write(
        self,
        writes: Sequence[Put],
        reads: Sequence[tuple[bytes, bytes]] = (),
        *,
        guards: Sequence[Guard] = (),
    ) -> list[Item | None]:
        inside = [put._replace(partition=self._inside(put.partition)) for put in writes]
        places = [(self._inside(of), key) for of, key in reads]
        guarded = [guard._replace(partition=self._inside(guard.partition)) for guard in guards]
        try:
            return self._inner.write(inside, places, guards=guarded)
        except PredicateFailed as error:
            raise PredicateFailed(error.partition.removeprefix(self._front), error.key) from None

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        return self._inner.scan_page(self._inside(partition), start, limit, end)

    def pairs_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Pair]:
        return self._inner.pairs_page(self._inside(partition), start, limit, end)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        page, after = self._inner.partition_page(cursor)
        own = [each.removeprefix(self._front) for each in page if each.startswith(self._front)]
        return own, after

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        return self._inner.get_many([(self._inside(of), key) for of, key in keys])

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        return self._inner.drop_tombstones(self._inside(partition), start, limit, end)

    def _inside(self, partition: bytes) -> bytes:
        self.limits.check_partition(partition)
        return self._front + partition

    @contextmanager
    def _naming(self, partition: bytes, key: bytes) -> Iterator[None]:
        """Let errors name the partition as the caller knows it."""
        try:
            yield
        except KeyNotFound:
            raise KeyNotFound(partition, key) from None
        except PredicateFailed:
            raise PredicateFailed(partition, key) from None
