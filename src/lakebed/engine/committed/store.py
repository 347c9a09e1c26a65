"""Operations on committed entries, which are immutable and named by their content."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore
from lakebed.engine.committed.apply import Applied, Builder, Ingest, Interval, apply
from lakebed.engine.committed.apply import replace as replace_intervals
from lakebed.engine.committed.batches import Batch, change_windows, entry_windows, examine
from lakebed.engine.committed.columns import NO_EDITS, Edits, differ_at, prefix_end
from lakebed.engine.committed.files import Cache, Counters, Files
from lakebed.engine.committed.listing import (
    DiffBlocks,
    DiffEntry,
    EntryBlocks,
    EntryPage,
    EntryQuery,
    diff_page,
    differences_of,
    entry_page,
)
from lakebed.engine.committed.merge import Strategy, count_conflicts, is_long, merge
from lakebed.engine.committed.versions import ChangeBlocks, VersionItems, version_page
from lakebed.engine.committed.walk import diff, distinct, map_ahead, window
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.model import FilesRoot
from lakebed.formats import Entry, MetaRange, MetaRangeID, RangeID
from lakebed.formats.boundaries import Breaks
from lakebed.formats.files import one_array

FILES_ROOTS_OPEN: Final = 1024

# A page of versions holds a comparison for each commit: some rows of it, and the metarange.
VERSION_ROWS_MAX: Final = 250
VERSION_RANGES_MAX: Final = 100_000
_STATES_AT_ONCE: Final = 16


class Committed:
    """The committed entries of one repository.

    A *metarange* contains the entries of a commit, sorted by key. It consists of *ranges*, which
    metaranges share. Both are files named by their content and never change. So every call can be
    repeated, and made by many threads and processes concurrently, without harm. The cost of a call
    depends on the ranges it has to read, not on the size of the metarange.

    Every reading call may raise `MissingFile`, `DamagedFile`, `ForeignFile` or `FormatTooNew`, each
    with the name of the file, and errors of the storage (`lakebed.block.errors`).
    """

    def __init__(
        self,
        block: BlockStore,
        files_root: FilesRoot,
        runtime: Runtime,
        *,
        cache: Cache | None = None,
        breaks: Breaks | None = None,
    ) -> None:
        """Open the committed entries of a repository, without reading or writing.

        `files_root`: ranges and metaranges are stored below ``_lakebed/`` in its namespace.
        `cache`: shared by all repositories of a process; by default a new memory cache. `breaks`:
        rules of range boundaries; always the same for one repository.
        """
        self._runtime = runtime
        self.breaks = breaks or Breaks()
        self._files = Files(block, files_root, runtime, cache or Cache(runtime))

    @property
    def counters(self) -> Counters:
        return self._files.counters

    def write(self, batches: Iterable[Batch]) -> MetaRangeID:
        """Store entries, tables by `ENTRY_SCHEMA` sorted by key, and return their metarange.

        Ranges are written as they fill up, and the metarange last. A failure or interruption may
        leave unreferenced ranges, which a later call need not write again.

        Raises:
            InvalidEntries: A batch does not have the columns and values of entries.
            UnsortedEntries: The keys do not rise from row to row.
        """
        builder = self._builder()
        for entries in entry_windows(batches):
            builder.add_rows(entries)
        return builder.finish()

    def ingest(self, so_far: MetaRangeID | None = None) -> Ingest:
        """Begin to store many entries step by step, or resume from `Ingest.save`."""
        metarange = (
            MetaRange(MetaRangeID(""), ()) if so_far is None else self._files.metarange(so_far)
        )
        builder = Builder(self._files, self.breaks, self._runtime, inputs=[metarange], cached=False)
        return Ingest(builder, metarange)

    def replace(
        self, base: MetaRangeID, replacement: MetaRangeID, intervals: Sequence[Interval]
    ) -> MetaRangeID:
        """Store `base` with sorted, disjoint key ranges replaced by those of `replacement`.

        Only ranges across an end of an interval are read. Raises `Invalid` for unsorted or
        overlapping intervals.
        """
        before, new = self._files.metarange(base), self._files.metarange(replacement)
        builder = self._builder(before, new)
        return replace_intervals(
            self._files, builder, base=before, replacement=new, intervals=intervals
        )

    def apply(self, base: MetaRangeID, changes: Iterable[Batch]) -> Applied:
        """Apply changes to a metarange; return the new metarange with counts.

        Ranges without changes are reused unread. A put with the identity of the committed entry is
        not a change, and this entry stays. Nor is a tombstone for a missing key. Without changes,
        the result is the base.

        `changes`: tables with the columns of `CHANGE_SCHEMA`, sorted by key; of any number and
        size.

        Raises:
            InvalidEntries, UnsortedEntries: As `write`.
        """
        return self.edit(base, change_windows(changes))

    def edit(self, base: MetaRangeID, windows: Iterable[Edits]) -> Applied:
        """Apply changes known to be sorted and valid; no window is empty."""
        metarange = self._files.metarange(base)
        return apply(self._files, self._runtime, self._builder(metarange), metarange, windows)

    def merge(
        self,
        base: MetaRangeID,
        source: MetaRangeID,
        destination: MetaRangeID,
        *,
        strategy: Strategy | None = None,
    ) -> MetaRangeID:
        """Store the three-way merge of metaranges; return the result.

        A key changed by one side is taken from this side. If both have the same identity, the
        destination's entry stays. Ranges changed by only one side are taken whole, unread. If the
        source has no new changes, the result is the destination.

        Raises:
            MergeConflict: Both sides changed keys differently, and `strategy` is None; the error
                lists all conflicts.
        """
        three = [self._files.metarange(each) for each in (base, source, destination)]
        return merge(self._files, self._runtime, self._builder(*three), *three, strategy=strategy)

    def is_long_merge(
        self, base: MetaRangeID, source: MetaRangeID, destination: MetaRangeID, *, long_rows: int
    ) -> bool:
        """Whether a `merge` must read at least `long_rows` rows."""
        three = (self._files.metarange(each) for each in (base, source, destination))
        return is_long(*three, long_rows=long_rows)

    def count_conflicts(
        self, base: MetaRangeID, source: MetaRangeID, destination: MetaRangeID
    ) -> int:
        """Return the number of conflicts of a `merge` without a strategy."""
        three = (self._files.metarange(each) for each in (base, source, destination))
        return count_conflicts(self._files, self._runtime, *three)

    def check_stored(self, metarange_id: MetaRangeID) -> None:
        """Verify that a metarange and all its ranges are in the storage, bypassing caches.

        Raises `MissingFile` with the name of a missing file.
        """
        self._files.check_stored(metarange_id)

    def examine(self, metarange_id: MetaRangeID) -> Iterator[pa.Table]:
        """Yield the entries of a metarange written elsewhere, range by range; see `examine`."""
        return examine(self._files, self._runtime, self.breaks, metarange_id)

    def get(self, metarange_id: MetaRangeID, key: bytes) -> Entry:
        """Return the entry of a key, or raise `EntryNotFound`."""
        metarange = self._files.metarange(metarange_id)
        place = metarange.position(key)
        if place == len(metarange.refs) or key < metarange.refs[place].min_key:
            raise EntryNotFound(key)
        found = self._files.range(metarange.refs[place].range_id)
        row = found.keys.find(key)
        if found.keys[row] != key:
            raise EntryNotFound(key)
        return found.rows[row]

    def scan(
        self, metarange_id: MetaRangeID, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[pa.Table]:
        """Yield the entries with a prefix, from `start` (inclusive) on, in key order.

        Tables have the columns of `ENTRY_SCHEMA`; none is empty. Ranges are read ahead, more of
        them the longer the caller continues.
        """
        metarange = self._files.metarange(metarange_id)
        start, end = max(start, prefix), prefix_end(prefix)
        refs = window(metarange, start, end)
        ranges = map_ahead(self._runtime, self._files.range, (ref.range_id for ref in refs))
        for found in ranges:
            rows = found.between(start, end)
            if rows.num_rows:
                yield rows

    def scan_all(self, metarange_ids: Iterable[MetaRangeID]) -> Iterator[pa.Table]:
        """Yield the entries of many metaranges, bypassing caches; shared ranges come once.

        A missing or damaged file means that the entries are incomplete.
        """
        return (entries for _, entries in self.scan_each(metarange_ids))

    def scan_each(
        self, metarange_ids: Iterable[MetaRangeID]
    ) -> Iterator[tuple[MetaRangeID, pa.Table]]:
        """As `scan_all`; each table comes with the first metarange that has the range."""
        first_in: dict[RangeID, MetaRangeID] = {}

        def new_ranges() -> Iterator[RangeID]:
            for metarange_id in distinct(metarange_ids):
                for ref in self._files.load_metarange(metarange_id).refs:
                    if ref.range_id not in first_in:
                        first_in[ref.range_id] = metarange_id
                        yield ref.range_id

        def load(range_id: RangeID) -> tuple[MetaRangeID, pa.Table]:
            return first_in[range_id], self._files.load_range(range_id)

        return map_ahead(self._runtime, load, new_ranges())

    def known_keys(
        self, metarange_id: MetaRangeID, start: bytes, end: bytes | None
    ) -> Sequence[bytes]:
        """Return some keys from `start` (inclusive) to `end` (exclusive), without reading a range.

        These are the last keys of ranges, so at most one range lies between two of them.
        """
        refs = window(self._files.metarange(metarange_id), start, end)
        return [ref.max_key for ref in refs if end is None or ref.max_key < end]

    def has_below(self, metarange_id: MetaRangeID, prefix: bytes) -> bool:
        """Whether a key with a prefix exists. At most one range is read."""
        metarange = self._files.metarange(metarange_id)
        place = metarange.position(prefix)
        if place == len(metarange.refs):
            return False
        ref = metarange.refs[place]
        if ref.min_key >= prefix:
            return ref.min_key.startswith(prefix)
        keys = self._files.range(ref.range_id).keys
        # The last key of the range is not below the prefix, so a key is found.
        return keys[keys.find(prefix)].startswith(prefix)

    def list(self, metarange_id: MetaRangeID, query: EntryQuery) -> EntryPage[Entry]:
        blocks = EntryBlocks(self._files, self._files.metarange(metarange_id))
        return entry_page(blocks, query, follows_from=(metarange_id, query))

    def look_up(self, metarange_id: MetaRangeID, keys: Sequence[bytes]) -> pa.Table:
        """Return the entries of the given sorted keys; missing keys are ignored."""
        metarange = self._files.metarange(metarange_id)
        refs = metarange.refs
        tables: list[pa.Table] = []
        first = place = 0
        while first < len(keys) and (place := metarange.position(keys[first], place)) < len(refs):
            ref = refs[place]
            last = bisect_right(keys, ref.max_key, first)
            if keys[last - 1] >= ref.min_key:
                tables.append(self._files.range(ref.range_id).look_up(keys[first:last]))
            first = last
        return pa.concat_tables(tables).combine_chunks() if tables else NO_EDITS.puts

    def diff(
        self, left: MetaRangeID, right: MetaRangeID, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[pa.Table]:
        """Yield the differences of the right, from `start` (inclusive) on, in key order.

        Tables have the columns of `DIFF_SCHEMA`; none is empty. Shared ranges are not read.
        """
        return diff(
            self._files,
            self._runtime,
            self._files.metarange(left),
            self._files.metarange(right),
            start=max(start, prefix),
            end=prefix_end(prefix),
        )

    def differ(
        self, left: MetaRangeID, right: MetaRangeID, *, start: bytes, end: bytes | None
    ) -> bool:
        """Whether any entry differs from `start` (inclusive) to `end` (exclusive).

        An empty id stands for no entries. Shared ranges are not read, and reading ends with the
        first difference.
        """
        sides = (
            self._files.metarange(each) if each else MetaRange(each, ()) for each in (left, right)
        )
        found = diff(self._files, self._runtime, *sides, start=start, end=end)
        return next(found, None) is not None

    def list_diff(
        self, left: MetaRangeID, right: MetaRangeID, query: EntryQuery
    ) -> EntryPage[DiffEntry]:
        """Return a page of differences; a common prefix means a difference below."""
        left_metarange, right_metarange = self._files.metarange(left), self._files.metarange(right)
        blocks = DiffBlocks(self._files, left_metarange, right_metarange, query.prefix)
        return diff_page(blocks, query)

    def list_changes(
        self, base: MetaRangeID, left: MetaRangeID, right: MetaRangeID, query: EntryQuery
    ) -> EntryPage[DiffEntry]:
        """Return a page of changes since the base by the right side and not equally by the left.

        An entry changed differently by the left is a conflict. Equal changes are left out: merging
        the right into the left would not change these entries.
        """
        if base == left:
            return self.list_diff(base, right, query)
        before, ours, theirs = (self._files.metarange(each) for each in (base, left, right))
        page = diff_page(DiffBlocks(self._files, before, theirs, query.prefix, other=ours), query)
        keys = one_array(page.rows, "key")
        conflict = differ_at(keys, *(self.look_up(each, keys.to_pylist()) for each in (base, left)))
        rows = page.rows.append_column("conflict", conflict)
        return EntryPage(rows, page.folded, has_more=page.has_more, values_of=differences_of)

    def list_versions(
        self,
        states: Sequence[MetaRangeID],
        query: EntryQuery,
        *,
        staged: ChangeBlocks | None = None,
        resume_at: int | None = None,
    ) -> VersionItems:
        """Return a page of the changes between states, the newest first; see `version_page`.

        All entries of the last state are changes; of states with very many ranges, the newest
        count. `staged` are changes of the first state, shown as state -1.
        """
        loaded: list[MetaRange] = []
        while (
            len(loaded) < len(states)
            and sum(len(each.refs) for each in loaded) < VERSION_RANGES_MAX
        ):
            some = states[len(loaded) : len(loaded) + _STATES_AT_ONCE]
            loaded += self._runtime.map_parallel(self._files.metarange, some)
        loaded.append(MetaRange(MetaRangeID(""), ()))
        sources: dict[int, ChangeBlocks] = {} if staged is None else {-1: staged}
        for number, (after, before) in enumerate(pairwise(loaded)):
            if after.metarange_id != before.metarange_id:
                sources[number] = DiffBlocks(
                    self._files, before, after, query.prefix, rows_max=VERSION_ROWS_MAX
                )
        return version_page(self._runtime, sources, query, resume_at=resume_at)

    def _builder(self, *inputs: MetaRange) -> Builder:
        return Builder(self._files, self.breaks, self._runtime, inputs=inputs)


CommittedFor = Callable[[FilesRoot], Committed]
"""Opens the committed entries of a repository."""


def committed_for(block: BlockStore, runtime: Runtime, cache: Cache) -> CommittedFor:
    """Return a function that opens the committed entries of repositories, with one cache for all.

    Open repositories know which of their ranges are stored, so the latest stay open.
    """
    return lru_cache(FILES_ROOTS_OPEN)(
        lambda files_root: Committed(block, files_root, runtime, cache=cache)
    )
