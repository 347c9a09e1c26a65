"""Committed entries as dicts: the same results as `Committed`, in a fraction of its time.

For simulations, which make thousands of small commits a second, and as the reference model of the
real code.
"""

import hashlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

import pyarrow as pa

from lakebed.block import AlreadyExists, BlockStore
from lakebed.engine.committed import (
    CONFLICT_SCHEMA,
    DIFF_SCHEMA,
    Applied,
    ChangeCounts,
    ChangeType,
    Committed,
    EntryPage,
    EntryQuery,
    Folded,
    Ingest,
    Interval,
    Strategy,
)
from lakebed.engine.committed.apply import Saved
from lakebed.engine.committed.columns import Edits
from lakebed.engine.errors import EntryNotFound, MergeConflict
from lakebed.engine.model import FilesRoot
from lakebed.formats import Entry, MetaRangeID, entries_of, entries_table, metarange_path

Contents = dict[bytes, Entry]


class ModelIngest(Ingest):
    """Collects all added entries, each counted as a closed range."""

    def __init__(self, committed: "ModelCommitted", so_far: Contents) -> None:
        self._committed = committed
        self._contents = dict(so_far)
        self.last_key = max(so_far, default=b"")
        self.count = len(so_far)

    def add(self, batch: pa.Table | pa.RecordBatch) -> None:
        for entry in entries_of(batch):
            assert entry.key > self.last_key
            self._contents[entry.key] = entry
            self.last_key = entry.key
            self.count += 1

    @property
    def closed_ranges(self) -> int:
        return len(self._contents)

    def save(self) -> Saved:
        return Saved(self.finish(), self.last_key)

    def finish(self) -> MetaRangeID:
        return self._committed.save(self._contents)


