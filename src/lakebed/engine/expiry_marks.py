"""Expiry marks of commits: records of their own, because commits never change.

A mark is first EXPIRING, and later EXPIRED for good. Between the two, `expirer` scans all refs and
commits. A user of an old commit writes first and reads the mark *afterwards*; the expirer writes
the mark first and scans for such writes afterwards. So at least one of the two sees the other.

*A ref* keeps its commit only if the scan sees the ref. So an EXPIRING mark must be deleted before
the ref counts (`admit_ref`): the expirer may already have scanned. The delete compares the mark's
version, so the expirer, which continues from this version, fails.

*A copy of content* from a commit, in a new commit or a staged entry, protects the content by
itself. Garbage collection reads the expired commits, then staged entries, then commits; so it sees
every copy written before its source was EXPIRED. An EXPIRING mark does no harm to a copy
(`check_sources`).

*Files.* When a garbage collection run begins, expired commits are also written into the namespace.
Such a file is named by its content, written before a run relies on it, and never removed. So a
restore of refs knows every commit whose data may be deleted. A run without newly expired commits
writes no new file.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import pyarrow as pa

from lakebed.block import AlreadyExists, BlockStore, Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import CommitExpired, TooManyTries
from lakebed.engine.keys import EXPIRY
from lakebed.engine.model import CommitID, Repository
from lakebed.formats.gc_files import (
    GC_SCHEMAS,
    GCFile,
    GCFileKind,
    decode_gc_table,
    encode_gc_table,
)
from lakebed.formats.layout import gc_expired_folder
from lakebed.kv import Item, PredicateFailed, Store
from lakebed.kv.records import Record, Records

EXPIRING: Final = pb.EXPIRY_STATE_EXPIRING
EXPIRED: Final = pb.EXPIRY_STATE_EXPIRED

_TRIES: Final = 10

ExpiryMark = Record[pb.Expiry]


class ExpiryMarks:
    """The marks of all repositories."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def place(self, repository: Repository, commit_id: CommitID) -> tuple[bytes, bytes]:
        """Return the place of a commit's mark, for `Store.get_many`."""
        return self.records(repository).place(commit_id.encode())

    def find_all(
        self, repository: Repository, ids: Sequence[CommitID]
    ) -> dict[CommitID, ExpiryMark]:
        """Return the existing marks of commits, in one call to the store."""
        records = self.records(repository)
        found = self._store.get_many([records.place(each.encode()) for each in ids])
        return {
            commit_id: records.decode(item)
            for commit_id, item in zip(ids, found, strict=True)
            if item is not None
        }

    def admit_ref(self, repository: Repository, commit_id: CommitID, item: Item | None) -> None:
        """Return if a ref to a commit counts; else raise `CommitExpired`: undo the ref.

        `item` is the commit's mark, read after the ref was written.
        """
        records = self.records(repository)
        mark = None if item is None else records.decode(item)
        for _ in range(_TRIES):
            if mark is None:
                return None
            _refuse_expired(commit_id, mark)
            with suppress(PredicateFailed):
                return records.delete_if(mark.name, mark.predicate)
            mark = records.find(commit_id.encode())
        raise TooManyTries(f"the use of commit {commit_id}, which is about to expire,", _TRIES)

    def check_ref(self, repository: Repository, commit_id: CommitID) -> None:
        """Read the mark of a commit and return if a ref to it counts; raises as `admit_ref`."""
        (item,) = self._store.get_many([self.place(repository, commit_id)])
        self.admit_ref(repository, commit_id, item)

    def check_sources(self, repository: Repository, ids: Sequence[CommitID]) -> None:
        """Raise `CommitExpired` if existing copies of the commits' content do not count."""
        for commit_id, mark in self.find_all(repository, ids).items():
            _refuse_expired(commit_id, mark)

    def is_expired(self, repository: Repository, commit_id: CommitID) -> bool:
        return bool(self.expired_of(repository, [commit_id]))

    def expired_of(self, repository: Repository, ids: Sequence[CommitID]) -> set[CommitID]:
        """Return which commits have expired, in one call to the store."""
        marks = self.find_all(repository, ids)
        return {each for each, mark in marks.items() if mark.message.state == EXPIRED}

    def expired(self, repository: Repository, *, since_us: int = 0) -> Iterator[CommitID]:
        """Iterate over the commits that expired since a time, in order of ids."""
        for mark in self.records(repository).scan_readable():
            if mark.message.state == EXPIRED and mark.message.expired_us >= since_us:
                yield CommitID(mark.name.decode())

    def records(self, repository: Repository) -> Records[pb.Expiry]:
        return Records(self._store, EXPIRY, repository.partition)


def _refuse_expired(commit_id: CommitID, mark: ExpiryMark) -> None:
    if mark.message.state == EXPIRED:
        raise CommitExpired(commit_id, mark.message.expired_us)


FILE_ROWS: Final = 100_000


def write_expired(
    block: BlockStore, repository: Repository, ids: Iterator[CommitID]
) -> tuple[GCFile, ...]:
    """Write expired commits, given in order of ids; return the files."""
    folder = repository.namespace.folder(gc_expired_folder(repository.unique_id))
    files: list[GCFile] = []
    while page := list(islice(ids, FILE_ROWS)):
        table = pa.table([page], schema=GC_SCHEMAS[GCFileKind.EXPIRED])
        data, file = encode_gc_table(GCFileKind.EXPIRED, table)
        with suppress(AlreadyExists):
            block.create(folder.address(file.name), data)
        files.append(file)
    return tuple(files)


def read_expired(
    block: BlockStore, namespace: Namespace, unique_id: str, files: Iterable[GCFile]
) -> frozenset[str]:
    """Return the commits listed in a repository's files; raise if one is missing or damaged."""
    folder = namespace.folder(gc_expired_folder(unique_id))
    found: set[str] = set()
    for file in files:
        address = folder.address(file.name)
        table = decode_gc_table(block.read(address), file, file=str(address))
        found.update(table.column("id").to_pylist())
    return frozenset(found)


def read_all_expired(block: BlockStore, namespace: Namespace, unique_id: str) -> frozenset[str]:
    """Return the commits of a repository listed as expired by any run; raises as `read_expired`."""
    files: list[GCFile] = []
    for batch in block.list_objects(namespace.folder(gc_expired_folder(unique_id))):
        for text in batch.column("address").to_pylist():
            name = text.rpartition("/")[2]
            files.append(GCFile(name, GCFileKind.EXPIRED, 0, name.removesuffix(".parquet")))
    return read_expired(block, namespace, unique_id, files)
