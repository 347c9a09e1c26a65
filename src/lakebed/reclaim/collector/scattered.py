"""Tables of paths that need not fit into memory: put apart by path, and read bucket by bucket.

All that is known of one path is in buckets of the same number, whichever table it is in. What is
over the budget goes to files in a folder; a file holds one batch for each bucket, and only that
batch is read.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.runtime import Runtime

BUCKETS: Final = 256
BUDGET_BYTES: Final = 48 << 20
"""How much of a table is kept in memory."""


class Scattered:
    """A table with a column ``path``; many threads may add to it."""

    def __init__(
        self, folder: Path, name: str, schema: pa.Schema, runtime: Runtime, *, budget_bytes: int
    ) -> None:
        self._folder = folder
        self._name = name
        self._schema = schema
        self._budget_bytes = budget_bytes
        self._lock = runtime.lock()
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[Path] = []

    def add(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Add rows, as they come."""
        for batch in batches:
            with self._lock:
                self._batches.append(batch.cast(self._schema))
                self._bytes += batch.nbytes
                if self._bytes >= self._budget_bytes:
                    self._spill()

    @property
    def is_small(self) -> bool:
        """Whether all of it is in memory."""
        return not self._files

    def whole(self) -> pa.Table:
        """Return all of a table that is small."""
        assert self.is_small
        return pa.Table.from_batches(self._batches, self._schema)

    def put_apart(self) -> None:
        """Have all of it in buckets: nothing is added any more."""
        if self._batches:
            self._spill()

    def bucket(self, number: int) -> pa.Table:
        """Return the rows of one bucket, once all are put apart; many threads may read."""
        return pa.Table.from_batches(
            [_read_batch(file, number) for file in self._files], self._schema
        )

    def _spill(self) -> None:
        table = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
        self._batches, self._bytes = [], 0
        buckets = bucket_numbers(table.column("path"))
        table = table.take(pa.array(np.argsort(buckets, kind="stable")))
        ends = np.cumsum(np.bincount(buckets, minlength=BUCKETS)).tolist()
        self._folder.mkdir(exist_ok=True)
        file = self._folder / f"{self._name}-{len(self._files)}.arrow"
        with pa.ipc.new_file(str(file), self._schema) as writer:
            for begin, end in zip([0, *ends], ends, strict=False):
                writer.write_batch(_as_batch(table.slice(begin, end - begin)))
        self._files.append(file)


Parts = Iterator[tuple[pa.Table, ...]]
"""Parts of several tables that belong together."""


def buckets_of(*tables: Scattered) -> Parts:
    """Iterate over the parts of tables that belong together; one part, if all are small."""
    (parts,) = lanes_of(*tables, count=1)
    return parts


def lanes_of(*tables: Scattered, count: int) -> list[Parts]:
    """Likewise, shared out among so many threads; fewer, if there is one part."""
    if all(table.is_small for table in tables):
        return [iter([tuple(table.whole() for table in tables)])]
    for table in tables:
        table.put_apart()
    return [_buckets(tables, range(first, BUCKETS, count)) for first in range(count)]


def _buckets(tables: Iterable[Scattered], numbers: Iterable[int]) -> Parts:
    for number in numbers:
        yield tuple(table.bucket(number) for table in tables)


def bucket_numbers(paths: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """Return the bucket of each path: the end of a path of ours is drawn by chance."""
    texts = paths.cast(pa.large_binary()).combine_chunks()
    if isinstance(texts, pa.ChunkedArray):  # of no rows
        return np.empty(0, np.uint8)
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8)
    # A path is never empty: all begin with the folder of repositories.
    last, before = data[offsets[1:] - 1], data[offsets[1:] - 2]
    return _hexadecimal(before) * np.uint8(16) + _hexadecimal(last)


def _hexadecimal(digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the values of digits; of other letters, some value below 16."""
    values = (digits & 0xF) + 9 * (digits >> 6)  # 0-9 are 48-57, a-f are 97-102
    return (values & 0xF).astype(np.uint8)


def _as_batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


def _read_batch(file: Path, number: int) -> pa.RecordBatch:
    # Not mapped into memory: pages of a mapped file would count as this process's own.
    with pa.OSFile(str(file)) as source:
        return pa.ipc.open_file(source).get_batch(number)
