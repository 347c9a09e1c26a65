"""Dump of all refs of a repository into its storage namespace.

A dump has every branch, tag and commit record. With the ranges and metaranges, which are in the
namespace anyway, a dump is the whole history: if the key-value store is lost, it can be restored
into a bare repository over the same namespace (`lakebed.engine.refs.restore`). Uncommitted changes
are not dumped.

A dump is consistent under concurrent writes. Branches and tags are read first, commits after them:
a commit is stored before a branch or tag references it, and after its parents, so every referenced
commit is found. The scan may find a commit made meanwhile and have missed its parent. Such parents
are fetched at the end, so no commit in a dump lacks a parent.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import CommitNotFound, RepositoryNotFound
from lakebed.engine.keys import BRANCHES, COMMITS, GRAVELER, LIVE, REPOSITORIES, TAGS
from lakebed.engine.model import Repository
from lakebed.engine.refs.commits import compute_id
from lakebed.formats import (
    MANIFEST_NAME,
    REF_SCHEMAS,
    DumpFile,
    DumpID,
    DumpManifest,
    RefKind,
    dump_path,
    encode_manifest,
    encode_refs,
    refs_id,
)
from lakebed.kv import CorruptRecord, Store
from lakebed.kv.records import Record, Records

RefT = TypeVar("RefT", pb.Branch, pb.Tag)

Row = dict[str, Any]
"""Values of a row by column name; times in microseconds since 1970."""

# Bounds of one file, and so of the memory used at a time.
FILE_ROWS: Final = 10_000
FILE_BYTES: Final = 16 << 20


def dump_refs(
    store: Store, block: BlockStore, runtime: Runtime, repository: Repository
) -> DumpManifest:
    """Write a dump of all refs of a repository; return its manifest, which names it.

    Needs memory for the rows of one file, and about 250 bytes for each commit.

    Raises:
        RepositoryNotFound: The repository was deleted; a dump without a manifest is void.
        CommitNotFound: A parent of a commit is missing: the dump could not be restored.
        CorruptRecord: A commit does not match its id: likewise.
    """
    own = active_record(store, repository).message
    now = runtime.now()
    moment = datetime.fromtimestamp(now, UTC)
    dump_id = DumpID(f"{moment:%Y%m%dT%H%M%SZ}-{runtime.random_bytes(8).hex()}")
    writer = _Writer(block, repository, dump_id)
    partition = repository.partition
    commits = Records(store, COMMITS, partition)
    branches, tags = Records(store, BRANCHES, partition), Records(store, TAGS, partition)
    files = [
        *writer.write(RefKind.BRANCHES, map(_branch, _live(branches))),
        *writer.write(RefKind.TAGS, map(_tag, _live(tags))),
    ]
    try:
        files += writer.write(RefKind.COMMITS, map(_commit, _scan_with_parents(commits)))
    except CommitNotFound:
        active_record(store, repository)  # raises if the repository itself was deleted
        raise
    manifest = DumpManifest(
        dump_id=dump_id,
        repository=repository.id,
        unique_ids=(repository.unique_id, *own.adopted_unique_ids),
        default_branch=repository.default_branch,
        created_us=int(now * 1e6),
        files=tuple(files),
    )
    # A repository's own record is removed before all others. Without it, the Cleaner may have
    # removed some records before they were read.
    active_record(store, repository)
    writer.put(MANIFEST_NAME, encode_manifest(manifest))
    return manifest


def active_record(store: Store, repository: Repository) -> Record[pb.Repository]:
    """Return the record of an active repository.

    Raises `RepositoryNotFound` if it is deleted, inactive, or another of the same name.
    """
    record = Records(store, REPOSITORIES, GRAVELER).find(repository.id.encode())
    if (
        record is None
        or record.message.unique_id != repository.unique_id
        or record.message.state != pb.REPOSITORY_STATE_ACTIVE
    ):
        raise RepositoryNotFound(repository.id)
    return record


class _Writer:
    """Writes the files of one dump."""

    def __init__(self, block: BlockStore, repository: Repository, dump_id: DumpID) -> None:
        self._block = block
        self._namespace = repository.namespace
        self._dump_id = dump_id

    def write(self, kind: RefKind, rows: Iterable[tuple[Row, int]]) -> Iterator[DumpFile]:
        """Write rows, given with their sizes, into as many files as needed."""
        for number, portion in enumerate(_portions(rows)):
            table = pa.Table.from_pylist(portion, schema=REF_SCHEMAS[kind])
            name = f"{kind}-{number:05}.parquet"
            self.put(name, encode_refs(kind, table))
            yield DumpFile(name, kind, table.num_rows, refs_id(kind, table))

    def put(self, name: str, data: bytes) -> None:
        self._block.create(self._namespace.address(dump_path(self._dump_id, name)), data)


def _portions(rows: Iterable[tuple[Row, int]]) -> Iterator[list[Row]]:
    portion: list[Row] = []
    size_bytes = 0
    for row, row_bytes in rows:
        portion.append(row)
        size_bytes += row_bytes
        if len(portion) >= FILE_ROWS or size_bytes >= FILE_BYTES:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion


def _live(records: Records[RefT]) -> Iterator[Record[RefT]]:
    """Iterate over the branches or tags visible to readers."""
    return (record for record in records.scan() if record.message.state == LIVE)


def _scan_with_parents(records: Records[pb.Commit]) -> Iterator[Record[pb.Commit]]:
    """Iterate over all commits, then over parents missed by the scan."""
    seen: set[bytes] = set()
    parents: set[bytes] = set()
    for record in records.scan():
        seen.add(bytes.fromhex(record.name.decode()))
        parents.update(map(bytes.fromhex, record.message.parents))
        yield record
    missing = parents - seen
    while missing:
        seen |= missing
        parents.clear()
        for commit_id in missing:
            found = records.find(commit_id.hex().encode())
            if found is None:
                raise CommitNotFound(commit_id.hex())
            parents.update(map(bytes.fromhex, found.message.parents))
            yield found
        missing = parents - seen


def _branch(record: Record[pb.Branch]) -> tuple[Row, int]:
    message = record.message
    row: Row = {
        "name": record.name.decode(),
        "commit_id": message.commit_id,
        "hidden": message.hidden,
        "created": message.created_us,
    }
    return row, message.ByteSize()


def _tag(record: Record[pb.Tag]) -> tuple[Row, int]:
    message = record.message
    row: Row = {
        "name": record.name.decode(),
        "commit_id": message.commit_id,
        "created": message.created_us,
    }
    return row, message.ByteSize()


def _commit(record: Record[pb.Commit]) -> tuple[Row, int]:
    message = record.message
    name = record.name.decode()
    if compute_id(message) != name:
        raise CorruptRecord(f"the record of commit {name} does not match its id")
    row: Row = {
        "id": name,
        "version": message.version,
        "committer": message.committer,
        "message": message.message,
        "metarange_id": message.metarange_id,
        "created": message.created_us,
        "parents": list(message.parents),
        "metadata": sorted(message.metadata.items()),
        "generation": message.generation,
        "consumed_tokens": list(message.consumed_tokens),
        "nonce": message.nonce,
    }
    return row, message.ByteSize()
