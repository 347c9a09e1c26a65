"""Check for objects of branches and tags that are missing in the storage.

Addresses in the repository's namespace are compared with one listing. Imported objects, outside of
the namespace, are not checked. Purged objects are ignored.

Only a 64-bit hash of each listed address is kept in memory, for hundreds of millions of objects. A
hash collision could hide a missing object, with a probability of about 1e-9 a check.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import BlockStore, Namespace
from lakebed.formats import AddressType
from lakebed.kv import Store
from lakebed.lake.keys import PURGES, PURGES_PARTITION

_AT_ONCE: Final = 1000


class Missing(NamedTuple):
    """Entries whose objects are missing in the storage."""

    objects: int = 0
    example: tuple[bytes, str] = (b"", "")
    """The key and the address of the first."""


class StoredObjects:
    """The objects in the namespace of a repository, at the time of one listing."""

    def __init__(self, store: Store, block: BlockStore, namespace: Namespace) -> None:
        self._store = store
        self._namespace = namespace
        batches = block.list_objects(namespace)
        hashes = [_hashes(batch.column("address").to_pylist()) for batch in batches]
        self._listed = np.sort(np.concatenate([np.empty(0, np.int64), *hashes]))

    def missing(self, entries: pa.Table) -> Missing:
        """Return the entries whose objects are missing and not purged."""
        own = entries.filter(pc.equal(entries["address_type"], int(AddressType.RELATIVE)))
        addresses = [f"{self._namespace}{each}" for each in own["address"].to_pylist()]
        wanted = _hashes(addresses)
        places = np.searchsorted(self._listed, wanted)
        is_there = np.zeros(len(wanted), bool)
        inside = places < len(self._listed)
        is_there[inside] = self._listed[places[inside]] == wanted[inside]
        rows = np.flatnonzero(~is_there).tolist()
        keys = own["key"].take(pa.array(rows, pa.int64())).to_pylist()
        found = zip(keys, [addresses[row] for row in rows], strict=True)
        unpurged = self._unpurged(found)
        first = next(unpurged, None)
        return Missing() if first is None else Missing(1 + sum(1 for _ in unpurged), first)

    def _unpurged(self, missing: Iterable[tuple[bytes, str]]) -> Iterator[tuple[bytes, str]]:
        missing = iter(missing)
        while some := list(islice(missing, _AT_ONCE)):
            places = [(PURGES_PARTITION, PURGES.prefix + address.encode()) for _, address in some]
            marks = self._store.get_many(places)
            yield from (each for each, mark in zip(some, marks, strict=True) if mark is None)


def _hashes(addresses: list[str]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(hash, addresses), np.int64, len(addresses))
