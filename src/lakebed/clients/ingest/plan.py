"""How the work of an import is cut up: pure functions, on as many things as there are ranges.

Objects are listed in *stretches*, between addresses of folders. What is found goes to files, and
comes back as `ListedFile`: the keys in these files rise from file to file. They are then split into
*parts*, but only behind keys that end a range. There the state of cutting is empty, so each part
can be cut into ranges alone, and the ranges of all parts are those that one writer would have made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow as pa

from lakebed.block import Address, BlockStore, Namespace
from lakebed.clients.ingest.errors import NothingFound, UnsortedListing
from lakebed.formats.imported import ImportedPage, imported_object, imported_page

STRETCHES_MAX: Final = 4096
"""The most stretches of a source: more folders than that are taken together."""

_DEPTH: Final = 3
"""How deep folders are looked into, where there are only a few."""


@dataclass(frozen=True, slots=True)
class IngestSource:
    """A place that objects are imported from."""

    place: str
    is_prefix: bool
    """Whether it is a namespace; else it is one object."""
    destination: bytes

    def page(self, listed: pa.Table) -> ImportedPage:
        """Return the entries of objects that were listed there."""
        if self.is_prefix:
            return imported_page(listed, self.place, self.destination)
        return imported_object(listed, self.destination)


@dataclass(frozen=True, slots=True)
class ListingRange:
    """Objects of a source to be listed: behind one address, up to and including another one."""

    source: int
    after: str | None
    upto: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file of objects that were found in a stretch, in order."""

    stretch: int
    number: int
    """Of the file, within the stretch."""
    name: str
    content_id: str
    rows: int
    """0: there is no such file, and all that was found is skipped."""
    first_key: bytes
    last_key: bytes
    ends: Sequence[bytes]
    """The keys in it that end a range."""
    skipped: int
    skipped_addresses: Sequence[str]


@dataclass(frozen=True, slots=True)
class RangePart:
    """Objects to be cut into ranges: those of some files with keys between two keys."""

    after: bytes | None
    """Not included; None: from the beginning."""
    upto: bytes | None
    """Included; None: to the end."""
    files: tuple[ListedFile, ...]


def stretches(
    block: BlockStore, sources: Sequence[IngestSource], wanted: int
) -> Iterator[ListingRange]:
    """Yield the stretches of all sources in order; if there are folders, at least about `wanted`.

    A stretch ends with the address of a folder, slash included, so objects beside folders are in
    the stretch of the folder before them.
    """
    for number, source in enumerate(sources):
        before: str | None = None
        if source.is_prefix:
            for end in _folders(block, Namespace.parse(source.place), wanted):
                yield ListingRange(number, before, end)
                before = end
        yield ListingRange(number, before, None)


def _folders(block: BlockStore, namespace: Namespace, wanted: int) -> list[str]:
    """Return addresses of folders, in order, not more than `STRETCHES_MAX`."""
    level = [namespace]
    found: list[str] = []
    for _ in range(_DEPTH):
        below = _thinned(
            str(folder.folder(name)) for folder in level for name in block.list_folders(folder)
        )
        found = sorted({*found, *below})
        if len(found) >= wanted or not below:
            break
        level = [Namespace.parse(each) for each in below]
    return list(_thinned(found))


def _thinned(addresses: Iterable[str]) -> list[str]:
    """Return some of the addresses, evenly, in bounded memory; all, if they are not too many."""
    kept: list[str] = []
    step = 1
    for number, address in enumerate(addresses):
        if number % step == 0:
            kept.append(address)
            if len(kept) > STRETCHES_MAX:
                kept, step = kept[::2], 2 * step
    return kept


def in_order(
    found: Iterable[ListedFile], planned: Sequence[ListingRange], sources: Sequence[IngestSource]
) -> list[ListedFile]:
    """Return the files that were written, in order of their keys.

    Raises:
        NothingFound: There are none of some source.
        UnsortedListing: The keys do not rise.
    """
    files = sorted(
        (each for each in found if each.rows), key=lambda each: (each.stretch, each.number)
    )
    for one, other in pairwise(files):
        if one.last_key >= other.first_key:
            raise UnsortedListing(one.last_key, other.first_key)
    seen = {planned[each.stretch].source for each in files}
    for number, source in enumerate(sources):
        if number not in seen:
            raise NothingFound(source.place)
    return files


def parts(files: Sequence[ListedFile], wanted: int) -> Iterator[RangePart]:
    """Yield parts of about the same number of objects, in order; not many more than `wanted`."""
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


def start_of(stretch: ListingRange) -> Address | None:
    """Return the address that a stretch lies behind."""
    return None if stretch.after is None else Address.parse(stretch.after)
