"""The signs of life of an import on Spark, from before Spark starts to the end of the job."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.base.leases import heartbeat_thread
from lakebed.clients.http.errors import ClientError
from lakebed.clients.ingest.server import ImportReporter
from lakebed.wire.imports import ImportReport

BEAT_SECONDS: Final = 2.0
"""Between two of them. The server gives an import up that it does not hear of for a minute."""

_LOGGER: Final = logging.getLogger(__name__)


@contextmanager
def beating(
    server: ImportReporter, progress: Callable[[], ImportReport], on_end: Callable[[str], object]
) -> Iterator[None]:
    """Tell the server now and then how far the job is.

    Args:
        server: It is told.
        progress: Returns what to say.
        on_end: Called, perhaps several times, with the reason if the import has ended.
    """

    def beat() -> bool:
        try:
            error = server.report(progress()).error
        except ClientError as unheard:
            _LOGGER.warning("the server does not hear from the job: %s", unheard)
        else:
            if error:
                on_end(error.message)
        return True

    with heartbeat_thread(beat, every_seconds=BEAT_SECONDS):
        yield
