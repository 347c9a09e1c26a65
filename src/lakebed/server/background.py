"""The process beside the workers that removes what nothing names any more.

One process and not a thread of each worker: the work is the same whoever does it, and a long pass
must not slow requests down. It keeps what it has seen in memory and runs for as long as the server.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

from lakebed.errors import LakebedError
from lakebed.graveler.cleaner import Cleaner
from lakebed.kv import open_store
from lakebed.runtime import ThreadRuntime
from lakebed.server import logs
from lakebed.server.children import end_with_parent, hide_settings
from lakebed.server.settings import ServerSettings

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be done again and again."""

    name: str
    run: Callable[[], object]
    """Makes one pass; what it returns is logged."""


def jobs_of(settings: ServerSettings) -> list[Job]:
    """Open what the jobs need, and return them."""
    runtime = ThreadRuntime()
    store = open_store(settings.database.url, runtime=runtime)
    cleaner = Cleaner(store, runtime, grace_seconds=settings.engine.grace_seconds)
    return [Job("cleaner", cleaner.run_once)]


def main(settings: ServerSettings, link: Connection) -> None:
    """Run the jobs, once every interval, until the process is told to end."""
    end_with_parent(link)
    hide_settings()
    logs.configure(settings.logging)
    # As an exception, so that a lease is given back on the way out.
    signal.signal(signal.SIGTERM, _leave)
    jobs = jobs_of(settings)
    pause = threading.Event()
    while True:
        for job in jobs:
            run(job)
        pause.wait(settings.cleaner.interval_seconds)


def run(job: Job) -> None:
    """Make one pass of a job; if it fails, the next pass goes on from there."""
    try:
        result = job.run()
    except LakebedError as error:
        _LOGGER.warning("%s: %s", job.name, error)
    except Exception:
        _LOGGER.exception("%s failed", job.name)
    else:
        _LOGGER.debug("%s: %s", job.name, result)


def _leave(*_signal: Any) -> None:
    sys.exit(0)
