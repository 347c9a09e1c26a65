"""How fast ranges of lakeFS are read, against how fast our builder writes the same entries."""

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path
from time import process_time

import pyarrow as pa

from benchmarks.engine_commit import open_committed
from benchmarks.engine_data import open_lake
from benchmarks.report import Row, report
from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.values import read_entries
from tests.kit.lakefs_tables import table, value

HALF = 0.5
ROWS = 100_000
TURNS = 3


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; return 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    tiny = parser.parse_args(arguments).tiny
    return report([measure(500 if tiny else ROWS, 1 if tiny else TURNS)])


def measure(rows: int, turns: int) -> Row:
    """Read a range and write what is in it, in turns; processor time, the least of each."""
    data = table([_row(number) for number in range(rows)], rows_per_block=200, blocks_per_index=50)
    reading, writing = [], []
    for turn in range(turns):
        begun = process_time()
        tables = list(read_entries(data, "range", "s3://old/lake"))
        reading.append(process_time() - begun)
        writing.append(_write(tables, turn))
    per_second = rows / min(reading)
    return Row("read a range of lakeFS", "", per_second, min(writing) / min(reading), HALF)


def _write(tables: list[pa.Table], turn: int) -> float:
    with tempfile.TemporaryDirectory() as name, open_lake(Path(name) / "lake") as lake:
        committed = open_committed(Path(name) / f"blocks-{turn}", lake.repository.files_root)
        begun = process_time()
        committed.write(tables)
        return process_time() - begun


def _row(number: int) -> tuple[bytes, bytes]:
    entry = pb.Entry(
        address=f"data/gq{number:010d}abcdefgh/k{number}",
        size=number,
        e_tag=hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest(),
        address_type=pb.RELATIVE,
        content_type="application/octet-stream",
    )
    entry.last_modified.seconds = 1_700_000_000 + number
    identity = hashlib.sha256(b"%d" % number).digest()
    key = b"tables/part-%08d/file.parquet" % number
    return key, value(identity, entry.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
