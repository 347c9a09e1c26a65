"""Whether a commit lists here what it lists in lakeFS: path, checksum, size, metadata, address."""

from collections.abc import Iterator

import pyarrow as pa

from lakebed.engine.engine import Engine
from lakebed.engine.model import CommitID, Repository
from lakebed.migrate.sources import Source, SourceCommit
from lakebed.migrate.values import read_entries, read_ranges


def find_difference(
    engine: Engine, repository: Repository, source: Source, commit: SourceCommit
) -> bytes | None:
    """Return the first path that a commit lists otherwise; None: both sides list the same.

    Raises:
        CommitNotFound: The commit is not here.
        DamagedTable: A file of lakeFS is damaged.
    """
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


def _listed(source: Source, metarange_id: str) -> Iterator[pa.Table]:
    if not metarange_id:
        return
    data = source.files.metarange(metarange_id)
    for each in read_ranges(data, f"metarange {metarange_id}"):
        file = source.files.range(each.id)
        yield from read_entries(file, f"range {each.id}", source.refs.namespace)


def _rows(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield what is compared: all but what each side notes for itself."""
    for table in tables:
        if table.num_rows:
            yield table.select(["key", "address", "size", "checksum", "metadata", "content_type"])


def _more(rest: pa.Table, tables: Iterator[pa.Table]) -> pa.Table:
    """Return what is left of a side, or what comes next of it."""
    return rest if rest.num_rows else next(tables, rest)


def _first_difference(mine: pa.Table, their: pa.Table, count: int) -> bytes:
    for at in range(count):
        if not mine.slice(at, 1).equals(their.slice(at, 1)):
            key: bytes = min(mine.column("key")[at].as_py(), their.column("key")[at].as_py())
            return key
    raise AssertionError("rows that are equal one by one are equal")
