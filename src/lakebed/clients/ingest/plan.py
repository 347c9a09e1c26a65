"""Partitioning of an import's work: pure functions on at most one item a range.

Objects are listed in *listing ranges*, between addresses of directories, into files. The keys rise
from `ListedFile` to `ListedFile`. The files are split into *parts*, only after keys that end a
range: there the cutter's state is empty, so parts can be cut independently, into the same ranges
that a single writer would have made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow as pa

from lakebed.block import BlockStore, Namespace
from lakebed.clients.ingest.errors import NothingFound, UnsortedListing
from lakebed.formats.imported import ImportedPage, imported_object, imported_page

LISTING_RANGES_MAX: Final = 4096
"""The most listing ranges of a source: further directories are merged."""

_DEPTH: Final = 3
"""Depth of the search for directories, if only a few are found above."""


@dataclass(frozen=True, slots=True)
class IngestSource:
    """A storage location to import from."""

    place: str
    is_prefix: bool
    """Whether `place` is a namespace, not a single object."""
    destination: bytes

    def page(self, listed: pa.Table) -> ImportedPage:
        if self.is_prefix:
            return imported_page(listed, self.place, self.destination)
        return imported_object(listed, self.destination)


@dataclass(frozen=True, slots=True)
class ListingRange:
    """Addresses to be listed, after `after` up to and including `upto`."""

    source: int
    after: str | None
    upto: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A sorted file of listed objects."""

    listing_range: int
    number: int
    """Number of the file within the listing range."""
    name: str
    content_id: str
    rows: int
    """0: all objects were skipped, and there is no file."""
    first_key: bytes
    last_key: bytes
    ends: Sequence[bytes]
    """The keys that end a range."""
    skipped: int
    skipped_addresses: Sequence[str]


@dataclass(frozen=True, slots=True)
class RangePart:
    """Objects to be cut into ranges: the rows of some files with keys in an interval."""

    after: bytes | None
    """Exclusive; None means from the beginning."""
    upto: bytes | None
    """Inclusive; None means to the end."""
    files: tuple[ListedFile, ...]


def listing_ranges(
    block: BlockStore, sources: Sequence[IngestSource], wanted: int
) -> Iterator[ListingRange]:
    """Yield the listing ranges of all sources in order, about `wanted` or more if possible.

    A listing range ends with the address of a directory, slash included, so objects next to
    directories are in the range of the preceding directory.
    """
    for number, source in enumerate(sources):
        before: str | None = None
        if source.is_prefix:
            for end in _folders(block, Namespace.parse(source.place), wanted):
                yield ListingRange(number, before, end)
                before = end
        yield ListingRange(number, before, None)


def _folders(block: BlockStore, namespace: Namespace, wanted: int) -> list[str]:
    """Return at most `LISTING_RANGES_MAX` addresses of directories, sorted."""
    level = [namespace]
    found: list[str] = []
    for _ in range(_DEPTH):
        below = _sampled(
            str(folder.folder(name)) for folder in level for name in block.list_folders(folder)
        )
        found = sorted({*found, *below})
        if len(found) >= wanted or not below:
            break
        level = [Namespace.parse(each) for each in below]
    return list(_sampled(found))


def _sampled(addresses: Iterable[str]) -> list[str]:
    """Sample the addresses evenly in bounded memory if too many."""
    kept: list[str] = []
    step = 1
    for number, address in enumerate(addresses):
        if number % step == 0:
            kept.append(address)
            if len(kept) > LISTING_RANGES_MAX:
                kept, step = kept[::2], 2 * step
    return kept


def in_order(
    found: Iterable[ListedFile], planned: Sequence[ListingRange], sources: Sequence[IngestSource]
) -> list[ListedFile]:
    """Return the written files, sorted by keys."""
    files = sorted(
        (each for each in found if each.rows), key=lambda each: (each.listing_range, each.number)
    )
    for one, other in pairwise(files):
        if one.last_key >= other.first_key:
            raise UnsortedListing(one.last_key, other.first_key)
    seen = {planned[each.listing_range].source for each in files}
    for number, source in enumerate(sources):
        if number not in seen:
            raise NothingFound(source.place)
    return files


def parts(files: Sequence[ListedFile], wanted: int) -> Iterator[RangePart]:
    """Yield about `wanted` parts of similar size, in order."""
    rows_each = max(1, -(-sum(file.rows for file in files) // wanted))
    after: bytes | None = None
    waiting: list[ListedFile] = []
    rows = 0
    for file in files:
        waiting.append(file)
        rows += file.rows
        if rows >= rows_each and file.ends:
            upto = file.ends[-1]
            yield RangePart(after, upto, tuple(waiting))
            is_whole = upto == file.last_key
            after, waiting, rows = upto, [] if is_whole else [file], 0
    if waiting:
        yield RangePart(after, None, tuple(waiting))
