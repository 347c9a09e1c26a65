"""What is staged in some tokens, as one stream of changes in Arrow columns, sorted by key.

If several tokens have a key, the newest one decides. With one token alone, which is the usual case,
the pages of its scan become tables as they are. With several, their scans are merged by key.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Final, TypeVar

import pyarrow as pa

from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed.columns import Edits
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import StagingToken
from lakebed.engine.staging.codec import parse_all
from lakebed.engine.staging.columns import ROWS_MIN, parse_columns
from lakebed.formats import CHANGE_SCHEMA, ENTRY_SCHEMA
from lakebed.kv import Item, Pair, Store

_ROWS: Final = 8192
_CUT: Final = len(STAGED_PREFIX)

# Of a few tokens, each is asked for all that may be needed of it, in one call. Of many, that would
# be many times what is needed: each is read on as far as its turn comes.
_FEW_TOKENS: Final = 4

RowT = TypeVar("RowT", Item, Pair)


class StagedChanges:
    """The changes staged in some tokens, given newest first; scanned once, while iterating."""

    def __init__(
        self,
        store: Store,
        tokens: Sequence[StagingToken],
        *,
        start: bytes = b"",
        prefix: bytes = b"",
        limit: int | None = None,
    ) -> None:
        """Prepare a scan of the keys with a prefix, from `start` on.

        With a `limit`, only the first so many changes are right: no more keys of each token than
        that need to be read.
        """
        self._store = store
        self._tokens = tokens
        self._start = STAGED_PREFIX + start
        self._prefix = STAGED_PREFIX + prefix
        self._limit = limit
        self.held: set[StagingToken] = set()
        """The tokens that had any key, among those scanned so far."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield the changes as tables by `CHANGE_SCHEMA`, sorted by key; none is empty."""
        return changes_tables(self.pairs())

    def items(self) -> Iterator[Item]:
        """Yield the item that decides each key, in order of the keys."""
        return self._newest(self._store.scan)

    def pairs(self) -> Iterator[Pair]:
        """Yield each key with the value that decides it, in order of the keys."""
        return self._newest(self._store.scan_pairs)

    def _newest(self, scan: Callable[..., Iterator[RowT]]) -> Iterator[RowT]:
        if len(self._tokens) == 1:
            return self._scan(scan, self._tokens[0])
        return self._merge(scan)

    def _merge(self, scan: Callable[..., Iterator[RowT]]) -> Iterator[RowT]:
        scans = [self._ranked(scan, rank, token) for rank, token in enumerate(self._tokens)]
        last = b""
        for key, _, row in heapq.merge(*scans):
            if key != last:
                last = key
                yield row

    def _ranked(
        self, scan: Callable[..., Iterator[RowT]], rank: int, token: StagingToken
    ) -> Iterator[tuple[bytes, int, RowT]]:
        """Scan a token; among equal keys, that of the newest token sorts first."""
        for row in self._scan(scan, token):
            yield row[0], rank, row

    def _scan(self, scan: Callable[..., Iterator[RowT]], token: StagingToken) -> Iterator[RowT]:
        limit = self._limit if len(self._tokens) <= _FEW_TOKENS else None
        rows = scan(token.encode(), self._start, prefix=self._prefix, limit=limit)
        first = next(rows, None)
        if first is None:
            return iter(())
        self.held.add(token)
        return chain([first], rows)


def changes_tables(pairs: Iterable[Pair]) -> Iterator[pa.Table]:
    """Yield what is staged as tables by `CHANGE_SCHEMA`; none is empty."""
    rest = iter(pairs)
    while page := list(islice(rest, _ROWS)):
        yield changes_table(page)


def changes_table(page: Sequence[Item | Pair]) -> pa.Table:
    """Return what is staged as a table by `CHANGE_SCHEMA`.

    Raises:
        CorruptRecord: A value is not a staged one.
    """
    if len(page) >= ROWS_MIN:
        keys, values = (list(map(itemgetter(place), page)) for place in (0, 1))
        table = parse_columns(keys, values, prefix_bytes=_CUT)
        if table is not None:
            return table
    return _parse_one_by_one(page)


def entry_rows(page: list[Item]) -> pa.Table:
    """Return staged entries, none of them a tombstone, as a table by `ENTRY_SCHEMA`.

    Raises:
        CorruptRecord: A value is not a staged one.
    """
    table = changes_table(page)
    columns = [table.column(name) for name in ENTRY_SCHEMA.names]
    return pa.Table.from_arrays(columns, schema=ENTRY_SCHEMA)


def staged_edits(page: Sequence[Pair]) -> Edits:
    """Return what is staged, in order of its keys, as edits of committed entries; for a few.

    Raises:
        CorruptRecord: A value is not a staged one.
    """
    keys = [key[_CUT:] for key, _ in page]
    named = list(zip(keys, parse_all(page), strict=True))
    puts = [(key, message) for key, message in named if message.identity]
    removals = [key for key, message in named if not message.identity]
    arrays = _entry_arrays([key for key, _ in puts], [message for _, message in puts])
    return Edits(pa.table(arrays, schema=ENTRY_SCHEMA), pa.array(removals, pa.binary()))


def _parse_one_by_one(page: Sequence[Item | Pair]) -> pa.Table:
    staged = parse_all(page)
    arrays = _entry_arrays([each[0][_CUT:] for each in page], staged)
    tombstones = pa.array([not message.identity for message in staged], pa.bool_())
    return pa.table([*arrays, tombstones], schema=CHANGE_SCHEMA)


def _entry_arrays(keys: list[bytes], staged: list[pb.StagedEntry]) -> list[pa.Array]:
    """Return the columns of `ENTRY_SCHEMA`, in the one form that is stored."""
    entries = [message.entry for message in staged]
    columns = {
        "key": keys,
        "identity": [message.identity for message in staged],
        "address": [entry.address for entry in entries],
        "address_type": [entry.address_type for entry in entries],
        "size": [entry.size for entry in entries],
        "checksum": [entry.checksum for entry in entries],
        "mtime": [entry.modified_us for entry in entries],
        "content_type": [entry.content_type for entry in entries],
        # Most have none, and to ask for all pairs costs ten times as much as to ask for any.
        "metadata": [sorted(entry.metadata.items()) if entry.metadata else () for entry in entries],
    }
    return [pa.array(columns[field.name], field.type) for field in ENTRY_SCHEMA]
