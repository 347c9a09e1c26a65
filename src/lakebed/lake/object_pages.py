"""Columnar pages of objects, for responses built from whole columns."""

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import Address, InvalidAddress
from lakebed.engine.committed import EntryPage
from lakebed.engine.model import Repository
from lakebed.formats import AddressType, Entry, entries_of
from lakebed.formats.files import one_array
from lakebed.lake.entry_metadata import RESERVED
from lakebed.lake.etag_pins import with_pin
from lakebed.lake.model import ObjectStats, derived_etag, location_of

ItemT = TypeVar("ItemT")


class ColumnPage(EntryPage[ItemT]):
    """A page with the columns `identity`, `address`, `checksum` and `metadata` of entries."""

    __slots__ = ()

    def etags(self) -> pa.Array:
        """Return the ETag of each row; see `etag_of`."""
        checksums = one_array(self.rows, "checksum")
        lacks = pc.equal(checksums, "")
        if not lacks.true_count:
            return checksums
        without = self.rows.filter(lacks)
        pairs = zip(
            *(without.column(name).to_pylist() for name in ("identity", "address")), strict=True
        )
        derived = pa.array([derived_etag(*pair) for pair in pairs], pa.string())
        return pc.replace_with_mask(checksums, lacks, derived)

    def user_metadata(self) -> pa.MapArray | None:
        """Return the user metadata of each row, or None if no row has any."""
        maps = one_array(self.rows, "metadata")
        offsets = maps.offsets.to_numpy()
        if offsets[0] == offsets[-1]:
            return None
        names, values = (each[offsets[0] : offsets[-1]] for each in (maps.keys, maps.items))
        is_users = pc.invert(pc.starts_with(names, RESERVED))
        if is_users.false_count == 0:
            return maps
        if is_users.true_count == 0:
            return None
        kept = np.concatenate([[0], np.cumsum(is_users.to_numpy(zero_copy_only=False))])
        ends = pa.array(kept[offsets - offsets[0]], pa.int32())
        return pa.MapArray.from_arrays(ends, names.filter(is_users), values.filter(is_users))


class ObjectPage(ColumnPage[ObjectStats]):
    """A page of objects: rows with the columns of entries."""

    __slots__ = ("_repository",)

    def __init__(self, repository: Repository, page: EntryPage[Entry]) -> None:
        source = page.follows_from
        super().__init__(
            page.rows,
            page.folded,
            has_more=page.has_more,
            values_of=self._stats,
            # The addresses of objects depend on the entries and the namespace.
            follows_from=None if source is None else (source, str(repository.namespace)),
        )
        self._repository = repository

    def _stats(self, rows: pa.Table) -> list[ObjectStats]:
        return [with_pin(self._repository, entry) for entry in entries_of(rows)]

    def addresses(self) -> tuple[str, pa.Array]:
        """Return the addresses of all rows: their common prefix, and the rest of each.

        Prefix and rest together are the canonical address, or the entry's invalid one.
        """
        namespace = self._repository.namespace
        texts, types = self.column("address"), self.column("address_type")
        kinds = set(types.to_numpy().tolist())
        if kinds <= {AddressType.RELATIVE} and _may_all_be_paths(texts):
            return str(namespace), texts
        if kinds == {AddressType.FULL} and _share_store(texts):
            return "", texts
        pairs = zip(texts.to_pylist(), types.to_pylist(), strict=True)
        found = [str(location_of(namespace, text, AddressType(kind))) for text, kind in pairs]
        return "", pa.array(found, pa.string())


def _share_store(texts: pa.Array) -> bool:
    """Whether all texts are canonical addresses in the store of the first."""
    try:
        store = f"{Address.parse(texts[0].as_py()).store}/"
    except InvalidAddress:
        return False
    longer = pc.greater(pc.binary_length(texts), len(store))  # store names are ASCII
    of_store = pc.and_(pc.starts_with(texts, store), longer)
    return of_store.false_count == 0 and _may_all_be_paths(texts)


def _may_all_be_paths(texts: pa.Array) -> bool:
    """Whether no text is empty or contains a NUL."""
    if not len(texts):
        return True
    _, bounds, data = texts.buffers()
    ends = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    is_any_empty = bool((ends[1:] == ends[:-1]).any())
    return not is_any_empty and b"\0" not in data[int(ends[0]) : int(ends[-1])].to_pybytes()
