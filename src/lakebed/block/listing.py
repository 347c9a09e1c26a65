"""Listings of an address range of a namespace."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block.address import Address, Namespace
from lakebed.block.store import BlockStore


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Range of addresses: after `after`, up to and including `upto`."""

    after: Address | None
    upto: str | None
    """Last address as text, or None for no upper bound."""


def list_range(
    block: BlockStore, namespace: Namespace, address_range: AddressRange
) -> Iterator[pa.RecordBatch]:
    """Yield the objects in a range; columns and order as for `BlockStore.list_objects`."""
    for batch in block.list_objects(namespace, start_after=address_range.after):
        if address_range.upto is None:
            yield batch
            continue
        addresses = batch.column("address")
        if addresses[-1].as_py() <= address_range.upto:
            yield batch
            continue
        inside = batch.filter(pc.less_equal(addresses, address_range.upto))
        if inside.num_rows:
            yield inside
        return
