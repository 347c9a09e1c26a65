"""Requests of an import on Spark to the server."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from lakebed.base.leases import heartbeat_thread
from lakebed.clients.http.errors import ClientError, UnexpectedAnswer
from lakebed.clients.http.http import Client
from lakebed.clients.ingest.plan import IngestSource
from lakebed.formats.boundaries import Breaks
from lakebed.formats.gc_files import GCMarker
from lakebed.wire.imports import ImportInfo, ImportLocation, ImportQuery, ImportReport, ImportStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An import that the server has begun."""

    id: str
    marker: GCMarker
    local_root: Path | None
    """Directory of a storage local to the server."""
    sources: tuple[IngestSource, ...]
    """Sorted by destination."""
    breaks: Breaks

    @classmethod
    def of(cls, answer: ImportInfo) -> Self:
        """Convert a response, or raise `UnexpectedAnswer` if the server does not support Spark."""
        if answer.spark is None:
            raise UnexpectedAnswer("the server is too old for imports on Spark: upgrade it")
        spark = answer.spark
        marker, root = spark.mark, spark.mark.local_root
        return cls(
            id=answer.id,
            marker=GCMarker(marker.storage_namespace, marker.unique_id, marker.nonce),
            local_root=None if root is None else Path(root),
            sources=tuple(
                IngestSource(each.place, each.is_prefix, each.destination.encode())
                for each in spark.sources
            ),
            breaks=Breaks(spark.mean_rows, spark.max_rows, spark.max_bytes),
        )


@dataclass(frozen=True, slots=True)
class ImportBranch:
    """Destination of an import."""

    repository: str
    name: str


class ImportReporter:
    """Reporter of one import. All requests are idempotent, and raise `ClientError`."""

    def __init__(self, client: Client, branch: ImportBranch, started: Started) -> None:
        """Use a client that waits for a restarting server."""
        self._client = client
        self._branch = branch
        self._id = started.id
        self.paths = [
            ImportLocation(
                type="common_prefix" if source.is_prefix else "object",
                path=source.place,
                destination=source.destination.decode(),
            )
            for source in started.sources
        ]
        """The import's sources, repeated in each report."""

    def report(self, progress: ImportReport) -> ImportStatus:
        """Report the progress; return the status of the import."""
        query = ImportQuery(id=self._id)
        return self._client.imports.report(
            self._branch.repository, self._branch.name, query, progress
        )


HEARTBEAT_SECONDS: Final = 2.0
"""Interval of heartbeats. The server fails an import without heartbeats after a minute."""

_LOGGER: Final = logging.getLogger(__name__)


@contextmanager
def heartbeats(
    server: ImportReporter, progress: Callable[[], ImportReport], on_end: Callable[[str], object]
) -> Iterator[None]:
    """Report the progress to the server at intervals.

    Args:
        server: Receives the reports.
        progress: Returns the current report.
        on_end: Called, possibly several times, with the reason if the import has ended.
    """

    def send_heartbeat() -> bool:
        try:
            error = server.report(progress()).error
        except ClientError as unheard:
            _LOGGER.warning("cannot report to the server: %s", unheard)
        else:
            if error:
                on_end(error.message)
        return True

    with heartbeat_thread(send_heartbeat, every_seconds=HEARTBEAT_SECONDS):
        yield
