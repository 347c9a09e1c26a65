"""Committed metadata as plain dicts: the same answers as `Committed`, without files.

For simulations, where thousands of small commits are made in a second, and as the model that the
real one is compared with.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from lakebed.formats import Entry, MetaRangeID, entries_of, entries_table
from lakebed.graveler.committed import (
    CONFLICT_SCHEMA,
    Applied,
    ChangeType,
    Committed,
    Strategy,
    Summary,
)
from lakebed.graveler.errors import EntryNotFound, MergeConflict

ResultT = TypeVar("ResultT")

Contents = dict[bytes, Entry]


class ModelCommitted(Committed):
    """Metaranges as dicts in a dict that all actors share.

    Args:
        metaranges: The dict.
        gate: Every look into it and every addition goes through this; under the simulator it is
            where calls are delayed and fail.
    """

    def __init__(
        self,
        metaranges: dict[MetaRangeID, Contents],
        gate: Callable[[str, Callable[[], object]], object],
    ) -> None:
        self._metaranges = metaranges
        self._gate = gate

    def write(self, batches: Iterable[pa.Table | pa.RecordBatch]) -> MetaRangeID:
        return self._save({entry.key: entry for batch in batches for entry in entries_of(batch)})

    def apply(self, base: MetaRangeID, changes: Iterable[pa.Table | pa.RecordBatch]) -> Applied:
        contents = dict(self._load(base))
        added = changed = removed = 0
        for key, entry in _changes(changes):
            there = contents.get(key)
            if entry is None:
                removed += contents.pop(key, None) is not None
            elif there is None or there.identity != entry.identity:
                added += there is None
                changed += there is not None
                contents[key] = entry
        summary = Summary(added, changed, removed)
        return Applied(self._save(contents) if summary else base, summary)

    def merge(
        self,
        base: MetaRangeID,
        source: MetaRangeID,
        destination: MetaRangeID,
        *,
        strategy: Strategy | None = None,
    ) -> MetaRangeID:
        old, theirs, ours = (self._load(each) for each in (base, source, destination))
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
        return self._save(merged)

    def get(self, metarange_id: MetaRangeID, key: bytes) -> Entry:
        try:
            return self._load(metarange_id)[key]
        except KeyError:
            raise EntryNotFound(key) from None

    def scan(
        self, metarange_id: MetaRangeID, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[pa.Table]:
        contents = self._load(metarange_id)
        keys = [key for key in sorted(contents) if key >= start and key.startswith(prefix)]
        if keys:
            yield entries_table(contents[key] for key in keys)

    def known_keys(
        self, metarange_id: MetaRangeID, start: bytes, end: bytes | None
    ) -> Sequence[bytes]:
        keys = [key for key in sorted(self._load(metarange_id)) if key >= start]
        return [key for key in keys if end is None or key < end][-1:]

    def _load(self, metarange_id: MetaRangeID) -> Contents:
        contents = self._gate("load", lambda: self._metaranges[metarange_id])
        assert isinstance(contents, dict)
        return contents

    def _save(self, contents: Contents) -> MetaRangeID:
        rows = repr(sorted(contents.items())).encode()
        metarange_id = MetaRangeID(hashlib.sha256(rows).hexdigest())
        self._gate("save", lambda: self._metaranges.setdefault(metarange_id, contents))
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
