"""Search of all history for references to objects: open uploads, staged entries, commits.

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

from lakebed.block import Address
from lakebed.engine.engine import Engine
from lakebed.engine.keys import COMMITS, STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, Commit, Repository
from lakebed.engine.staging.cells import all_values, parse_all, path_of
from lakebed.engine.staging.scan import changes_table
from lakebed.formats import MetaRangeID
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv import Pair, Store
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.keys import LINKS, MULTIPARTS

FOUND_COLUMNS: Final = ("key", "address", "address_type", "size", "checksum")
_RECORDS: Final = 8192


@dataclass(frozen=True, slots=True)
class StagedReference:
    """A staged entry by which an object is kept."""

    branch: BranchID
    path: bytes
    is_replaced: bool
    """Whether the entry replaced the object, which may be restored."""


class References:
    """Search for the references to an object."""

    def __init__(
        self, engine: Engine, store: Store, repository: Repository, address: Address
    ) -> None:
        self._spellings = {str(address)}
        issued: ObjectPath | None = None
        if not repository.has_adopted(str(address)):
            path = repository.namespace.relative(address)
            issued = ObjectPath.parse(path)
            assert issued is not None, "not collected"
            self._spellings.add(path)
        self._engine = engine
        self._store = store
        self._repository = repository
        self._issued = issued
        """None if the object was adopted from lakeFS."""

    def upload(self) -> pb.Link | pb.MultipartUpload | None:
        """Return the upload record for which the object's address was issued, or None."""
        if self._issued is None:
            return None
        name, partition = self._issued.uid.encode(), self._repository.partition
        link = Records(self._store, LINKS, partition).find(name)
        if link is not None:
            return link.message
        upload = Records(self._store, MULTIPARTS, partition).find(name)
        return None if upload is None else upload.message

    def staged(self) -> Iterator[StagedReference]:
        """Yield the staged entries that reference the object, or may restore it."""
        for branch in self._engine.branches.list_referencing(self._repository):
            yield from self._staged_on(branch)

    def _staged_on(self, branch: Branch) -> Iterator[StagedReference]:
        for token in branch.tokens:
            items = self._store.scan(token.encode(), STAGED_PREFIX)
            while page := list(islice(items, _RECORDS)):
                # A proposal may become visible, so its object is kept as well.
                rows = list(all_values(page))
                for (name, _), message in zip(rows, parse_all(rows), strict=True):
                    path = path_of(name)
                    if message.entry.address in self._spellings:
                        yield StagedReference(branch.id, path, is_replaced=False)
                    elif message.replaced_address in self._spellings:
                        yield StagedReference(branch.id, path, is_replaced=True)

    def committed(self, commits: Iterable[Commit], *, skew_us: int) -> tuple[Commit, bytes] | None:
        """Return the first commit referencing the object, and its path in the commit, or None.

        Commits stored before the object was issued cannot reference it, and are not read.

        Raises:
            MissingFile, DamagedFile, ForeignFile: A file of a commit is unreadable.
        """
        since_us = 0 if self._issued is None else self._issued.issued_us - skew_us
        first: dict[MetaRangeID, Commit] = {}
        for commit in commits:
            if not commit.stored_us or commit.stored_us >= since_us:
                first.setdefault(commit.metarange_id, commit)
        spellings = pa.array(self._spellings, pa.string())
        tables = self._engine.committed(self._repository).scan_each(first)
        for metarange_id, table in tables:
            found = table.filter(pc.is_in(table.column("address"), spellings))
            if found.num_rows:
                return first[metarange_id], found.column("key")[0].as_py()
        return None


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
        """Yield all entries, some repeatedly, by `FOUND_COLUMNS`; raise if a file is unreadable."""
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
