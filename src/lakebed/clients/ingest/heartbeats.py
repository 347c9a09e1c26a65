"""Heartbeats of an import on Spark, from before Spark starts to the end of the job."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.base.leases import heartbeat_thread
from lakebed.clients.http.errors import ClientError
from lakebed.clients.ingest.server import ImportReporter
from lakebed.wire.imports import ImportReport

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
