"""What is staged in some tokens, as one sorted stream of changes in Arrow columns.

The newest token that has a key decides it. Of one token alone, which is the usual case, the pages
of its scan become tables as they are; of several, their scans are merged by key.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import Final

import pyarrow as pa

from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import StagingToken
from lakebed.engine.staging.codec import parse_all
from lakebed.formats import CHANGE_SCHEMA
from lakebed.kv import Item, Store

# Few at a time: parsed messages are large, and many of them do not fit the processor's caches.
_ROWS: Final = 1024
_CUT: Final = len(STAGED_PREFIX)


class StagedChanges:
    """The changes staged in some tokens, newest token first; scanned once, while iterating."""

    def __init__(
        self,
        store: Store,
        tokens: Sequence[StagingToken],
        *,
        start: bytes = b"",
        prefix: bytes = b"",
        limit: int | None = None,
    ) -> None:
        """Prepare a scan of the keys with a prefix, from `start` on, that reads little.

        With a `limit`, only so many changes are to be relied on.
        """
        self._store = store
        self._tokens = tokens
        self._start = STAGED_PREFIX + max(start, prefix)
        self._prefix = STAGED_PREFIX + prefix
        self._limit = limit
        self.held: set[StagingToken] = set()
        """The tokens that had any key, as far as was scanned."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield the changes as tables by `CHANGE_SCHEMA`, sorted by key; none is empty."""
        rows = self.rows()
        while page := list(islice(rows, _ROWS)):
            yield changes_table(page)

    def rows(self) -> Iterator[Item]:
        """Yield the records that decide each key, in order of the keys."""
        if len(self._tokens) == 1:
            return self._scan(self._tokens[0])
        return self._merge()

    def _merge(self) -> Iterator[Item]:
        scans = [self._ranked(rank, token) for rank, token in enumerate(self._tokens)]
        last = b""
        for key, _, entry in heapq.merge(*scans):
            if key != last:
                last = key
                yield entry

    def _ranked(self, rank: int, token: StagingToken) -> Iterator[tuple[bytes, int, Item]]:
        """Scan a token; of equal keys the one of the newest token sorts first."""
        for entry in self._scan(token):
            yield entry.key, rank, entry

    def _scan(self, token: StagingToken) -> Iterator[Item]:
        entries = self._store.scan(token.encode(), self._start, limit=self._limit)
        first = next(entries, None)
        if first is None or not first.key.startswith(self._prefix):
            return iter(())
        self.held.add(token)
        rest = chain([first], entries)
        if self._prefix == STAGED_PREFIX:
            return rest  # all of the token: no key needs a look
        return takewhile(lambda entry: entry.key.startswith(self._prefix), rest)


def changes_table(page: list[Item]) -> pa.Table:
    """Return staged records as a table by `CHANGE_SCHEMA`."""
    staged = parse_all(page)
    entries = [message.entry for message in staged]
    identities = [message.identity for message in staged]
    columns = {
        "key": [entry.key[_CUT:] for entry in page],
        "identity": identities,
        "address": [entry.address for entry in entries],
        "address_type": [entry.address_type for entry in entries],
        "size": [entry.size for entry in entries],
        "checksum": [entry.checksum for entry in entries],
        "mtime": [entry.modified_us for entry in entries],
        "content_type": [entry.content_type for entry in entries],
        # Most have none, and to ask for the items costs ten times as much as to ask for any.
        "metadata": [list(entry.metadata.items()) if entry.metadata else () for entry in entries],
        "tombstone": [not identity for identity in identities],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in CHANGE_SCHEMA]
    return pa.table(arrays, schema=CHANGE_SCHEMA)
