"""Definition of garbage on Arrow: functions from tables to tables, column by column.

They are equivalent to the functions of `rules`, as `frames` is on Spark. The tables of one call
hold everything known about their paths.

`PartitionedTable` tables need not fit into memory: they are partitioned by path, and read bucket by
bucket. Rows of one path are in buckets of the same number in every table. Rows over the memory
budget go to files in a folder; a file has one batch for each bucket, and only that batch is read.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.runtime import Runtime
from lakebed.formats.gc_files import GC_RESULT_SCHEMAS, GCResultKind
from lakebed.formats.object_paths import WHOLE_PATH_PATTERN
from lakebed.reclaim.collector.executors.read import STORED_SCHEMA, made_us_of
from lakebed.reclaim.collector.rules import COMMIT_REFERENCED, ObservationTimes, Verdict

JUDGED_SCHEMA: Final = GC_RESULT_SCHEMAS[GCResultKind.OBJECTS]
"""Objects with the verdicts of an observation: `rules.Judged`, with 0 for no time."""

PATHS_SCHEMA: Final = pa.schema([pa.field("path", pa.string())])
"""Paths of referenced objects; may contain duplicates."""

FOUND_SCHEMA: Final = pa.schema([pa.field("path", pa.string()), pa.field("found_us", pa.int64())])
"""Candidates of earlier observations, with the times at which they were found."""

_COMMIT_REFERENCED: Final = pa.array([verdict.value for verdict in COMMIT_REFERENCED])


def saved_closed(saved: pa.Table, closed_before_us: int) -> pa.Table:
    """Return the objects of closed partitions in the state: see `rules.observed_objects`."""
    return saved.filter(_is_closed(saved, closed_before_us)).select(STORED_SCHEMA.names)


def saved_commit_referenced(saved: pa.Table) -> pa.Table:
    """Return the paths referenced by known commits: see `rules.saved_commit_referenced`."""
    return saved.filter(_is_commit_referenced(saved)).select(PATHS_SCHEMA.names)


def saved_found(saved: pa.Table) -> pa.Table:
    """Return the candidates of the state."""
    return saved.filter(pc.greater(saved.column("found_us"), 0)).select(FOUND_SCHEMA.names)


def judge(
    observed: pa.Table,
    *,
    committed: pa.Table,
    uncommitted: pa.Table,
    found: pa.Table,
    times: ObservationTimes,
) -> pa.Table:
    """Return objects with their verdicts: see `rules.judge`.

    `observed` has each object once, with the columns of `STORED_SCHEMA`; `found` the state's
    candidates.
    """
    paths = observed.column("path")
    conditions = {
        Verdict.COMMITTED: pc.is_in(paths, value_set=committed.column("path")),
        Verdict.HELD: pc.is_in(paths, value_set=uncommitted.column("path")),
        Verdict.YOUNG: pc.greater_equal(observed.column("born_us"), times.cutoff_us),
    }
    verdict = pa.repeat(Verdict.CANDIDATE.value, observed.num_rows)
    for name, condition in reversed(conditions.items()):  # the first match wins
        verdict = pc.if_else(condition, name.value, verdict)
    place = pc.index_in(paths, value_set=found.column("path"))
    found_us = pc.min_element_wise(found.column("found_us").take(place), times.ended_us)
    found_us = pc.if_else(pc.equal(verdict, Verdict.CANDIDATE.value), found_us, 0)
    seen = pa.table(
        [*(observed.column(name) for name in STORED_SCHEMA.names), verdict, found_us],
        schema=JUDGED_SCHEMA,
    )
    return pa.concat_tables([seen, _unseen(committed.column("path"), paths)])


def _unseen(committed: pa.ChunkedArray, observed: pa.ChunkedArray) -> pa.Table:
    """Return the objects referenced by commits but not observed."""
    others = pc.unique(committed.filter(pc.invert(pc.is_in(committed, value_set=observed))))
    others = others.filter(pc.match_substring_regex(others, WHOLE_PATH_PATTERN))
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(others))
    verdicts = pa.repeat(Verdict.UNSEEN.value, len(others))
    columns = [others, zeros, zeros, pa.array(made_us_of(others)), verdicts, zeros]
    return pa.table(columns, schema=JUDGED_SCHEMA)


def is_due(judged: pa.Table, times: ObservationTimes) -> pa.ChunkedArray:
    """Return whether this run deletes each object: see `rules.due`."""
    found_us = judged.column("found_us")
    is_old = pc.less_equal(found_us, times.began_us - times.gap_us)
    return pc.and_(pc.greater(found_us, 0), is_old)


def is_candidate(judged: pa.Table) -> pa.ChunkedArray:
    """Return whether each object is garbage according to this observation."""
    return pc.equal(judged.column("verdict"), Verdict.CANDIDATE.value)


def is_freed(judged: pa.Table, old: pa.Table) -> pa.ChunkedArray:
    """Return whether each object is garbage referenced by old commits: see `rules.freed`."""
    named = pc.is_in(judged.column("path"), value_set=old.column("path"))
    return pc.and_(is_candidate(judged), named)


def is_remembered(judged: pa.Table, closed_before_us: int) -> pa.ChunkedArray:
    """Return whether the next run must know each object: see `rules.remembered`."""
    is_closed = _is_closed(judged, closed_before_us)
    return pc.or_(is_candidate(judged), pc.xor(is_closed, _is_commit_referenced(judged)))


def _is_closed(table: pa.Table, closed_before_us: int) -> pa.ChunkedArray:
    return pc.less(table.column("made_us"), closed_before_us)


def _is_commit_referenced(table: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(table.column("verdict"), value_set=_COMMIT_REFERENCED)


BUCKETS: Final = 256
BUDGET_BYTES: Final = 48 << 20
"""Size of the part of a table kept in memory."""


class PartitionedTable:
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
        for batch in batches:
            with self._lock:
                self._batches.append(batch.cast(self._schema))
                self._bytes += batch.nbytes
                if self._bytes >= self._budget_bytes:
                    self._spill()

    @property
    def is_small(self) -> bool:
        """Whether the whole table is in memory."""
        return not self._files

    def whole(self) -> pa.Table:
        """Return a small table."""
        assert self.is_small
        return pa.Table.from_batches(self._batches, self._schema)

    def partition(self) -> None:
        """Write all rows to buckets; no rows can be added afterwards."""
        if self._batches:
            self._spill()

    def bucket(self, number: int) -> pa.Table:
        """Return the rows of one bucket, after `partition`; many threads may read."""
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
"""Matching parts of several tables."""


def buckets_of(*tables: PartitionedTable) -> Parts:
    """Yield the matching parts of tables; a single part if all tables are small."""
    (parts,) = parallel_buckets(*tables, count=1)
    return parts


def parallel_buckets(*tables: PartitionedTable, count: int) -> list[Parts]:
    """Like `buckets_of`, but in `count` parallel iterators; a single iterator for a single part."""
    if all(table.is_small for table in tables):
        return [iter([tuple(table.whole() for table in tables)])]
    for table in tables:
        table.partition()
    return [_buckets(tables, range(first, BUCKETS, count)) for first in range(count)]


def _buckets(tables: Iterable[PartitionedTable], numbers: Iterable[int]) -> Parts:
    for number in numbers:
        yield tuple(table.bucket(number) for table in tables)


def bucket_numbers(paths: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """Return the bucket of each path, from its last two digits, which are random."""
    texts = paths.cast(pa.large_binary()).combine_chunks()
    if isinstance(texts, pa.ChunkedArray):  # without rows
        return np.empty(0, np.uint8)
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8)
    # Paths are never empty: all begin with the folder of repositories.
    last, before = data[offsets[1:] - 1], data[offsets[1:] - 2]
    return _hexadecimal(before) * np.uint8(16) + _hexadecimal(last)


def _hexadecimal(digits: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the values of digits; for other letters, any value below 16."""
    values = (digits & 0xF) + 9 * (digits >> 6)  # 0-9 are 48-57, a-f are 97-102
    return (values & 0xF).astype(np.uint8)


def _as_batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


def _read_batch(file: Path, number: int) -> pa.RecordBatch:
    # Not mapped: pages of a mapped file would count as memory of this process.
    with pa.OSFile(str(file)) as source:
        return pa.ipc.open_file(source).get_batch(number)
