"""An import on Spark, measured beside one by the server: time, CPU time, memory of the driver.

Executors make the listing up themselves. There is no server: the job ends when it would hand in its
metarange. The session starts, and makes a small import, before anything is measured.
"""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Final

import psutil
from pyspark.sql import SparkSession

from benchmarks.garbage import driver_memory
from benchmarks.importing_lake import PLACE, GeneratedStorage
from lakebed.block import LocalSettings, Namespace
from lakebed.clients.ingest.job import IngestJob
from lakebed.clients.ingest.plan import IngestSource
from lakebed.clients.ingest.server import ImportReporter, Started
from lakebed.formats import OWNER_PATH, Owner, encode_owner
from lakebed.formats.boundaries import Breaks
from lakebed.formats.gc_files import GCMarker
from lakebed.reclaim.collector.spark import new_session
from lakebed.wire.imports import ImportReport, ImportStatus

_UID: Final = "uid"
_MASTER: Final = "local[2]"
_DRIVER: Final = "--conf spark.driver.memory=1g pyspark-shell"
_WARM_OBJECTS: Final = 10_000


class _NoServer(ImportReporter):
    """Hears the reports of a job, and agrees."""

    def __init__(self) -> None:
        self.paths = []

    def report(self, _said: ImportReport) -> ImportStatus:
        return ImportStatus(
            completed=False,
            update_time=datetime.now(UTC),
            ingested_objects=0,
            skipped_objects=0,
            skipped=[],
        )


def import_on_spark(spark: SparkSession, folder: Path, objects: int) -> str:
    """Import so many objects; return the metarange."""
    namespace = Namespace.parse("local://lakes/lake")
    storage = GeneratedStorage(LocalSettings(folder / str(objects)), namespace, _UID)
    owner = encode_owner(Owner("installation", "lake", _UID))
    storage.block.put(namespace.address(OWNER_PATH), [owner])
    started = Started(
        id="id",
        marker=GCMarker(str(namespace), _UID, ""),
        local_root=None,
        sources=(IngestSource(str(PLACE), is_prefix=True, destination=b"lake/"),),
        breaks=Breaks(),
    )
    return IngestJob(spark, _NoServer(), storage, started).run()


def spark_and_print(objects: int) -> None:
    """Print seconds, CPU seconds, and the memory of the driver, for a tenth and for all."""
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _DRIVER)
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    spark = new_session(_MASTER)
    with tempfile.TemporaryDirectory() as folder:
        import_on_spark(spark, Path(folder), _WARM_OBJECTS)
        import_on_spark(spark, Path(folder), max(objects // 10, 10))
        before_bytes = driver_memory(spark)
        begun, begun_cpu = perf_counter(), _cpu_seconds()
        import_on_spark(spark, Path(folder), objects)
        seconds, cpu = perf_counter() - begun, _cpu_seconds() - begun_cpu
        print(seconds, cpu, before_bytes, driver_memory(spark))
    spark.stop()


def _cpu_seconds() -> float:
    """What this process and all below it have used, also those that have ended."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(sum(each[:4]) for each in times)
