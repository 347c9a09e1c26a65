"""How fast a first look of garbage collection is.

The floor lists the same tree with the system's own calls, and lets DuckDB do the same anti-join
over the same Parquet files. Spark's start is not counted. Files are made empty and without fsync.
"""

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import duckdb
import pyarrow as pa

from benchmarks.report import Row, report
from lakebed.block import LocalSettings, Namespace
from lakebed.formats import (
    OWNER_PATH,
    AddressType,
    Owner,
    RangeRef,
    conform_entries,
    encode_metarange,
    encode_owner,
    encode_range,
    metarange_id,
    metarange_path,
    metarange_table,
    range_id,
    range_path,
)
from lakebed.formats.gc_files import (
    GC_SCHEMAS,
    MANIFEST_NAME,
    GCFile,
    GCFileKind,
    GCManifest,
    GCRun,
    GCRunID,
    encode_gc_manifest,
    encode_gc_table,
    gc_path,
)
from lakebed.gc.job import Job, Options, new_session
from lakebed.gc.server import Server
from lakebed.gc.storage import Storage

OBJECTS = 2_000_000
BRANCHES = 100
RANGE_ROWS = 50_000
FIVE_TIMES = 0.2

_NOW_US = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp() * 1e6)
_OLD_US = _NOW_US - 30 * 24 * 3600 * 1_000_000
_UID = "ab" * 10
_RUN = GCRunID("0" * 36)


class Prepared(Server):
    """A server that has prepared already."""

    def __init__(self) -> None:
        pass

    def prepare(self, unique_id: str) -> GCRunID:
        assert unique_id == _UID
        return _RUN


def object_path(number: int) -> str:
    partition = f"{(1 << 64) - 1 - _OLD_US:016x}-{number % BRANCHES:012x}"
    branch = f"branch-{number % BRANCHES}"
    return f"repos/{_UID}/branches/{branch}/{partition}/{_OLD_US + number:016x}{number:020x}"


class Lake:
    """A tree of objects: half of them committed, a quarter staged, a quarter garbage."""

    def __init__(self, folder: Path, objects: int) -> None:
        self.root = folder
        self.data = folder / "lake" / "data"
        self.objects = objects
        self._make_tree()
        self._make_files()

    def _write(self, path: str, data: bytes) -> None:
        file = self.data / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def _make_tree(self) -> None:
        for number in range(BRANCHES):
            (self.data / object_path(number)).parent.mkdir(parents=True)
        for number in range(self.objects):
            path = str(self.data / object_path(number))
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.utime(path, (_OLD_US / 1e6, _OLD_US / 1e6))

    def _make_files(self) -> None:
        self._write(OWNER_PATH, encode_owner(Owner("installation", "lake", _UID)))
        committed, staged = self.objects // 2, self.objects * 3 // 4
        refs = [
            self._make_range(start, min(start + RANGE_ROWS, committed))
            for start in range(0, committed, RANGE_ROWS)
        ]
        table = metarange_table(refs)
        metarange = metarange_id(table)
        self._write(metarange_path(metarange), encode_metarange(table))
        addresses = [f"local://lake/data/{object_path(n)}" for n in range(committed, staged)]
        files = (
            self._make_gc_file(GCFileKind.STAGED, {"address": addresses}),
            self._make_gc_file(GCFileKind.COMMITS, {"id": ["c"], "metarange_id": [metarange]}),
        )
        run = GCRun(
            run_id=_RUN,
            installation_id="installation",
            repository="lake",
            unique_id=_UID,
            adopted_unique_ids=(),
            storage_namespace="local://lake/data",
            began_us=_NOW_US,
            cutoff_us=_NOW_US - 86_400_000_000,
            gap_us=3_600_000_000,
            partition_open_us=3_600_000_000,
            with_uploads=True,
        )
        manifest = GCManifest(run=run, ended_us=_NOW_US + 1, files=files)
        self._write(gc_path(_UID, _RUN, MANIFEST_NAME), encode_gc_manifest(manifest))

    def _make_range(self, start: int, stop: int) -> RangeRef:
        count = stop - start
        keys = [f"{number:012}".encode() for number in range(start, stop)]
        entries = conform_entries(
            pa.table(
                {
                    "key": keys,
                    "identity": keys,
                    "address": [object_path(number) for number in range(start, stop)],
                    "address_type": pa.array([int(AddressType.RELATIVE)] * count, pa.int8()),
                    "size": [0] * count,
                    "checksum": [""] * count,
                    "mtime": pa.array([_OLD_US] * count).cast(pa.timestamp("us", tz="UTC")),
                    "content_type": [""] * count,
                    "metadata": pa.array([[]] * count, pa.map_(pa.string(), pa.string())),
                }
            )
        )
        found = range_id(entries)
        self._write(range_path(found), encode_range(entries))
        return RangeRef(found, keys[0], keys[-1], count, 0)

    def _make_gc_file(self, kind: GCFileKind, columns: dict[str, list[str]]) -> GCFile:
        name = f"{kind}-0.parquet"
        data, file = encode_gc_table(kind, pa.table(columns, schema=GC_SCHEMAS[kind]), name)
        self._write(gc_path(_UID, _RUN, name), data)
        return file

    def floor(self) -> tuple[float, int]:
        """List and subtract with the least that can do it; return the seconds and the garbage."""
        start = perf_counter()
        prefix = len(str(self.data)) + 1
        listed = [
            (entry.path[prefix:], entry.stat().st_mtime_ns)
            for folder, _, names in os.walk(self.data / "repos")
            if names
            for entry in os.scandir(folder)
        ]
        paths = pa.table(
            {"path": [path for path, _ in listed], "mtime": [mtime for _, mtime in listed]}
        )
        staged = f"{self.data}/{gc_path(_UID, _RUN, 'staged-0.parquet')}"
        with duckdb.connect() as connection:
            connection.execute("SET threads = 2")
            connection.register("paths", paths)
            row = connection.execute(
                f"""SELECT count(*) FROM paths
                ANTI JOIN '{self.data}/_lakebed/ranges/*.parquet' AS r ON paths.path = r.address
                ANTI JOIN (SELECT substr(address, 19) AS path FROM '{staged}') AS s
                    ON paths.path = s.path"""
            ).fetchone()
        assert row is not None
        return perf_counter() - start, int(row[0])


def measure(objects: int = OBJECTS) -> list[Row]:
    """Return all measurements, for so many objects."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder), objects)
        spark = new_session("local[2]")
        server = Prepared()
        storage = Storage(LocalSettings(lake.root), Namespace.parse("local://lake/data"), _UID)
        job = Job(spark, server, storage)
        spark.range(10).count()  # its start is not counted
        start = perf_counter()
        summary = job.run(Options(dry_run=True))
        ours = perf_counter() - start
        floor, garbage = lake.floor()
        assert summary.waiting == garbage == objects - objects * 3 // 4, (summary, garbage)
        name = f"first look, {objects:,} objects"
        return [Row(name, "local[2]", objects / ours, floor / ours, FIVE_TIMES)]


if __name__ == "__main__":
    sys.exit(report(measure(int(sys.argv[1]) if sys.argv[1:] else OBJECTS)))
