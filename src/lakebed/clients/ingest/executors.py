"""Work of executors in an import: listing objects, and cutting listings into ranges.

Spark may run a task more than once. Listing files have random names, and the driver uses those of
one attempt only. Ranges are named by their content, so all attempts write the same files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Address, Namespace, ObjectNotFound
from lakebed.block.listing import AddressRange as Listed
from lakebed.block.listing import list_range
from lakebed.clients.ingest.errors import UnsortedListing, UnsupportedPath
from lakebed.clients.ingest.plan import IngestSource, ListedFile, ListingRange
from lakebed.formats import RangeRef, encode_range, range_path
from lakebed.formats.boundaries import Breaks, Cutter, ref_of
from lakebed.formats.files import one_array
from lakebed.formats.imported import decode_listing, encode_listing, imported_keys
from lakebed.formats.layout import listing_path
from lakebed.reclaim.collector.executors.read import Batches, Transform, rows
from lakebed.reclaim.collector.storage import Storage

FILE_ROWS: Final = 100_000
"""Approximate number of objects in a listing file, and in memory at a time."""

SKIPPED_SHOWN_MAX: Final = 100
"""The most addresses of skipped objects recorded a file."""

LISTING_RANGES: Final = "number int, source int, after string, upto string"
"""Schema of listing ranges."""

FOUND: Final = (
    "listing_range int, number int, name string, content_id string, rows long, first_key binary,"
    " last_key binary, ends array<binary>, skipped long, skipped_addresses array<string>"
)
"""Schema of listing files."""

PARTS: Final = (
    "after binary, upto binary, files array<struct<source: int, name: string, content_id: string>>"
)
"""Schema of parts."""

REFS: Final = "range_id string, min_key binary, max_key binary, count long, size_bytes long"
"""Schema of written ranges."""

_FOUND_SCHEMA: Final = pa.schema(
    [
        pa.field("listing_range", pa.int32()),
        pa.field("number", pa.int32()),
        pa.field("name", pa.string()),
        pa.field("content_id", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("first_key", pa.binary()),
        pa.field("last_key", pa.binary()),
        pa.field("ends", pa.list_(pa.binary())),
        pa.field("skipped", pa.int64()),
        pa.field("skipped_addresses", pa.list_(pa.string())),
    ]
)
_REFS_SCHEMA: Final = pa.schema(
    [
        pa.field("range_id", pa.string()),
        pa.field("min_key", pa.binary()),
        pa.field("max_key", pa.binary()),
        pa.field("count", pa.int64()),
        pa.field("size_bytes", pa.int64()),
    ]
)


def list_found(
    storage: Storage,
    import_id: str,
    sources: Sequence[IngestSource],
    breaks: Breaks,
    count: Callable[[int], None],
    *,
    strict: bool,
) -> Transform:
    """Map listing ranges to listing files; `count` is called with numbers of objects."""

    def read(batches: Batches) -> Batches:
        storage.check_owner()
        for row in rows(batches):
            listing_range = ListingRange(row["source"], row["after"], row["upto"])
            source = sources[listing_range.source]
            writer = _FoundWriter(storage, import_id, source, breaks, row["number"], strict=strict)
            for found in writer.write(_listed(storage, source, listing_range)):
                count(found.rows)
                yield pa.RecordBatch.from_pylist([asdict(found)], schema=_FOUND_SCHEMA)

    return read


def _listed(
    storage: Storage, source: IngestSource, listing_range: ListingRange
) -> Iterator[pa.RecordBatch]:
    if source.is_prefix:
        after = None if listing_range.after is None else Address.parse(listing_range.after)
        wanted = Listed(after, listing_range.upto)
        yield from list_range(storage.block, Namespace.parse(source.place), wanted)
        return
    try:
        yield storage.block.head(Address.parse(source.place)).as_listed()
    except ObjectNotFound:
        return  # the driver raises NothingFound


class _FoundWriter:
    """Writer of the listing files of one listing range."""

    def __init__(
        self,
        storage: Storage,
        import_id: str,
        source: IngestSource,
        breaks: Breaks,
        listing_range: int,
        *,
        strict: bool,
    ) -> None:
        self._storage = storage
        self._import_id = import_id
        self._source = source
        self._breaks = breaks
        self._listing_range = listing_range
        self._strict = strict
        self._files = 0
        self._last_key = b""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[ListedFile]:
        waiting: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            waiting.append(batch)
            count += batch.num_rows
            if count >= FILE_ROWS:
                yield self._write(pa.Table.from_batches(waiting))
                waiting, count = [], 0
        if waiting:
            yield self._write(pa.Table.from_batches(waiting))

    def _write(self, listed: pa.Table) -> ListedFile:
        keys, skipped = pa.array([self._source.destination], pa.binary()), 0
        addresses: list[str] = []
        if self._source.is_prefix:
            keys, unsupported = imported_keys(listed, self._source.place, self._source.destination)
            if unsupported is not None:
                skipped = unsupported.true_count
                addresses = listed["address"].filter(unsupported)[:SKIPPED_SHOWN_MAX].to_pylist()
                if self._strict:
                    raise UnsupportedPath(addresses[0])
                good = pc.invert(unsupported)
                keys, listed = keys.filter(good), listed.filter(good)
        self._files += 1
        found = self._store(listed) if listed.num_rows else ("", "")
        first, last = self._bounds(keys)
        return ListedFile(
            listing_range=self._listing_range,
            number=self._files,
            name=found[0],
            content_id=found[1],
            rows=len(keys),
            first_key=first,
            last_key=last,
            ends=keys.filter(pa.array(self._breaks.ending(keys))).to_pylist(),
            skipped=skipped,
            skipped_addresses=addresses,
        )

    def _bounds(self, keys: pa.Array) -> tuple[bytes, bytes]:
        """Return the first and the last key."""
        if not len(keys):
            return b"", b""
        first, last = keys[0].as_py(), keys[-1].as_py()
        if first <= self._last_key:
            raise UnsortedListing(self._last_key, first)
        falls = pc.index(pc.less(keys[:-1], keys[1:]), value=False).as_py()
        if falls >= 0:
            raise UnsortedListing(keys[falls].as_py(), keys[falls + 1].as_py())
        self._last_key = last
        return first, last

    def _store(self, listed: pa.Table) -> tuple[str, str]:
        data, content_id = encode_listing(listed.combine_chunks())
        name = f"{ThreadRuntime().random_bytes(8).hex()}.parquet"
        path = listing_path(self._import_id, name)
        self._storage.block.create(self._storage.namespace.address(path), data)
        return name, content_id


def cut_parts(
    storage: Storage,
    import_id: str,
    sources: Sequence[IngestSource],
    breaks: Breaks,
    count: Callable[[int], None],
) -> Transform:
    """Map parts to ranges; `count` is called with numbers of entries."""

    def read(batches: Batches) -> Batches:
        storage.check_owner()
        for row in rows(batches):
            for entries in _ranges(storage, import_id, sources, breaks, row):
                ref = _store_range(storage, entries)
                count(ref.count)
                yield pa.RecordBatch.from_pylist([asdict(ref)], schema=_REFS_SCHEMA)

    return read


def _ranges(
    storage: Storage,
    import_id: str,
    sources: Sequence[IngestSource],
    breaks: Breaks,
    part: dict[str, Any],
) -> Iterator[pa.Table]:
    """Yield the entries of each range of a part."""
    cutter = Cutter(breaks)
    for file in part["files"]:
        address = storage.namespace.address(listing_path(import_id, file["name"]))
        listed = decode_listing(storage.block.read(address), file["content_id"], file=str(address))
        entries = sources[file["source"]].page(listed).entries.combine_chunks()
        yield from cutter.add(_between(entries, part["after"], part["upto"]))
    if cutter.is_open:
        yield cutter.close()


def _between(entries: pa.Table, after: bytes | None, upto: bytes | None) -> pa.Table:
    """Return the entries with keys after `after`, up to and including `upto`."""
    keys = one_array(entries, "key")
    begin = 0 if after is None else _count_upto(keys, after)
    end = len(keys) if upto is None else _count_upto(keys, upto)
    return entries.slice(begin, max(0, end - begin))


def _count_upto(keys: pa.Array, key: bytes) -> int:
    return int(pc.sum(pc.less_equal(keys, pa.scalar(key, pa.binary())), min_count=0).as_py())


def _store_range(storage: Storage, entries: pa.Table) -> RangeRef:
    entries = entries.combine_chunks()
    ref = ref_of(entries)
    address = storage.namespace.address(range_path(ref.range_id))
    # Another attempt of this task, or an earlier import, may have written it.
    storage.block.create_by_content([(address, encode_range(entries))])
    return ref
