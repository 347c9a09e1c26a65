"""Which commits had expired when a run of garbage collection began, in files of the namespace.

A file is named by its content, and never removed: it is there before a run goes by it, so a restore
of refs knows of every commit whose data may be gone. A run that finds no others writes nothing new.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import pyarrow as pa

from lakebed.block import AlreadyExists, BlockStore, Namespace
from lakebed.engine.model import CommitID, Repository
from lakebed.formats.gc_files import (
    GC_SCHEMAS,
    GCFile,
    GCFileKind,
    decode_gc_table,
    encode_gc_table,
)
from lakebed.formats.layout import gc_expired_folder

FILE_ROWS: Final = 100_000


def write_expired(
    block: BlockStore, repository: Repository, ids: Iterator[CommitID]
) -> tuple[GCFile, ...]:
    """Write down commits, in order of their ids, that have expired; return the files."""
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
    """Return the commits that files of a repository name.

    Raises:
        DamagedFile: A file is not what was written.
        ObjectNotFound: A file is gone.
    """
    folder = namespace.folder(gc_expired_folder(unique_id))
    found: set[str] = set()
    for file in files:
        address = folder.address(file.name)
        table = decode_gc_table(block.read(address), file, file=str(address))
        found.update(table.column("id").to_pylist())
    return frozenset(found)


def read_all_expired(block: BlockStore, namespace: Namespace, unique_id: str) -> frozenset[str]:
    """Return the commits of a repository that any run was told have expired; raises likewise."""
    files: list[GCFile] = []
    for batch in block.list_objects(namespace.folder(gc_expired_folder(unique_id))):
        for text in batch.column("address").to_pylist():
            name = text.rpartition("/")[2]
            files.append(GCFile(name, GCFileKind.EXPIRED, 0, name.removesuffix(".parquet")))
    return read_expired(block, namespace, unique_id, files)
