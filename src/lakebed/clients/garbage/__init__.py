"""Garbage collection by a program that reaches the server by HTTP, on Spark or in one process.

`run` makes a run; `server` asks the server for its part; `datasource` reads objects of a ref into
Spark. What is garbage, `lakebed.reclaim.collector` decides.
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
    say: Callable[[str], None] = lambda _line: None,
) -> "RunSummary":
    """Make a run of garbage collection.

    Args:
        repository: The repository's name.
        endpoint: The server.
        access_key_id: Who asks the server.
        secret_access_key: The secret that goes with it.
        storage: How to open the storage of the repository, here and in the executors; None: as the
            server and the environment say, see `storage.block_settings`.
        options: What to do; see `job.CollectorOptions`.
        master: The Spark to run on; None: as ``spark-submit`` says, else this machine, where
            Spark is not needed.
        say: Called with a line about each step.

    Raises:
        GCError: The run ended early; see `errors`.
        ClientError: The server refused, or did not answer.
        LakebedError: The storage failed, or a file is damaged.
        MissingExtraError: A Spark is named, and PySpark is not installed.
    """
    from lakebed.clients.garbage.server import GarbageServer
    from lakebed.reclaim.collector.job import (  # executors import this package
        CollectorJob,
        CollectorOptions,
    )
    from lakebed.reclaim.collector.storage import open_storage

    server = GarbageServer(
        endpoint, repository, access_key_id=access_key_id, secret_access_key=secret_access_key
    )
    try:
        opened = open_storage(server, storage)
        job = CollectorJob(_executor(opened, master, say), server, opened, say=say)
        return job.run(options or CollectorOptions())
    finally:
        server.close()


def _executor(storage: "Storage", master: str | None, say: Callable[[str], None]) -> "Executor":
    """Return Spark, or this process if PySpark is not installed."""
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

    say("PySpark is not installed: this process does the work.")
    return ArrowExecutor(storage, ThreadRuntime())
