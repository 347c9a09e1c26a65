"""Databases with their own record version for conditional writes: an ETag or a generation.

A stamp is written once, so it corresponds to exactly one ETag, and a condition on the ETag is a
condition on the stamp. This mapping never becomes stale: the ETags of the last stamps are cached,
and the record is read if its ETag is not cached.
"""

from abc import abstractmethod
from typing import Final

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime
from lakebed.kv.fenced import Cell, CellDatabase

_REMEMBERED: Final = 10_000


class ETagCells(CellDatabase):
    """A database with an ETag per record."""

    def __init__(self, runtime: Runtime) -> None:
        self._etags: LRU[bytes, str] = LRU(runtime, cost_max=_REMEMBERED)

    @abstractmethod
    def _find(self, partition: bytes, key: bytes) -> tuple[Cell, str] | None:
        """Return the cell of a key and its ETag. Raises as `CellDatabase.read`."""

    @abstractmethod
    def _write(self, partition: bytes, key: bytes, etag: str | None, new: Cell) -> str | None:
        """Write a cell if the record has this ETag; None: if it does not exist.

        Returns:
            The new ETag, or None if the condition did not hold. Raises as `CellDatabase.swap`.
        """

    def _remember(self, cell: Cell, etag: str) -> None:
        self._etags.put(cell.stamp, etag)

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        found = self._find(partition, key)
        if found is None:
            return None
        self._remember(*found)
        return found[0]

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        etag = None
        if stamp is not None:
            etag = self._etags.get(stamp)
            if etag is None:
                found = self._find(partition, key)
                if found is None or found[0].stamp != stamp:
                    return None if found is None else found[0]
                etag = found[1]
        written = self._write(partition, key, etag, new)
        if written is None:
            return self.read(partition, key)
        self._remember(new, written)
        return new
