"""A commit of many staged objects, against SQLite, protobuf and PyArrow alone."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, open_lake, tables
from benchmarks.report import Row
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import LocalSettings, open_block
from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed import Committed
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import BranchID, FilesRoot
from lakebed.formats import ENTRY_SCHEMA, MetaRangeID
from lakebed.lake.commits import HeadChanges

AT_MOST_1_3_TIMES = 1 / 1.3
AT_MOST_1_5_TIMES = 1 / 1.5
CHANGES = 10
MEAN_RANGE = 10_000
SCAN = "SELECT key, value FROM entries WHERE partition = ? ORDER BY key"


def measure(folder: Path, objects: int, *, repeats: int) -> Row:
    """Commit `objects` staged objects, each time to a lake of its own; the median counts."""
    measured = []
    for repeat in range(repeats):
        with open_lake(folder / f"commit-{objects}-{repeat}") as lake:
            lake.start_worker()
            lake.stage(tables(objects))
            floors = [bare_commit(lake, folder, objects) for _ in range(2)]
            begun = perf_counter()
            HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
            seconds = perf_counter() - begun
        measured.append((min(floors) / seconds, objects / seconds))
    ratio, per_second = sorted(measured)[repeats // 2]
    return Row(f"commit of {objects:,} objects", "sqlite", per_second, ratio, AT_MOST_1_3_TIMES)


def measure_scale(folder: Path, sizes: Sequence[int], *, repeats: int) -> list[Row]:
    """Commit a few changes over more and more entries: it costs what the change is, not the lake.

    Each change is in a range of its own, of about the mean size. (Of keys taken by chance most are
    in ranges larger than that: twice as large in a large lake, and less so in one of few ranges.)
    Each is compared with that over the second size. A smaller lake than that has smaller ranges to
    write again, so the first is shown without a bar.
    """
    seconds: list[float] = []
    for size in sizes:
        place = folder / f"scale-{size}"
        with open_lake(place) as lake:
            writer = open_committed(place / "blocks", lake.repository.files_root)
            metarange_id = writer.write(tables(size))
            branch = _branch_of(lake, metarange_id)
            entries = writer.look_up(metarange_id, _far_apart(writer, metarange_id))
            times = []
            for repeat in range(repeats):
                lake.stage([_changed(entries, b"%d" % repeat)], branch)
                begun = perf_counter()
                HeadChanges(lake.engine).commit(LAKE, branch, REQUEST)
                times.append(perf_counter() - begun)
            seconds.append(median(times))
    bars = [None, *([AT_MOST_1_5_TIMES] * (len(sizes) - 1))]
    return [
        Row(f"commit of {CHANGES} over {size:,}", "sqlite", 1 / each, seconds[1] / each, bar)
        for size, each, bar in zip(sizes, seconds, bars, strict=True)
    ]


def _far_apart(writer: Committed, metarange_id: MetaRangeID) -> list[bytes]:
    """Return keys in ranges of about the mean size, each in its own if there are so many."""
    refs = writer._files.metarange(metarange_id).refs  # noqa: SLF001 - nobody else needs them
    if len(refs) < CHANGES:
        first: list[bytes] = next(writer.scan(metarange_id)).column("key").to_pylist()
        return first[:CHANGES]
    chosen = sorted(refs, key=lambda ref: abs(ref.count - MEAN_RANGE))[:CHANGES]
    return sorted(ref.max_key for ref in chosen)


def _changed(entries: pa.Table, identity: bytes) -> pa.Table:
    """Return entries with another identity."""
    identities = pa.array([identity] * entries.num_rows, pa.binary())
    return entries.set_column(1, ENTRY_SCHEMA.field("identity"), identities)


def open_committed(folder: Path, home: FilesRoot) -> Committed:
    """Open the committed entries of a repository."""
    runtime = ThreadRuntime()
    return Committed(open_block(LocalSettings(folder)), home, runtime)


def _branch_of(lake: BenchLake, metarange_id: MetaRangeID) -> BranchID:
    """Make a branch whose head holds a metarange."""
    commit = lake.engine.commits.add(
        lake.repository,
        committer="",
        message="",
        metarange_id=metarange_id,
        parents=[],
        metadata={},
    )
    branch = BranchID("scale")
    lake.engine.branches.create(lake.repository, branch, commit.id)
    return branch


def bare_commit(lake: BenchLake, folder: Path, objects: int) -> float:
    """Seconds to read what is staged, parse it and write it as files of the usual size."""
    files = max(1, objects // MEAN_RANGE)
    with lake.bare() as connection:
        begun = perf_counter()
        cursor = connection.execute(SCAN, (lake.token(),))
        number = 0
        while rows := cursor.fetchmany(-(-objects // files)):
            number += 1
            pq.write_table(
                bare_columns(rows),
                folder / f"bare-{number}.parquet",
                compression="zstd",
                use_dictionary=["content_type"],
                write_page_checksum=True,
            )
        return perf_counter() - begun


def bare_columns(rows: Sequence[tuple[bytes, bytes]]) -> pa.Table:
    """Parse staged rows into the columns of entries."""
    columns = zip(*[bare_values(key, value) for key, value in rows], strict=True)
    return pa.table([list(column) for column in columns], schema=ENTRY_SCHEMA)


def bare_values(key: bytes, value: bytes) -> tuple[object, ...]:
    """Parse a staged row into the values of `ENTRY_SCHEMA`."""
    staged = pb.StagedEntry.FromString(value)
    entry = staged.entry
    return (
        key[len(STAGED_PREFIX) :],
        staged.identity,
        entry.address,
        entry.address_type,
        entry.size,
        entry.checksum,
        entry.modified_us,
        entry.content_type,
        list(entry.metadata.items()) if entry.metadata else (),
    )
