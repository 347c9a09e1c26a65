"""How fast a server imports, how much memory it takes, and what replacing a tenth costs.

The objects are not there: a storage makes up their listing. Ranges are written to the disk. The
floor is PyArrow writing the same entries as Parquet with our options, measured in the same run.
Each measurement is made in a process of its own, so that the peak of memory is its own.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.committed import OUR_OPTIONS
from benchmarks.importing_lake import PLACE, GeneratedStore, listing
from benchmarks.importing_spark import spark_and_print
from benchmarks.report import Row, report
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.block.drivers.local.store import LocalBlockStore
from lakebed.engine.committed import Interval
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.formats.imported import imported_page
from lakebed.kv import open_store
from lakebed.lake.catalog import Catalog
from lakebed.lake.imports.sources import ImportSource

OBJECTS: Final = 10_000_000
MEMORY_BYTES: Final = 600_000_000
SPARK_OBJECTS_MIN: Final = 1_000_000
"""Below that, Spark would be measured at nothing but starting tasks."""
_FLOOR_ROWS: Final = 10_000
REPOSITORY: Final = RepositoryID("lake")
MAIN: Final = BranchID("main")


def import_and_print(objects: int) -> None:
    """Import, and print seconds, CPU seconds, and how far the memory rose above idle."""
    runtime = ThreadRuntime()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/lake.db", runtime=runtime)
        block = GeneratedStore(Path(folder) / "objects", runtime)
        block.objects = objects
        engine = Engine(store, block, runtime=runtime)
        catalog = Catalog(engine, store, block, runtime, runs_imports=False)
        place = Namespace.parse("local://lakes/lake")
        engine.repositories.create(REPOSITORY, place, committer="me")
        source = ImportSource.of_prefix(PLACE, b"lake/")
        import_id = catalog.imports.start(
            REPOSITORY, MAIN, [source], committer="me", message="import"
        )
        idle_bytes = _peak_bytes()
        begun, begun_cpu = perf_counter(), process_time()
        assert catalog.import_runner.run_waiting() == 1
        seconds, cpu = perf_counter() - begun, process_time() - begun_cpu
        status = catalog.imports.status(REPOSITORY, MAIN, import_id)
        assert (status.completed, status.objects) == (True, objects), status.error
    print(seconds, cpu, _peak_bytes() - idle_bytes)


def write_and_print(objects: int) -> None:
    """Write the same entries by PyArrow alone; print seconds and CPU seconds."""
    seconds = cpu = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for entries in _files(objects):
            begun, begun_cpu = perf_counter(), process_time()
            pq.write_table(entries, Path(folder) / "floor.parquet", **OUR_OPTIONS)
            seconds += perf_counter() - begun
            cpu += process_time() - begun_cpu
    print(seconds, cpu)


def _files(objects: int) -> Iterator[pa.Table]:
    """Yield the entries of an import of so many objects, as many as a file holds at a time."""
    pages: list[pa.Table] = []
    for batch in listing(objects):
        page = imported_page(pa.Table.from_batches([batch]), str(PLACE), b"lake/")
        pages.append(page.entries)
        if sum(each.num_rows for each in pages) >= _FLOOR_ROWS:
            yield pa.concat_tables(pages).combine_chunks()
            pages = []
    if pages:
        yield pa.concat_tables(pages).combine_chunks()


def replace_and_print(objects: int) -> None:
    """Replace a tenth of so many entries; print ranges read and written, and how many may be."""
    runtime = ThreadRuntime()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/lake.db", runtime=runtime)
        block = LocalBlockStore(Path(folder) / "objects", runtime)
        engine = Engine(store, block, runtime=runtime)
        place = Namespace.parse("local://lakes/lake")
        repository = engine.repositories.create(REPOSITORY, place, committer="me")
        tables = [pa.Table.from_batches([batch]) for batch in listing(objects)]
        pages = [imported_page(table, str(PLACE), b"lake/").entries for table in tables]
        whole = pa.concat_tables(pages).combine_chunks()
        ingest = engine.committed(repository).ingest()
        ingest.add(whole)
        base = ingest.finish()
        part = whole.slice(4 * objects // 10, objects // 10)
        interval = Interval(part["key"][0].as_py(), part["key"][-1].as_py() + b"\x00")
        fresh = Engine(store, block, runtime=runtime)
        ingest = fresh.committed(repository).ingest()
        ingest.add(part)
        committed = fresh.committed(repository)
        committed.replace(base, ingest.finish(), [interval])
        known = committed.known_keys(base, interval.start, interval.end)
        counters = committed.counters
        written = counters.ranges_written + counters.ranges_reused
        print(counters.ranges_read, written, len(known) + 1 + 2)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _in_child(what: str, objects: int) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.importing", what, str(objects)]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(number) for number in child.stdout.split()]


def measure(objects: int = OBJECTS) -> list[Row]:
    """Return all measurements, of an import of so many objects."""
    before = _in_child("floor", objects)
    seconds, cpu, peak_bytes = _in_child("import", objects)
    after = _in_child("floor", objects)
    floor, floor_cpu = ((one + other) / 2 for one, other in zip(before, after, strict=True))
    read, written, allowed = _in_child("replace", max(objects // 10, 10))
    megabytes = peak_bytes / 1e6
    rows = [
        Row(f"import {objects:,} objects", "local", objects / seconds, floor / seconds, 0.4),
        Row("the same, by CPU time", "local", objects / cpu, floor_cpu / cpu, None),
        Row(
            f"memory above idle: {megabytes:,.0f} MB",
            "local",
            objects / seconds,
            MEMORY_BYTES / max(peak_bytes, 1),
            1.0,
        ),
        Row(f"replace a tenth: {read:.0f} ranges read", "local", 0, allowed / max(read, 1), 1.0),
        Row(f"and {written:.0f} written", "local", 0, allowed / max(written, 1), 1.0),
    ]
    return rows if objects < SPARK_OBJECTS_MIN else [*rows, *_measure_spark(objects, seconds, cpu)]


def _measure_spark(objects: int, seconds: float, cpu: float) -> list[Row]:
    """Import on Spark; the server took so many seconds, with the listing that both make up."""
    on_spark, spark_cpu, driver_before, driver = _in_child("spark", objects)
    megabytes = f"{driver_before / 1e6:,.0f} MB for a tenth, {driver / 1e6:,.0f} MB"
    return [
        Row("the same import on Spark", "local[2]", objects / on_spark, seconds / on_spark, 0.25),
        Row("the same, by CPU time", "local[2]", objects / spark_cpu, cpu / spark_cpu, None),
        Row(f"memory of the driver: {megabytes}", "local[2]", 0, driver_before / driver, 1 / 1.1),
    ]


def main(arguments: list[str]) -> int:
    """Run the benchmark, or one measurement of it."""
    parts = {
        "import": import_and_print,
        "floor": write_and_print,
        "replace": replace_and_print,
        "spark": spark_and_print,
    }
    if arguments and arguments[0] in parts:
        parts[arguments[0]](int(arguments[1]))
        return 0
    return report(measure(20_000 if "--tiny" in arguments else OBJECTS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
