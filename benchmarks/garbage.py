"""How fast garbage collection is, as ratios to a floor.

- *First look*: the floor lists the same tree with the system's own calls, and lets DuckDB do the
  same anti-join over the same Parquet files. Spark's start is not counted: a run over a
  repository of a tenth comes before.
- *In one process*: the same look by Arrow, without Spark, in a process of its own, as fast as by
  Spark, and within a gigabyte of memory.
- *Memory of the driver*: the peak of the Python process, and the heap of its JVM after a collection
  at the end. The repository is ten times as large, and the memory must hardly be larger.
- *Optimized run*: a repository as nightly runs find it, with few objects that are not committed.
  Counted is what a run reads (entries of commits, what the server prepared, what the run before
  left), and the objects that it lists.
- *Preparation*: see `benchmarks.garbage_prepare`.

Trees are made, and floors measured, by another process: the memory of this one is the job's.
"""

import argparse
import gc
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Final

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks import garbage_prepare
from benchmarks.garbage_lake import NAMESPACE, UID, GarbageLake, PreparedServer
from benchmarks.report import Row, report
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import LocalSettings, Namespace
from lakebed.formats.gc_files import GCRunID
from lakebed.formats.layout import gc_path
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.on_spark import SparkExecutor
from lakebed.reclaim.collector.report import RunSummary
from lakebed.reclaim.collector.spark import new_session
from lakebed.reclaim.collector.storage import Storage

OBJECTS: Final = 2_000_000
COMMITS: Final = 200
NEW_SHARE: Final = 0.01
IDLE_BRANCHES: Final = 10_000

FIVE_TIMES: Final = 0.2
FLAT: Final = 0.85
AT_MOST_0_15: Final = 1 / 0.15

MEMORY_MAX: Final = 1 << 30

_MASTER: Final = "local[2]"
_ALONE: Final = "one process"
_DRIVER: Final = "--conf spark.driver.memory=1g pyspark-shell"