class ModelCommitted(Committed):
    """Metaranges as pickled dicts, stored at the real addresses, without a cache.

    So every read calls the storage, and the simulator can delay it or make it fail.
    """

    def __init__(self, block: BlockStore, files_root: FilesRoot) -> None:
        self._block = block
        self._namespace = files_root.namespace

    def write(self, batches: Iterable[pa.Table | pa.RecordBatch]) -> MetaRangeID:
        return self.save({entry.key: entry for batch in batches for entry in entries_of(batch)})

    def apply(self, base: MetaRangeID, changes: Iterable[pa.Table | pa.RecordBatch]) -> Applied:
        return self._put_and_remove(base, _changes(changes))

    def edit(self, base: MetaRangeID, windows: Iterable[Edits]) -> Applied:
        changes: list[tuple[bytes, Entry | None]] = []
        for edits in windows:
            changes += ((entry.key, entry) for entry in entries_of(edits.puts))
            changes += ((key, None) for key in edits.removals.to_pylist())
        return self._put_and_remove(base, changes)

    def _put_and_remove(
        self, base: MetaRangeID, changes: Iterable[tuple[bytes, Entry | None]]
    ) -> Applied:
        contents = dict(self.contents(base))
        added = changed = removed = 0
        for key, entry in changes:
            there = contents.get(key)
            if entry is None:
                removed += contents.pop(key, None) is not None
            elif there is None or there.identity != entry.identity:
                added += there is None
                changed += there is not None
                contents[key] = entry
        summary = ChangeCounts(added, changed, removed)
        return Applied(self.save(contents) if summary else base, summary)

    def ingest(self, so_far: MetaRangeID | None = None) -> ModelIngest:
        return ModelIngest(self, {} if so_far is None else self.contents(so_far))

    def replace(
        self, base: MetaRangeID, replacement: MetaRangeID, intervals: Sequence[Interval]
    ) -> MetaRangeID:
        def is_inside(key: bytes) -> bool:
            return any(key in interval for interval in intervals)

        outside = {key: entry for key, entry in self.contents(base).items() if not is_inside(key)}
        inside = {key: e for key, e in self.contents(replacement).items() if is_inside(key)}
        return self.save({**outside, **inside})

    def merge(
        self,
        base: MetaRangeID,
        source: MetaRangeID,
        destination: MetaRangeID,
        *,
        strategy: Strategy | None = None,
    ) -> MetaRangeID:
        old, theirs, ours = (self.contents(each) for each in (base, source, destination))
        merged = dict(ours)
        conflicts = []
        for key in sorted(old.keys() | theirs.keys() | ours.keys()):
            was, other, mine = (_identity(side, key) for side in (old, theirs, ours))
            if other in (was, mine):
                continue
            if mine != was:
                conflicts.append((key, _change(was, other), _change(was, mine)))
                if strategy is not Strategy.SOURCE_WINS:
                    continue
            if other is None:
                merged.pop(key, None)
            else:
                merged[key] = theirs[key]
        if conflicts and strategy is None:
            columns = list(zip(*conflicts, strict=True))
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(columns, CONFLICT_SCHEMA, strict=True)
            ]
            raise MergeConflict(pa.table(arrays, schema=CONFLICT_SCHEMA))
        return self.save(merged)

    def check_stored(self, metarange_id: MetaRangeID) -> None:
        self.contents(metarange_id)

    def get(self, metarange_id: MetaRangeID, key: bytes) -> Entry:
        try:
            return self.contents(metarange_id)[key]
        except KeyError:
            raise EntryNotFound(key) from None

    def list(self, metarange_id: MetaRangeID, query: EntryQuery) -> EntryPage[Entry]:
        entries: list[Entry] = []
        folded: list[Folded] = []
        has_more = False
        last = b""
        for key, entry in sorted(self.contents(metarange_id).items()):
            common = query.folded(key)
            name = key if common is None else common
            if not key.startswith(query.prefix) or name <= query.after or name == last:
                continue
            if len(entries) + len(folded) == query.amount:
                has_more = True
                break
            last = name
            if common is None:
                entries.append(entry)
            else:
                folded.append(Folded(common, len(entries)))
        table = entries_table(entries)
        return EntryPage(table, folded, has_more=has_more, values_of=entries_of)

    def look_up(self, metarange_id: MetaRangeID, keys: Sequence[bytes]) -> pa.Table:
        contents = self.contents(metarange_id)
        return entries_table(contents[key] for key in keys if key in contents)

    def scan(
        self, metarange_id: MetaRangeID, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[pa.Table]:
        contents = self.contents(metarange_id)
        keys = [key for key in sorted(contents) if key >= start and key.startswith(prefix)]
        if keys:
            yield entries_table(contents[key] for key in keys)

    def diff(
        self, left: MetaRangeID, right: MetaRangeID, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[pa.Table]:
        before, after = self.contents(left), self.contents(right)
        rows = []
        for key in sorted(before.keys() | after.keys()):
            old, new = before.get(key), after.get(key)
            differs = (old and old.identity) != (new and new.identity)
            if differs and key >= start and key.startswith(prefix):
                added = ChangeType.CHANGED if old else ChangeType.ADDED
                kind = added if new else ChangeType.REMOVED
                rows.append((int(kind), new or old))
        if rows:
            table = entries_table(entry for _, entry in rows if entry is not None)
            kinds = pa.array([kind for kind, _ in rows], pa.int8())
            yield table.add_column(0, DIFF_SCHEMA.field(0), kinds)

    def known_keys(
        self, metarange_id: MetaRangeID, start: bytes, end: bytes | None
    ) -> Sequence[bytes]:
        keys = [key for key in sorted(self.contents(metarange_id)) if key >= start]
        return [key for key in keys if end is None or key < end][-1:]

    def contents(self, metarange_id: MetaRangeID) -> Contents:
        """Return all entries of a metarange; callers must not change them."""
        path = metarange_path(metarange_id)
        return _decode(self._block.read(self._namespace.address(path)))

    def save(self, contents: Contents) -> MetaRangeID:
        """Store a metarange of these entries."""
        rows = sorted(contents.items())
        # Not a hash of the pickled bytes: equal rows may be pickled differently.
        metarange_id = MetaRangeID(hashlib.sha256(repr(rows).encode()).hexdigest())
        address = self._namespace.address(metarange_path(metarange_id))
        with suppress(AlreadyExists):
            self._block.create(address, pickle.dumps(rows))
        return metarange_id


def _changes(
    batches: Iterable[pa.Table | pa.RecordBatch],
) -> Iterator[tuple[bytes, Entry | None]]:
    for batch in batches:
        tombstones = batch.column("tombstone").to_pylist()
        for entry, is_tombstone in zip(entries_of(batch), tombstones, strict=True):
            yield entry.key, None if is_tombstone else entry


def _identity(contents: Contents, key: bytes) -> bytes | None:
    entry = contents.get(key)
    return None if entry is None else entry.identity


def _change(before: bytes | None, after: bytes | None) -> ChangeType:
    if before is None:
        return ChangeType.ADDED
    return ChangeType.REMOVED if after is None else ChangeType.CHANGED


@lru_cache(maxsize=1000)
def _decode(data: bytes) -> Contents:
    return dict(pickle.loads(data))
