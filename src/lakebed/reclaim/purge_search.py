"""Search of all history for objects: open uploads, staged entries, all commits.

Everything is read in the direction in which objects move, as in garbage collection
(`lakebed.reclaim.prepare`): decided links and multipart uploads, all tokens of all branches, all
commit records. So any entry acknowledged before the search began is found, wherever the entry moves
meanwhile. Only an overwritten entry of a commit in progress can stay hidden: to be certain, search
again once no commit can be that old.

Each range is read once, however many commits share it, and filtered column by column.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.engine import Engine
from lakebed.engine.keys import COMMITS, STAGED_PREFIX
from lakebed.engine.model import Repository
from lakebed.engine.staging.cells import all_values
from lakebed.engine.staging.scan import changes_table
from lakebed.formats import MetaRangeID
from lakebed.kv import Pair, Store
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.keys import LINKS, MULTIPARTS

FOUND_COLUMNS: Final = ("key", "address", "address_type", "size", "checksum")
_RECORDS: Final = 8192


@dataclass(frozen=True, slots=True)
class PurgeQuery:
    """Selection of objects."""

    kind: Literal["path", "prefix", "checksum"]
    value: bytes

    def matches(self, table: pa.Table) -> pa.Array:
        """Return a mask of the selected rows."""
        if self.kind == "checksum":
            return pc.equal(table.column("checksum"), self.value.decode(errors="replace"))
        keys = table.column("key")
        if self.kind == "path":
            return pc.equal(keys, pa.scalar(self.value, keys.type))
        start = pc.binary_slice(keys, 0, len(self.value))
        return pc.equal(start, pa.scalar(self.value, keys.type))


class PurgeSearch:
    """Scan of all entries of a repository, page by page."""

    def __init__(self, engine: Engine, store: Store, repository: Repository) -> None:
        self._engine = engine
        self._store = store
        self._repository = repository

    def tables(self) -> Iterator[pa.Table]:
        """Yield all entries, some of them repeatedly, with the columns `FOUND_COLUMNS`.

        Raises:
            MissingFile, DamagedFile, ForeignFile: A file of a commit is unreadable, so its entries
                are unknown.
        """
        for pages in (self._uploads(), self._staged(), self._committed()):
            for table in pages:
                if table.num_rows:
                    yield table.select(FOUND_COLUMNS)

    def _uploads(self) -> Iterator[pa.Table]:
        """Yield entries of decided uploads that may not be staged yet."""
        partition = self._repository.partition
        links = Records(self._store, LINKS, partition).scan()
        yield from _pages(_decided(record.message for record in links))
        uploads = Records(self._store, MULTIPARTS, partition).scan()
        yield from _pages(_decided(record.message for record in uploads))

    def _staged(self) -> Iterator[pa.Table]:
        for branch in self._engine.branches.list_referencing(self._repository):
            for token in branch.tokens:
                # Proposals too: they may become visible.
                yield from _pages(all_values(self._store.scan(token.encode(), STAGED_PREFIX)))

    def _committed(self) -> Iterator[pa.Table]:
        commits = Records(self._store, COMMITS, self._repository.partition).scan()
        metarange_ids = (MetaRangeID(record.message.metarange_id) for record in commits)
        return self._engine.committed(self._repository).scan_all(metarange_ids)


def _decided(records: Iterable[pb.Link | pb.MultipartUpload]) -> Iterator[Pair]:
    """Yield the decided entries as if they were staged."""
    for record in records:
        if record.HasField("entry"):
            yield STAGED_PREFIX + record.path, record.entry.SerializeToString()


def _pages(rows: Iterator[Pair]) -> Iterator[pa.Table]:
    while page := list(islice(rows, _RECORDS)):
        table = changes_table(page)
        yield table.filter(pc.invert(table.column("tombstone")))
