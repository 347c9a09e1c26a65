"""Start of the Spark job for an import that the server has begun."""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.block import BlockSettings
from lakebed.clients.http.http import Client
from lakebed.clients.http.retry import OUTLAST_RESTARTS
from lakebed.clients.http.settings import ClientSettings
from lakebed.clients.ingest.job import IngestJob
from lakebed.clients.ingest.server import ImportBranch, ImportReporter, Started, heartbeats
from lakebed.reclaim.collector.spark import new_session
from lakebed.reclaim.collector.storage import find_storage
from lakebed.wire.imports import ImportReport

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of a job."""

    storage: BlockSettings | None = None
    """Settings of the storage, also for executors; None means the settings of the server and the
    environment, see `lakebed.reclaim.collector.storage.block_settings`."""
    master: str | None = None
    """URL of the Spark master; None means the one of ``spark-submit``, or this machine."""
    strict: bool = False
    """Whether an object that cannot be imported fails the import."""


def run_job(
    settings: ClientSettings,
    branch: ImportBranch,
    started: Started,
    options: JobOptions,
    print_line: Callable[[str], None],
) -> None:
    """Build the metarange of an import on Spark, and report it to the server.

    Raises:
        IngestError: The import was aborted; see `lakebed.clients.ingest.errors`.
        ClientError: The server refused, or did not respond.
        LakebedError: The storage or an executor failed.
    """
    with closing(Client(settings, retry_policy=OUTLAST_RESTARTS)) as client:
        server = ImportReporter(client, branch, started)
        try:
            storage = find_storage(started.marker, started.local_root, options.storage)
        except LakebedError as error:
            server.report(ImportReport(paths=server.paths, error=str(error)))
            raise
        # Starting Spark takes a while: send heartbeats meanwhile.
        starting = ImportReport(paths=server.paths, current_prefix="starting Spark")
        with heartbeats(server, lambda: starting, _LOGGER.info):
            spark = new_session(options.master, name=f"lakebed import {started.id}")
        IngestJob(
            spark, server, storage, started, strict=options.strict, print_line=print_line
        ).run()
