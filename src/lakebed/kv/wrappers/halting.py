"""Lets writes through only while the store's mark is what this process expects.

Around the driver, inside the wrapper that tries again: every try looks at the mark, so that a call
which goes on trying for a while does not outlast it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.kv.errors import StoreHalted
from lakebed.kv.halt import CHECK_SECONDS, HALT_KEY, find_mark, read_mark
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.kv.store import ANY, DeletePredicate, Guard, Item, Pair, Predicate, Put, Store, Version
from lakebed.kv.wrappers.wrapped import WrappedStore
from lakebed.runtime import Runtime


@dataclass(slots=True)
class Permit:
    """When a process may write to a store."""

    mark: bytes | None = None
    """The mark that the store must have; None: none that stops writers."""
    reads_only: bool = False


class HaltingStore(WrappedStore):
    """A store that refuses writes while its mark is another than the permit says.

    The mark itself may be written at any time: whoever does so compares it with what was there.
    """

    def __init__(self, inner: Store, runtime: Runtime, permit: Permit) -> None:
        super().__init__(inner)
        self._clock = runtime.monotonic
        self._permit = permit
        self._expected: bytes | None = None
        self._looked_at = float("-inf")

    def get(self, partition: bytes, key: bytes) -> Item:
        return self._inner.get(partition, key)

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        return self._inner.get_many(keys)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        return self._inner.scan_page(partition, start, limit, end)

    def pairs_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Pair]:
        return self._inner.pairs_page(partition, start, limit, end)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        return self._inner.partition_page(cursor)

    def set(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Version:
        self._check(partition, key)
        return self._inner.set(partition, key, value, predicate, version=version)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        self._check(partition, key)
        self._inner.delete(partition, key, predicate)

    def write(
        self,
        writes: Sequence[Put],
        reads: Sequence[tuple[bytes, bytes]] = (),
        *,
        guards: Sequence[Guard] = (),
    ) -> list[Item | None]:
        for put in writes:
            self._check(put.partition, put.key)
        return self._inner.write(writes, reads, guards=guards)

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        self._check(partition)
        return self._inner.drop_tombstones(partition, start, limit, end)

    def _check(self, partition: bytes, key: bytes = b"") -> None:
        """Make sure that this process may write.

        Raises:
            StoreHalted: It may not.
        """
        if self._permit.reads_only:
            raise StoreHalted("this store was opened for reading only")
        expected = self._permit.mark
        # By the time before the look: the mark may have been written right after it was looked for.
        now = self._clock()
        if expected == self._expected and now - self._looked_at < CHECK_SECONDS:
            return
        if (partition, key) == (METADATA_PARTITION, HALT_KEY):
            return
        mark = find_mark(self._inner)
        if expected is None:
            refused = mark is not None and read_mark(mark.value).halts
        else:
            refused = mark is None or mark.value != expected
        if refused:
            raise StoreHalted(_reason(mark))
        self._expected, self._looked_at = expected, now


def _reason(found: Item | None) -> str:
    halt = None if found is None else read_mark(found.value)
    if halt is None or not halt.halts:
        return "this copy was completed by another run, or given up"
    return halt.explain()