def main(arguments: list[str] | None = None) -> int:
    """Measure everything and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=OBJECTS, help="how many objects there are")
    objects = parser.parse_args(arguments).objects
    os.environ["PYSPARK_SUBMIT_ARGS"] = _DRIVER
    spark = new_session(_MASTER)
    with tempfile.TemporaryDirectory() as name:
        rows = measure(spark, Path(name), objects=objects, branches=IDLE_BRANCHES)
    return report(rows)


def measure(spark: SparkSession, folder: Path, *, objects: int, branches: int) -> list[Row]:
    """Return all measurements, for so many objects and idle branches."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as elsewhere:
        bench = Bench(spark, elsewhere)
        *_, memory_before = bench.first_look(folder / "small", objects // 10)  # and Spark starts
        look, in_one_process, memory = bench.first_look(folder / "large", objects)
        megabytes = f"{memory_before >> 20} MB for a tenth, {memory >> 20} MB"
        preparing = partial(garbage_prepare.measure, objects=objects // 2, branches=branches)
        return [
            look,
            *in_one_process,
            Row(f"memory of the driver, {megabytes}", _MASTER, 0, memory_before / memory, FLAT),
            *bench.optimized_run(folder / "nightly", objects // 4),
            *elsewhere.submit(preparing, folder).result(),
        ]


@dataclass(frozen=True, slots=True)
class Bench:
    """Spark, and another process."""

    spark: SparkSession
    elsewhere: Executor
    """Makes trees and measures floors."""

    def first_look(self, root: Path, objects: int) -> tuple[Row, list[Row], int]:
        """Make a clean run; return how fast it was on Spark and in one process.

        And the memory of the driver.

        Of the objects, one half is committed, a quarter staged and a quarter garbage.
        """
        lake, run_id = self.elsewhere.submit(make_lake, root, objects).result()
        begun = perf_counter()
        summary = run(self.spark, root, run_id, CollectorOptions(dry_run=True))
        seconds = perf_counter() - begun
        memory = driver_memory(self.spark)
        again = look_in_one_process(root, run_id, CollectorOptions(dry_run=True))
        assert again.summary.waiting == summary.waiting
        floor, garbage = self.elsewhere.submit(bare_look, lake, run_id).result()
        assert summary.waiting == garbage == objects - objects * 3 // 4, (summary, garbage)
        name = f"first look, {objects:,} objects"
        look = Row(name, _MASTER, objects / seconds, floor / seconds, FIVE_TIMES)
        faster = seconds / again.seconds
        megabytes = f"memory, {again.memory >> 20} MB, as part of {MEMORY_MAX >> 20} MB"
        in_one_process = [
            Row(f"{name}, for that of Spark", _ALONE, objects / again.seconds, faster, 1.0),
            Row(megabytes, _ALONE, 0, MEMORY_MAX / again.memory, 1.0),
        ]
        return look, in_one_process, memory

    def optimized_run(self, root: Path, objects: int) -> list[Row]:
        """Make a run after some new data came, optimized and clean, and compare what they read."""
        lake, run_id = self.elsewhere.submit(make_nightly_lake, root, objects).result()
        run(self.spark, root, run_id, CollectorOptions())
        run_id = self.elsewhere.submit(add_some, lake, int(objects * NEW_SHARE)).result()
        return [
            _saved(_MASTER, lambda options: self._timed(root, run_id, options)),
            _saved(_ALONE, lambda options: look_in_one_process(root, run_id, options)),
        ]

    def _timed(self, root: Path, run_id: GCRunID, options: CollectorOptions) -> "Looked":
        begun = perf_counter()
        summary = run(self.spark, root, run_id, options)
        return Looked(summary, perf_counter() - begun, 0)


@dataclass(frozen=True, slots=True)
class Looked:
    """A run, and what it took."""

    summary: RunSummary
    seconds: float
    memory: int
    """The most that its process had, in bytes."""

    @property
    def cost(self) -> int:
        """What it read and listed."""
        return self.summary.rows_read + self.summary.listed


def _saved(who: str, look: Callable[[CollectorOptions], Looked]) -> Row:
    """Compare what an optimized run reads and lists with what a clean one does."""
    clean, optimized = (
        look(CollectorOptions(dry_run=True, clean=clean)) for clean in (True, False)
    )
    assert optimized.summary.mode == "optimized"
    times = f"{optimized.seconds:.1f} s for {clean.seconds:.1f} s"
    name = f"rows and objects saved by an optimized run, {times}"
    ratio = clean.cost / optimized.cost
    return Row(name, who, optimized.cost / optimized.seconds, ratio, AT_MOST_0_15)


def look_in_one_process(root: Path, run_id: GCRunID, options: CollectorOptions) -> Looked:
    """Make a run by Arrow, in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(_look_here, root, run_id, options).result()


def _look_here(root: Path, run_id: GCRunID, options: CollectorOptions) -> Looked:
    storage = _storage(root)
    begun = perf_counter()
    executor = ArrowExecutor(storage, ThreadRuntime())
    summary = CollectorJob(executor, PreparedServer(run_id), storage).run(options)
    seconds = perf_counter() - begun
    return Looked(summary, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def run(spark: SparkSession, root: Path, run_id: GCRunID, options: CollectorOptions) -> RunSummary:
    """Make a run that the server has prepared."""
    storage = _storage(root)
    return CollectorJob(SparkExecutor(spark, storage), PreparedServer(run_id), storage).run(options)


def _storage(root: Path) -> Storage:
    return Storage(LocalSettings(root), Namespace.parse(NAMESPACE), UID)


def driver_memory(spark: SparkSession) -> int:
    """Bytes: the most that this process ever had, and what the JVM holds on to."""
    gc.collect()
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no public call
    assert jvm is not None
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    heap: int = runtime.totalMemory() - runtime.freeMemory()
    return heap + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def make_lake(root: Path, objects: int) -> tuple[GarbageLake, GCRunID]:
    """Make a repository for a first look."""
    lake = GarbageLake(root)
    committed, named = objects // 2, objects * 3 // 4
    lake.commit(committed, _commits(committed))
    lake.stage(named - committed)
    lake.litter(objects - named)
    return lake, lake.prepare()


def _commits(objects: int) -> int:
    """How many commits add so many objects: fewer when the benchmark is tiny."""
    return max(1, min(COMMITS, objects // 100))


def make_nightly_lake(root: Path, objects: int) -> tuple[GarbageLake, GCRunID]:
    """Make a repository in which one object of twenty is staged, and one is garbage."""
    lake = GarbageLake(root)
    few = objects // 20
    lake.commit(objects - 2 * few, _commits(objects - 2 * few))
    lake.stage(few)
    lake.litter(few)
    return lake, lake.prepare()


def add_some(lake: GarbageLake, objects: int) -> GCRunID:
    """Commit some objects in two commits, stage some, and leave some lying about."""
    lake.commit(objects // 2, 2)
    lake.stage(objects // 4)
    lake.litter(objects - objects // 2 - objects // 4)
    return lake.prepare()


def bare_look(lake: GarbageLake, run_id: GCRunID) -> tuple[float, int]:
    """List and subtract with the least that can do it; return the seconds and the garbage."""
    start = perf_counter()
    prefix = len(str(lake.data)) + 1
    listed = [
        (entry.path[prefix:], entry.stat().st_mtime_ns)
        for folder, _, names in os.walk(lake.data / "repos")
        if names
        for entry in os.scandir(folder)
    ]
    paths = pa.table(
        {"path": [path for path, _ in listed], "mtime": [mtime for _, mtime in listed]}
    )
    staged = f"{lake.data}/{gc_path(UID, run_id, 'staged-*.parquet')}"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        connection.execute("SET enable_progress_bar = false")
        connection.register("paths", paths)
        row = connection.execute(
            f"""SELECT count(*) FROM paths
            ANTI JOIN '{lake.data}/_lakebed/ranges/*.parquet' AS r ON paths.path = r.address
            ANTI JOIN (SELECT substr(address, {len(NAMESPACE) + 2}) AS path FROM '{staged}') AS s
                ON paths.path = s.path"""
        ).fetchone()
    assert row is not None
    return perf_counter() - start, int(row[0])


if __name__ == "__main__":
    sys.exit(main())
