"""Garbage collection in a process that reaches the server by HTTP, on Spark or without.

`run` makes a run; `server` calls the server; `datasource` reads the objects of a ref into Spark.
`lakebed.reclaim.collector` decides which objects are garbage.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakebed.block import BlockSettings
    from lakebed.reclaim.collector.job import CollectorOptions
    from lakebed.reclaim.collector.judging import Executor
    from lakebed.reclaim.collector.report import RunSummary
    from lakebed.reclaim.collector.storage import Storage

__all__ = ["run"]


def run(
    repository: str,
    *,
    endpoint: str,
    access_key_id: str,
    secret_access_key: str,
    storage: "BlockSettings | None" = None,
    options: "CollectorOptions | None" = None,
    master: str | None = None,
    print_line: Callable[[str], None] = lambda _line: None,
) -> "RunSummary":
    """Run a garbage collection.

    Args:
        repository: Name of the repository.
        endpoint: URL of the server.
        access_key_id: Access key id for the server.
        secret_access_key: Secret access key for the server.
        storage: Settings of the storage, also for executors; None means the settings of the server
            and the environment, see `storage.block_settings`.
        options: Options of the run; see `job.CollectorOptions`.
        master: URL of the Spark master; None means the one of ``spark-submit``, or this machine,
            where Spark is optional.
        print_line: Called with a line for each step.

    Raises:
        GCError: The run was aborted; see `errors`.
        ClientError: The server refused, or did not respond.
        LakebedError: The storage failed, or a file is damaged.
        MissingExtraError: `master` is given, but PySpark is not installed.
    """
    from lakebed.clients.garbage.server import GarbageServer
    from lakebed.clients.http.settings import ClientSettings, normal_endpoint
    from lakebed.reclaim.collector.job import (  # executors import this package
        CollectorJob,
        CollectorOptions,
    )
    from lakebed.reclaim.collector.storage import open_storage

    settings = ClientSettings(normal_endpoint(endpoint), access_key_id, secret_access_key)
    server = GarbageServer(settings, repository)
    try:
        opened = open_storage(server, storage)
        job = CollectorJob(
            _executor(opened, master, print_line), server, opened, print_line=print_line
        )
        return job.run(options or CollectorOptions())
    finally:
        server.close()


def _executor(
    storage: "Storage", master: str | None, print_line: Callable[[str], None]
) -> "Executor":
    """Return an executor on Spark, or in this process if PySpark is not installed."""
    from lakebed.base.errors import MissingExtraError  # executors import this package

    try:
        from lakebed.reclaim.collector.on_spark import SparkExecutor
        from lakebed.reclaim.collector.spark import new_session
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pyspark"):
            raise
        if master is not None:
            raise MissingExtraError("garbage collection on Spark", "spark") from error
    else:
        return SparkExecutor(new_session(master), storage)
    from lakebed.base.runtime import ThreadRuntime
    from lakebed.reclaim.collector.on_arrow import ArrowExecutor

    print_line("PySpark not found; running in-process.")
    return ArrowExecutor(storage, ThreadRuntime())
