"""A commit of many staged objects, against SQLite, protobuf and PyArrow alone."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, open_lake, tables
from benchmarks.report import Row
from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.formats import ENTRY_SCHEMA

AT_MOST_1_8_TIMES = 1 / 1.8
MEAN_RANGE = 50_000
SCAN = "SELECT key, value FROM entries WHERE partition = ? ORDER BY key"


def measure(folder: Path, objects: int) -> Row:
    """Commit `objects` staged objects."""
    with open_lake(folder / "commit") as lake:
        lake.start_worker()
        lake.stage(tables(objects))
        floors = [bare_commit(lake, folder, objects) for _ in range(2)]
        begun = perf_counter()
        lake.engine.commit(LAKE, MAIN, REQUEST)
        seconds = perf_counter() - begun
    operation = f"commit of {objects:,} objects"
    return Row(operation, "sqlite", objects / seconds, min(floors) / seconds, AT_MOST_1_8_TIMES)


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
