"""Verification that migrated commits match lakeFS, and that their objects are readable.

Path, checksum, size, metadata, content type and address are compared. Objects are read through the
storage settings of the server: one byte and the size of each.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.block import Address, Between, BlockError, BlockStore, StorageUnavailable
from lakebed.clients.migrate.lakefs_source import LakeFSSource, SourceCommit
from lakebed.clients.migrate.values import read_entries, read_ranges
from lakebed.engine.committed import ChangeType, EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, CommitID, Repository

SAMPLE: Final = 100
"""Objects of a commit to read, unless all are read."""

_AT_ONCE: Final = 16
_BATCH: Final = 1000


def find_difference(
    engine: Engine, repository: Repository, source: LakeFSSource, commit: SourceCommit
) -> bytes | None:
    """Return the first path where a commit differs from lakeFS, or None if both are equal."""
    here = engine.commits.get(repository, CommitID(commit.id))
    ours = _rows(engine.committed(repository).examine(here.metarange_id))
    theirs = _rows(_listed(source, commit.metarange_id))
    mine = their = pa.table({})
    while True:
        mine, their = _more(mine, ours), _more(their, theirs)
        count = min(mine.num_rows, their.num_rows)
        if not count:
            longer = mine if mine.num_rows else their
            return longer.column("key")[0].as_py() if longer.num_rows else None
        if not mine.slice(0, count).equals(their.slice(0, count)):
            return _first_difference(mine, their, count)
        mine, their = mine.slice(count), their.slice(count)


class _Object(NamedTuple):
    """The object of an entry."""

    address: str
    size: int
    key: bytes


class ReadCheck:
    """Reader of migrated objects, each once."""

    def __init__(
        self, engine: Engine, block: BlockStore, runtime: Runtime, repository: Repository
    ) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._repository = repository
        self._seen: set[str] = set()
        self.objects = 0
        """Number of objects read."""

    def run(self, commit: SourceCommit, *, sample: int | None) -> Iterator[str]:
        """Yield the problems with all objects of a commit, or with a random sample.

        Raises:
            StorageUnavailable: The storage did not respond, which is not reported as a problem.
        """
        here = self._engine.commits.get(self._repository, CommitID(commit.id))
        tables = self._engine.committed(self._repository).examine(here.metarange_id)
        yield from self._read(_objects(tables), sample)

    def run_staged(self, branch: BranchID, *, sample: int | None) -> Iterator[str]:
        """Like `run`, for the uncommitted changes of a branch."""
        yield from self._read(self._staged(branch), sample)

    def _staged(self, branch: BranchID) -> Iterator[_Object]:
        query = EntryQuery()
        while True:
            page = self._engine.reader.list_changes(self._repository.id, branch, query)
            yield from _objects([page.rows.filter(pc.field("change") != ChangeType.REMOVED)])
            if not page.has_more:
                return
            query = EntryQuery(after=page.last)

    def _read(self, objects: Iterator[_Object], sample: int | None) -> Iterator[str]:
        if sample is not None:
            keyed = ((self._runtime.random(), each) for each in objects)
            objects = iter(each for _, each in heapq.nsmallest(sample, keyed))
        new: list[_Object] = []
        for each in objects:
            if each.address not in self._seen:
                self._seen.add(each.address)
                new.append(each)
            if len(new) == _BATCH:
                yield from self._read_all(new)
                new = []
        yield from self._read_all(new)

    def _read_all(self, objects: list[_Object]) -> Iterator[str]:
        self.objects += len(objects)
        for problem in self._runtime.map_parallel(self._problem, objects, limit=_AT_ONCE):
            if problem is not None:
                yield problem

    def _problem(self, named: _Object) -> str | None:
        byte_range = Between(0, 1) if named.size else None
        try:
            with self._block.get(Address.parse(named.address), byte_range=byte_range) as stream:
                next(stream, b"")
                size = stream.object_size
        except StorageUnavailable:
            raise
        except BlockError as error:
            return f"{quoted(named.key)}: {error}"
        if size == named.size:
            return None
        return f"{quoted(named.key)}: {named.address} has {size:,} bytes instead of {named.size:,}"


def _objects(tables: Iterable[pa.Table]) -> Iterator[_Object]:
    for table in tables:
        columns = (table.column(name).to_pylist() for name in ("address", "size", "key"))
        yield from map(_Object, *columns)


def _listed(source: LakeFSSource, metarange_id: str) -> Iterator[pa.Table]:
    if not metarange_id:
        return
    data = source.files.metarange(metarange_id)
    for each in read_ranges(data, f"metarange {metarange_id}"):
        name = f"range {each.id}"
        for entries in read_entries(source.files.range(each.id), name, source.refs.namespace):
            yield source.addresses.of_entries(entries, name)


def _rows(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for table in tables:
        if table.num_rows:
            yield table.select(["key", "address", "size", "checksum", "metadata", "content_type"])


def _more(rest: pa.Table, tables: Iterator[pa.Table]) -> pa.Table:
    """Return the rest of the current table, or the next table."""
    return rest if rest.num_rows else next(tables, rest)


def _first_difference(mine: pa.Table, their: pa.Table, count: int) -> bytes:
    for at in range(count):
        if not mine.slice(at, 1).equals(their.slice(at, 1)):
            key: bytes = min(mine.column("key")[at].as_py(), their.column("key")[at].as_py())
            return key
    raise AssertionError("two tables differ, but no row does")
