"""Pages of a branch: staged changes over committed entries, a window of keys at a time.

A window has staged changes and committed entries of the same key range, merged so that each key
shows the result of a read. Pages are filled from windows as from ranges (`entry_page`): with a
delimiter, a common prefix is found with its first key, and the rest of the prefix is skipped, in
staging and in ranges alike.

A run of tombstones costs one scan, in growing windows. Below a common prefix, some later keys are
looked up first: unless nearly all of the prefix is deleted, an entry is found, and the scan is not
needed. A long run is recorded, and the next listing skips it (`skip_index`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.committed import Committed, DiffEntry, EntryPage, EntryQuery
from lakebed.engine.committed.apply import Interval
from lakebed.engine.committed.columns import Edits, SortedKeys, changed_rows, prefix_end, successor
from lakebed.engine.committed.listing import Block, TableBlock, diff_page, entry_page
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.staging.cells import TOMBSTONE, Cells, newest
from lakebed.engine.staging.scan import StagedChanges, entry_rows
from lakebed.engine.staging.skip_index import SkipIndex, SkipIndexSearch
from lakebed.formats import ENTRY_SCHEMA, Entry, MetaRangeID, entries_table
from lakebed.formats.files import one_array
from lakebed.kv import Pair

_FIRST_WINDOW: Final = 100
_LARGEST_WINDOW: Final = 25_000
_PROBES: Final = 32
_NOTHING: Final = ENTRY_SCHEMA.empty_table()
_CUT: Final = len(STAGED_PREFIX)


@dataclass(frozen=True, slots=True)
class SkipIndexOptions:
    """Time of a listing, and threshold of its notes."""

    now_us: int
    tombstones_min: int
    """Runs of at least this many tombstones are recorded."""


def list_entries(
    cells: Cells,
    committed: Committed,
    metarange_id: MetaRangeID,
    query: EntryQuery,
    *,
    options: SkipIndexOptions,
) -> EntryPage[Entry]:
    """Return a page of the entries of a metarange with staged cells applied."""
    staged = _StagedWindows(cells, query)
    start = query.first_key()
    if start is not None and staged.is_empty_from(start):
        return committed.list(metarange_id, query)
    notes = SkipIndex(cells.store, cells.tokens, metarange_id, now_us=options.now_us)
    runs = _EmptyRuns(notes, query, options.tombstones_min)
    return entry_page(_MergedWindows(cells, committed, metarange_id, query, staged, runs), query)


def list_changes(
    cells: Cells, committed: Committed, metarange_id: MetaRangeID, query: EntryQuery
) -> EntryPage[DiffEntry]:
    """Return a page of the changes that staged cells make to a metarange."""
    return diff_page(ChangeWindows(cells, committed, metarange_id, query), query)


@dataclass(frozen=True, slots=True)
class _Staged:
    """Consecutive staged items."""

    keys: list[bytes]
    """Sorted, without `STAGED_PREFIX`."""
    items: list[Pair]
    end: bytes | None
    """The key up to which they are complete, or None for the end of the prefix."""
    proposed: Sequence[bytes] = ()
    """Sorted keys of the cells with a proposal."""

    def between(self, start: bytes, end: bytes | None) -> "_Staged":
        first, last = _places(self.keys, start, end)
        begin, stop = _places(self.proposed, start, end)
        proposed = self.proposed[begin:stop]
        return _Staged(self.keys[first:last], self.items[first:last], end, proposed)


def _places(keys: Sequence[bytes], start: bytes, end: bytes | None) -> tuple[int, int]:
    first = bisect_left(keys, start)
    return first, len(keys) if end is None else bisect_left(keys, end, first)


class _StagedWindows:
    """Windows of staged changes, from any key on."""

    def __init__(self, cells: Cells, query: EntryQuery) -> None:
        self._cells = cells
        self._prefix = query.prefix
        # A page with a delimiter jumps; without, it reads on, and one more item tells if more
        # follow.
        self._first_size = _FIRST_WINDOW if query.delimiter else query.amount + 1
        self._size = self._first_size
        self._window: _Staged | None = None

    def take(self, start: bytes) -> _Staged:
        """Return changes from a key on, never below the key of the previous call.

        No change is read twice. Consecutive windows grow; after a jump they are small again.
        """
        window = self._window
        if window is None:
            window = self._window = self._read(start)
        elif window.end is not None and start >= window.end:
            grown = min(self._size * 4, _LARGEST_WINDOW)
            self._size = grown if start == window.end else self._first_size
            window = self._window = self._read(start)
        return window.between(start, window.end)

    def is_empty_from(self, start: bytes) -> bool:
        found = self.take(start)
        return not found.keys and found.end is None

    def forget(self) -> None:
        """Read already seen changes from the store again."""
        self._window = None

    def _read(self, start: bytes) -> _Staged:
        self._cells.passed_over.clear()
        changes = StagedChanges(self._cells, start=start, prefix=self._prefix, limit=self._size)
        items = changes.begin(self._size)
        keys = [key[_CUT:] for key, _ in items]
        end = successor(keys[-1]) if len(keys) == self._size else None
        return _Staged(keys, items, end, sorted(self._cells.passed_over))


class _EmptyRuns:
    """Runs of deleted keys: known from notes, or to be recorded."""

    def __init__(self, notes: SkipIndex, query: EntryQuery, noted_min: int) -> None:
        self._notes = notes
        self._query = query
        self._noted_min = noted_min
        self._known: list[Interval] | None = None
        self._begin: bytes | None = None
        self._hidden = 0
        self._search: SkipIndexSearch | None = None
        self._seen_to = b""

    def jump(self, place: bytes) -> bytes | None:
        """Return the end of the known empty range that contains a key, or the key itself."""
        if self._known is None:
            # Only after an empty window: most listings never need the notes.
            self._known = self._notes.key_ranges()
        for key_range in self._known:
            if place in key_range:
                return key_range.end
        return place

    def add(self, hidden: list[bytes], place: bytes) -> bool:
        """Add consecutive hidden keys, up to a place; return whether to read again from there."""
        self._begin = hidden[0] if self._begin is None else self._begin
        self._hidden += len(hidden)
        self._seen_to = place
        goes_on = self._search is not None and place not in self._search.key_range
        if self._search is not None and goes_on:
            self._note(self._search.key_range.end)
        if self._search is not None or (self._hidden < self._noted_min and not goes_on):
            return False
        self._search = self._notes.seek(Interval(place, self._bound(place)))
        self._hidden = 0  # on failure, do not retry at once
        return self._search is not None

    def _bound(self, place: bytes) -> bytes | None:
        """Return how far to seek: for a run inside one directory, to its end.

        Writers may be busy further on, and would have to cut the note.
        """
        common = self._query.folded(place)
        assert self._begin is not None
        if common is not None and common == self._query.folded(self._begin):
            return prefix_end(common)
        return prefix_end(self._query.prefix)

    def stop(self) -> None:
        """End the run at the last place: an entry follows."""
        self.end(self._seen_to)

    def end(self, end: bytes | None) -> None:
        """End the run at a key, or None for the end of all keys."""
        self._note(end)
        self._begin, self._hidden = None, 0

    def _note(self, end: bytes | None) -> None:
        search, self._search = self._search, None
        if search is not None and (end is None or end > search.key_range.start):
            self._notes.found(search, end)


class _MergedWindows:
    """Windows of visible entries; see `Blocks`."""

    def __init__(
        self,
        cells: Cells,
        committed: Committed,
        metarange_id: MetaRangeID,
        query: EntryQuery,
        staged: _StagedWindows,
        runs: _EmptyRuns,
    ) -> None:
        self._runs = runs
        self._staged = staged
        self._committed = committed
        self._metarange_id = metarange_id
        self._query = query
        self._cells = cells
        self._probed: bytes | None = None
        self._block: Block | None = None
        self._end: bytes | None = b""

    def seek(self, key: bytes) -> Block | None:
        """See `Blocks`; returns any of the blocks whose rows fold into one common prefix."""
        while True:
            if self._block is not None and self._block.keys and self._block.keys[-1] >= key:
                self._runs.stop()
                return self._block
            if self._end is None:
                return None
            start = max(key, self._end)
            self._block, self._end, staged = self._window(start)
            if self._block.keys:
                continue
            if staged.proposed:
                # Its writer may have read the note already, and be about to make the key visible.
                self._runs.stop()
            if self._end is not None:
                self._pass_over(staged, self._end)
            elif not staged.proposed:
                self._runs.end(prefix_end(self._query.prefix))

    def _pass_over(self, staged: _Staged, end: bytes) -> None:
        place = self._runs.jump(end)
        if place != end:
            # The note may have been cut since the read: do not extend it.
            self._runs.stop()
            self._end = place
            return
        if not staged.proposed and self._runs.add(staged.keys, end):
            self._staged.forget()
        self._block = self._probe(end)

    def _probe(self, start: bytes) -> Block | None:
        """Search further on for an entry in a common prefix that begins with tombstones.

        The last keys of ranges are known without reading, and looked up in staging by a single
        call. If any of these is not deleted, the prefix exists, and its first tombstones need not
        be scanned.
        """
        common = self._query.folded(start)
        if common is None or common == self._probed:
            return None
        self._probed = common
        known = self._committed.known_keys(self._metarange_id, start, prefix_end(common))
        # A sample spread over the prefix, the last key first.
        keys = known[:: -max(1, len(known) // _PROBES)]
        names = [STAGED_PREFIX + key for key in keys]
        tokens = [token.encode() for token in self._cells.tokens]
        wanted = [(token, name) for name in names for token in tokens]
        found = iter(self._cells.store.get_many(wanted) if wanted else [])
        for key, name in zip(keys, names, strict=True):
            value = newest(self._cells.settled(list(islice(found, len(tokens)))))
            if value is None:
                entry = self._committed.get(self._metarange_id, key)
                return _MergedBlock(entries_table([entry]), _Staged([], [], None))
            if value != TOMBSTONE:
                return _MergedBlock(_NOTHING, _Staged([key], [(name, value)], None))
        return None

    def _window(self, start: bytes) -> tuple[Block, bytes | None, _Staged]:
        """Read the window after a key; return the block, its end, and its staged changes."""
        staged = self._staged.take(start)
        end = staged.end
        base = next(
            self._committed.scan(self._metarange_id, start=start, prefix=self._query.prefix),
            _NOTHING,
        )
        # A long range is taken in steps: most of it may lie behind the page.
        base = base.slice(0, self._committed_max(staged))
        keys = SortedKeys(one_array(base, "key"))
        if keys:
            committed_end = successor(keys[-1])
            end = committed_end if end is None else min(end, committed_end)
            base = base.slice(0, keys.find(end))
        staged = staged.between(start, end)
        return _MergedBlock(base, staged), end, staged

    def _committed_max(self, staged: _Staged) -> int:
        """Return how many committed rows to merge with staged rows at a time.

        A page without a delimiter needs at most its items, one more, and the hidden rows.
        """
        if self._query.delimiter or not staged.keys:
            return _LARGEST_WINDOW
        return min(self._query.amount + 1 + len(staged.keys), _LARGEST_WINDOW)


class _MergedBlock:
    """Consecutive entries, staged and committed; see `Block`.

    Merged by their keys alone. Staged values are parsed on demand: most values below a common
    prefix never are.
    """

    def __init__(self, base: pa.Table, staged: _Staged) -> None:
        self._puts = [item for item in staged.items if item[1] != TOMBSTONE]
        base_keys = one_array(base, "key")
        if staged.keys and base.num_rows:
            hidden = pc.is_in(base_keys, value_set=pa.array(staged.keys, pa.binary()))
            if hidden.true_count:
                base = base.filter(pc.invert(hidden)).combine_chunks()
                base_keys = one_array(base, "key")
        self._base = base
        # Rows of the base, then puts, by key; None if all are of one kind.
        self._order: pa.Array | None = None
        keys = base_keys
        if self._puts:
            put_keys = pa.array([key[_CUT:] for key, _ in self._puts], pa.binary())
            keys = pa.concat_arrays([base_keys, put_keys]) if base.num_rows else put_keys
        if self._puts and base.num_rows:
            self._order = pc.sort_indices(keys)
            keys = keys.take(self._order)
        self.keys = SortedKeys(keys)

    def rows(self, first: int, last: int) -> pa.Table:
        # As for a read of the key: the staged entry, even if equal to the committed entry.
        if not self._puts:
            return self._base.slice(first, last - first)
        if self._order is None:
            return entry_rows(self._puts[first:last])
        wanted = self._order.slice(first, last - first).to_numpy()
        is_put = wanted >= self._base.num_rows
        puts = [self._puts[row - self._base.num_rows] for row in wanted[is_put].tolist()]
        rows = pa.concat_tables([self._base.take(wanted[~is_put]), entry_rows(puts)])
        # Rows are committed first, then staged: restore the order of keys.
        places = np.concatenate([np.flatnonzero(~is_put), np.flatnonzero(is_put)])
        return rows.combine_chunks().take(np.argsort(places))


class ChangeWindows:
    """Windows of changes that staged cells make to a metarange; see `ChangeBlocks`."""

    def __init__(
        self, cells: Cells, committed: Committed, metarange_id: MetaRangeID, query: EntryQuery
    ) -> None:
        self._staged = _StagedWindows(cells, query)
        self._committed = committed
        self._metarange_id = metarange_id
        self._block: TableBlock | None = None
        self._end: bytes | None = b""

    def seek(self, key: bytes) -> TableBlock | None:
        while True:
            if self._block is not None and self._block.keys and self._block.keys[-1] >= key:
                return self._block
            if self._end is None:
                return None
            staged = self._staged.take(max(key, self._end))
            self._end = staged.end
            before = self._committed.look_up(self._metarange_id, staged.keys)
            self._block = TableBlock(changed_rows(before, _edits(staged)))

    def bound(self, key: bytes) -> bytes:
        return key


def _edits(staged: _Staged) -> Edits:
    puts = [item for item in staged.items if item[1] != TOMBSTONE]
    items = zip(staged.keys, staged.items, strict=True)
    removals = [key for key, (_, value) in items if value == TOMBSTONE]
    return Edits(entry_rows(puts), pa.array(removals, pa.binary()))
