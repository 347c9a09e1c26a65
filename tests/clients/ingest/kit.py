"""Imports on Spark, without Spark: its transforms are plain functions."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from lakebed.block import BlockStore, MemorySettings
from lakebed.clients.ingest.executors import cut_parts, list_found
from lakebed.clients.ingest.plan import (
    IngestSource,
    ListedFile,
    ListingRange,
    in_order,
    listing_ranges,
    parts,
)
from lakebed.formats import RangeRef, encode_metarange, metarange_id, metarange_path
from lakebed.formats.boundaries import Breaks
from lakebed.formats.metaranges import metarange_table
from lakebed.reclaim.collector.storage import Storage
from tests.kit.lake import Lake


class HeldStorage(Storage):
    """A storage that this process has opened already."""

    held: BlockStore

    @property
    def block(self) -> BlockStore:
        return self.held


def storage_of(lake: Lake) -> Storage:
    """The storage of a lake, as executors see it."""
    storage = HeldStorage(MemorySettings(), lake.repository.namespace, lake.repository.unique_id)
    object.__setattr__(storage, "held", lake.block)
    return storage


def rows_of(transform: Any, rows: Iterable[dict[str, Any]], schema: pa.Schema | None) -> list[Any]:
    """What a transform makes of some rows."""
    batches = [pa.RecordBatch.from_pylist([row], schema=schema) for row in rows]
    return [row for batch in transform(iter(batches)) for row in batch.to_pylist()]


_STRETCHES = pa.schema(
    [("number", pa.int32()), ("source", pa.int32()), ("after", pa.string()), ("upto", pa.string())]
)


def list_all(
    storage: Storage,
    sources: Sequence[IngestSource],
    planned: Sequence[ListingRange],
    breaks: Breaks,
    *,
    strict: bool = False,
) -> list[ListedFile]:
    transform = list_found(storage, "id", sources, breaks, lambda _count: None, strict=strict)
    rows = [{"number": number, **asdict(each)} for number, each in enumerate(planned)]
    return [ListedFile(**row) for row in rows_of(transform, rows, _STRETCHES)]


def cut_all(
    storage: Storage,
    sources: Sequence[IngestSource],
    planned: Sequence[ListingRange],
    found: Sequence[ListedFile],
    breaks: Breaks,
    wanted: int,
) -> list[RangeRef]:
    transform = cut_parts(storage, "id", sources, breaks, lambda _count: None)
    rows = [
        {
            "after": part.after,
            "upto": part.upto,
            "files": [
                {
                    "source": planned[file.listing_range].source,
                    "name": file.name,
                    "content_id": file.content_id,
                }
                for file in part.files
            ],
        }
        for part in parts(in_order(found, planned, sources), wanted)
    ]
    refs = [RangeRef(**row) for row in rows_of(transform, rows, None)]
    return sorted(refs, key=lambda ref: ref.min_key)


def make(
    storage: Storage, sources: Sequence[IngestSource], breaks: Breaks, *, width: int = 4
) -> str:
    """Make and store the metarange of an import, as a job does; return its id."""
    planned = list(listing_ranges(storage.block, sources, width))
    found = list_all(storage, sources, planned, breaks)
    table = metarange_table(cut_all(storage, sources, planned, found, breaks, width))
    made = metarange_id(table)
    storage.block.put(storage.namespace.address(metarange_path(made)), [encode_metarange(table)])
    return made
