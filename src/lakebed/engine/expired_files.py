"""Files of expired commits, written into the namespace when a garbage collection run begins.

A file is named by its content, written before a run relies on it, and never removed. So a restore
of refs knows every commit whose data may be deleted. A run without newly expired commits writes no
new file.
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
    """Return the commits listed in a repository's files.

    Raises:
        DamagedFile: The content of a file has changed.
        ObjectNotFound: A file is missing.
    """
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
