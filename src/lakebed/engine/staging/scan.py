"""The staged changes of some tokens as one stream of Arrow tables, sorted by key.

If several tokens have a key, the newest wins. With a single token, the usual case, the pages of its
scan become tables directly. With several, their scans are merged by key.

Proposals are ignored, or removed (`cells`), before tokens are merged: a cell with only a proposal
has no effect. Pages of a single token are not searched for proposals, which do not fit the columns:
a page with a proposal is parsed value by value.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Final

import pyarrow as pa

from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed.columns import Edits
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import StagingToken
from lakebed.engine.staging.cells import Cells, parse_all, value_in
from lakebed.engine.staging.columns import ROWS_MIN, parse_columns
from lakebed.formats import CHANGE_SCHEMA, ENTRY_SCHEMA
from lakebed.kv import Item, Pair

_ROWS: Final = 8192
_CUT: Final = len(STAGED_PREFIX)
_pair_of: Callable[[Item], Pair] = itemgetter(0, 1)

# A few tokens are each read in one call for all possibly needed keys. For many tokens this would
# read far too much: each is read as far as the merge gets.
_FEW_TOKENS: Final = 4


class StagedChanges:
    """The staged changes of some tokens; scanned once, during iteration."""

    def __init__(
        self, cells: Cells, *, start: bytes = b"", prefix: bytes = b"", limit: int | None = None
    ) -> None:
        """Prepare a scan of the keys with a prefix, from `start` on.

        With `limit`, at most `limit` keys of each token are read until the caller continues beyond.
        """
        self._cells = cells
        self._start = STAGED_PREFIX + start
        self._prefix = STAGED_PREFIX + prefix
        self._limit = limit if len(cells.tokens) <= _FEW_TOKENS else None
        self._begun: list[Pair] = []
        self._unread: Iterator[Pair] | None = None
        self.nonempty: set[StagingToken] = set()
        """The tokens with any key among those scanned so far."""

    def pairs(self) -> Iterator[Pair]:
        """Yield each key with its effective value, in key order."""
        return self._visible(self._rows())

    def begin(self, count: int) -> list[Pair]:
        """Return the first `count` pairs, or all if fewer; `tables` includes them too."""
        self._begun += islice(self.pairs(), max(0, count - len(self._begun)))
        return self._begun

    def tables(self) -> Iterator[pa.Table]:
        """Yield all changes as non-empty tables by `CHANGE_SCHEMA`, sorted by key."""
        rows = chain(self._begun, self._rows())
        while page := list(islice(rows, _ROWS)):
            table = _columns(page)
            if table is None:  # few rows, or a proposal among them
                table = _parse_one_by_one(list(self._visible(page)))
            if table.num_rows:
                yield table

    def _rows(self) -> Iterator[Pair]:
        """Return the unread rows: the cells of a single token, or the merged values of several."""
        if self._unread is None:
            tokens = self._cells.tokens
            self._unread = self._scan(tokens[0]) if len(tokens) == 1 else self._merge()
        return self._unread

    def _visible(self, rows: Iterable[Pair]) -> Iterator[Pair]:
        tokens = self._cells.tokens
        return self._cells.visible(tokens[0], rows) if len(tokens) == 1 else iter(rows)

    def _merge(self) -> Iterator[Pair]:
        scans = [self._ranked(rank, token) for rank, token in enumerate(self._cells.tokens)]
        last = b""
        for key, _, row in heapq.merge(*scans):
            if key != last:
                last = key
                yield row

    def _ranked(self, rank: int, token: StagingToken) -> Iterator[tuple[bytes, int, Pair]]:
        """Scan a token; among equal keys, the newest token's sorts first."""
        for row in self._cells.visible(token, self._scan(token)):
            yield row[0], rank, row

    def _scan(self, token: StagingToken) -> Iterator[Pair]:
        rows = self._scan_from(token, self._start, self._limit)
        if self._limit is not None:
            rows = self._beyond(rows, token, self._limit)
        begun: list[Pair] = []
        for row in rows:
            begun.append(row)
            if value_in(*row) is not None:
                self.nonempty.add(token)
                break
        return chain(begun, rows)

    def _beyond(self, rows: Iterator[Pair], token: StagingToken, limit: int) -> Iterator[Pair]:
        """Yield rows and then those behind them: more are needed where cells have no value."""
        left = limit
        for row in rows:
            left -= 1
            yield row
            if not left:
                yield from self._scan_from(token, row[0] + b"\0")

    def _scan_from(
        self, token: StagingToken, start: bytes, limit: int | None = None
    ) -> Iterator[Pair]:
        items = self._cells.store.scan(token.encode(), start, prefix=self._prefix, limit=limit)
        return map(_pair_of, items)


def changes_table(page: Sequence[Item | Pair]) -> pa.Table:
    """Return staged values as a table by `CHANGE_SCHEMA`, or raise `CorruptRecord`."""
    table = _columns(page)
    return _parse_one_by_one(page) if table is None else table


def _columns(page: Sequence[Item | Pair]) -> pa.Table | None:
    """Parse a page as columns, or return None if the general parser is needed, or faster."""
    if len(page) < ROWS_MIN:
        return None
    keys, values = (list(map(itemgetter(place), page)) for place in (0, 1))
    return parse_columns(keys, values, prefix_bytes=_CUT)


def entry_rows(page: list[Pair]) -> pa.Table:
    """Return staged puts as a table by `ENTRY_SCHEMA`, or raise `CorruptRecord`."""
    table = changes_table(page)
    columns = [table.column(name) for name in ENTRY_SCHEMA.names]
    return pa.Table.from_arrays(columns, schema=ENTRY_SCHEMA)


def staged_edits(page: Sequence[Pair]) -> Edits:
    """Return a few staged changes, sorted, as edits, or raise `CorruptRecord`."""
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
    """Return the columns of `ENTRY_SCHEMA`, in their canonical form."""
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
        # Most have none, and a test for any is ten times cheaper than asking for all.
        "metadata": [sorted(entry.metadata.items()) if entry.metadata else () for entry in entries],
    }
    return [pa.array(columns[field.name], field.type) for field in ENTRY_SCHEMA]
