"""Pages of a branch: what is staged laid over what is committed, a window of keys at a time.

A window holds some staged changes and the committed entries of the same stretch of keys, merged as
a commit would merge them, whole columns at a time. Pages are filled from windows just as they are
from ranges (`fill_page`): with a delimiter, a common prefix is found with its first key and the
rest of it is jumped over, in staging and in ranges alike. A run of tombstones costs one scan over
it, in windows that grow.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats import ENTRY_SCHEMA, Entry, MetaRangeID, entries_table
from lakebed.graveler.committed import Committed, DiffEntry, Page, Query
from lakebed.graveler.committed.keys import SortedKeys, one_array, successor
from lakebed.graveler.committed.listing import DiffBlock, EntryBlock, fill_page
from lakebed.graveler.committed.rows import Edits, apply_rows, diff_rows
from lakebed.graveler.errors import EntryNotFound
from lakebed.graveler.keys import STAGED_PREFIX
from lakebed.graveler.model import StagingToken
from lakebed.graveler.staging.changes import StagedChanges, changes_table
from lakebed.kv import Store

_FIRST_WINDOW: Final = 100
_LARGEST_WINDOW: Final = 25_000


def list_entries(
    store: Store,
    tokens: Sequence[StagingToken],
    committed: Committed,
    metarange_id: MetaRangeID,
    query: Query,
) -> Page[Entry]:
    """Return a page of what tokens, newest first, make of a metarange."""
    return fill_page(_MergedWindows(store, tokens, committed, metarange_id, query), query)


def list_changes(
    store: Store,
    tokens: Sequence[StagingToken],
    committed: Committed,
    metarange_id: MetaRangeID,
    query: Query,
) -> Page[DiffEntry]:
    """Return a page of what tokens, newest first, change in a metarange."""
    return fill_page(_ChangeWindows(store, tokens, committed, metarange_id, query), query)


class _StagedWindows:
    """Staged changes, some at a time, from any key on."""

    def __init__(self, store: Store, tokens: Sequence[StagingToken], query: Query) -> None:
        self._store = store
        self._tokens = tokens
        self._prefix = query.prefix
        # A page with a delimiter jumps about; one without reads on.
        self._size = _FIRST_WINDOW if query.delimiter else max(_FIRST_WINDOW, query.amount)

    def take(self, start: bytes) -> tuple[Edits, bytes | None]:
        """Return the changes from a key on, and the key up to which they are complete.

        None: they are complete to the end of the prefix.
        """
        changes = StagedChanges(
            self._store, self._tokens, start=start, prefix=self._prefix, limit=self._size
        )
        page = list(islice(changes.rows(), self._size))
        end = successor(page[-1].key[len(STAGED_PREFIX) :]) if len(page) == self._size else None
        self._size = min(self._size * 4, _LARGEST_WINDOW)
        puts = [record for record in page if record.value]
        removals = [record.key[len(STAGED_PREFIX) :] for record in page if not record.value]
        entries = changes_table(puts).select(ENTRY_SCHEMA.names).cast(ENTRY_SCHEMA)
        return Edits(entries, pa.array(removals, pa.binary())), end


class _MergedWindows:
    """What readers see, window by window; see `Blocks`."""

    def __init__(
        self,
        store: Store,
        tokens: Sequence[StagingToken],
        committed: Committed,
        metarange_id: MetaRangeID,
        query: Query,
    ) -> None:
        self._staged = _StagedWindows(store, tokens, query)
        self._committed = committed
        self._metarange_id = metarange_id
        self._prefix = query.prefix
        self._block: EntryBlock | None = None
        self._end: bytes | None = b""

    def seek(self, key: bytes) -> EntryBlock | None:
        """Return the block with the first row not below a key, which never falls."""
        while True:
            if self._block is not None and self._block.keys and self._block.keys[-1] >= key:
                return self._block
            if self._end is None:
                return None
            self._block, self._end = self._window(max(key, self._end))

    def _window(self, start: bytes) -> tuple[EntryBlock, bytes | None]:
        edits, end = self._staged.take(start)
        base = next(
            self._committed.scan(self._metarange_id, start=start, prefix=self._prefix),
            ENTRY_SCHEMA.empty_table(),
        )
        # A long range is taken in steps: what lies behind the page is not worth merging.
        base = base.slice(0, _LARGEST_WINDOW)
        if base.num_rows:
            committed_end = successor(base.column("key")[-1].as_py())
            end = committed_end if end is None else min(end, committed_end)
        merged, _ = apply_rows(_below(base, end), _edits_below(edits, end))
        return EntryBlock(merged, SortedKeys(one_array(merged, "key"))), end


class _ChangeWindows:
    """What staged changes do to a metarange, window by window; see `Blocks`."""

    def __init__(
        self,
        store: Store,
        tokens: Sequence[StagingToken],
        committed: Committed,
        metarange_id: MetaRangeID,
        query: Query,
    ) -> None:
        self._staged = _StagedWindows(store, tokens, query)
        self._committed = committed
        self._metarange_id = metarange_id
        self._block: DiffBlock | None = None
        self._end: bytes | None = b""

    def seek(self, key: bytes) -> DiffBlock | None:
        """Return the block with the first row not below a key, which never falls."""
        while True:
            if self._block is not None and self._block.keys and self._block.keys[-1] >= key:
                return self._block
            if self._end is None:
                return None
            edits, self._end = self._staged.take(max(key, self._end))
            before = self._committed_rows(edits)
            after, _ = apply_rows(before, edits)
            self._block = DiffBlock(diff_rows(before, after))

    def _committed_rows(self, edits: Edits) -> pa.Table:
        """The committed entries of changed keys; looked up, since they may lie far apart."""
        keys = edits.puts.column("key").to_pylist() + edits.removals.to_pylist()
        found = []
        for key in sorted(keys):
            try:
                found.append(self._committed.get(self._metarange_id, key))
            except EntryNotFound:
                continue
        return entries_table(found)


def _below(rows: pa.Table, end: bytes | None) -> pa.Table:
    return rows if end is None else rows.filter(pc.less(rows.column("key"), pa.scalar(end)))


def _edits_below(edits: Edits, end: bytes | None) -> Edits:
    if end is None:
        return edits
    removals = edits.removals.filter(pc.less(edits.removals, pa.scalar(end, pa.binary())))
    return Edits(_below(edits.puts, end), removals)
