"""The process beside the workers: it removes what nothing names any more, runs imports and hooks.

One process and not a thread of each worker: the work is the same whoever does it, and a long pass
must not slow requests down. It keeps what it has seen in memory and runs for as long as the server.
Imports, and hooks that come after operations, have threads of their own here, so that they begin at
once; so has garbage collection, since a run may take long. Where no second process can open the
database, the worker does all this in threads.

- ``lakebed_background_runs_total``: passes by task and outcome (``success``, ``failure``).
- ``lakebed_background_last_success_timestamp_seconds``: when a pass last ended well, by task.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Final, NoReturn

from prometheus_client import Counter, Gauge

from lakebed.base.errors import LakebedError
from lakebed.block import BlockError
from lakebed.reclaim.cleaner import Cleaner
from lakebed.reclaim.expired_records import clean_expired
from lakebed.reclaim.schedule import RunSchedule, measure_age
from lakebed.server.app import begin_tracing, open_services
from lakebed.server.http import logs
from lakebed.server.http.metrics import mark_process
from lakebed.server.processes.children import end_with_parent, hide_settings
from lakebed.server.processes.preflight import probe_storage
from lakebed.server.services import Services
from lakebed.server.settings import ServerSettings

_LOGGER: Final = logging.getLogger(__name__)
_IMPORTS_AT_ONCE: Final = 2
_HOOKS_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 1.0
"""Between two looks whether there is something to do; each is one small scan."""
_RECLAIM_LOOK_SECONDS: Final = 15.0
_LOOK_SECONDS_AFTER_FAILURE: Final = 15.0
_RUNS: Final = Counter(
    "lakebed_background_runs", "Passes of background tasks, by outcome", ["task", "outcome"]
)
_LAST_SUCCESS: Final = Gauge(
    "lakebed_background_last_success_timestamp_seconds",
    "When a pass of a background task last ended well",
    ["task"],
    multiprocess_mode="mostrecent",
)


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """A task that runs at intervals."""

    name: str
    run: Callable[[], object]
    """Run one pass and return its result, which is logged."""


def jobs_of(services: Services) -> list[BackgroundJob]:
    """Return what is done once every interval."""
    runtime, grace_seconds = services.runtime, services.settings.engine.grace_seconds
    cleaner = Cleaner(services.foundation.store, runtime, grace_seconds=grace_seconds)
    return [
        BackgroundJob("cleaner", cleaner.run_once),
        BackgroundJob("logouts", services.auth.clean_logouts),
        BackgroundJob("expired", lambda: clean_expired(services.catalog, runtime)),
        BackgroundJob("runs", lambda: clean_runs(services)),
        BackgroundJob("purges", services.reclaim.repository_purges.run_due),
        BackgroundJob("gc_age", lambda: measure_age(services.reclaim, services.foundation.engine)),
    ]


def clean_runs(services: Services) -> int:
    """Remove the runs of hooks that were kept for long enough; return how many."""
    repositories = services.catalog.repositories.list_readable()
    return sum(services.actions.clean(repository) for repository in repositories)


def schedule_of(services: Services) -> RunSchedule:
    """Return the runs of garbage collection of this process."""
    settings = services.settings
    return RunSchedule(
        services.reclaim,
        services.foundation.engine,
        services.runtime,
        settings.blockstore.block,
        settings.gc,
        interval_seconds=settings.reclaim.interval_seconds,
        cause_of=logs.cause_of,
    )


def check_storage(services: Services) -> None:
    """Log an error if the storage cannot be reached, or refuses, with these settings."""
    repositories = services.catalog.repositories.list_readable()
    try:
        probe_storage(
            services.foundation.block,
            services.settings,
            lambda: next((each.namespace for each in repositories), None),
        )
    except BlockError as error:
        _LOGGER.error("the storage cannot be used: %s", error)  # noqa: TRY400 - settings are wrong


def main(settings: ServerSettings, link: Connection) -> None:
    """Run the jobs, once every interval, until the process is told to end."""
    end_with_parent(link)
    hide_settings()
    logs.configure_process(settings.logging)
    mark_process("background")
    begin_tracing(settings.tracing)
    # As an exception, so that a lease is given back on the way out.
    signal.signal(signal.SIGTERM, _leave)
    pause = threading.Event()
    services: Services | None = None
    while services is None:
        services = _open(settings)
        if services is None:
            pause.wait(settings.cleaner.interval_seconds)
    keep_up(services)


def keep_up(services: Services) -> NoReturn:
    """Run the jobs, once every interval, and what waits to be run, as it comes."""
    settings = services.settings
    waiting: dict[str, tuple[int, Callable[[], object], float]] = {
        "imports": (_IMPORTS_AT_ONCE, services.catalog.import_runner.run_waiting, _LOOK_SECONDS),
        "hooks": (_HOOKS_AT_ONCE, services.actions.post.run_waiting, _LOOK_SECONDS),
    }
    if settings.reclaim.enabled:
        look_seconds = min(_RECLAIM_LOOK_SECONDS, settings.reclaim.interval_seconds)
        job = BackgroundJob("reclaim", schedule_of(services).run_once)
        waiting["reclaim"] = (1, partial(run, job), look_seconds)
    for name, (count, run_waiting, look_seconds) in waiting.items():
        for _ in range(count):
            arguments = (name, run_waiting, look_seconds)
            threading.Thread(target=_keep_running, args=arguments, daemon=True, name=name).start()
    run(BackgroundJob("storage", partial(check_storage, services)))
    run(BackgroundJob("backups", services.reclaim.backups.catch_up_all))
    jobs, pause = jobs_of(services), threading.Event()
    while True:
        for job in jobs:
            run(job)
        pause.wait(settings.cleaner.interval_seconds)


def _keep_running(name: str, run_waiting: Callable[[], object], look_seconds: float) -> None:
    """Run what waits, as it comes. Should the process end, the next one takes it up.

    This is not a job: one import, or one hook, may take longer than any pass of a job should.
    """
    pause = threading.Event()
    while True:
        seconds = _LOOK_SECONDS_AFTER_FAILURE
        try:
            run_waiting()
        except LakebedError as error:
            _LOGGER.warning("cannot run %s: %s: %s", name, error.kind, logs.cause_of(error))
        except Exception:
            _LOGGER.exception("cannot run %s", name)
        else:
            seconds = look_seconds
        pause.wait(seconds)


def _open(settings: ServerSettings) -> Services | None:
    try:
        return open_services(settings)
    except LakebedError as error:
        # The database may be away for a while; the workers wait for it too.
        _LOGGER.warning("cannot clean up: %s: %s", error.kind, logs.cause_of(error))
        return None


def run(job: BackgroundJob) -> None:
    """Make one pass of a job; if it fails, the next pass goes on from there."""
    outcome = "failure"
    try:
        result = job.run()
    except LakebedError as error:
        _LOGGER.warning("%s failed: %s: %s", job.name, error.kind, logs.cause_of(error))
    except Exception:
        _LOGGER.exception("%s failed", job.name)
    else:
        outcome = "success"
        _LAST_SUCCESS.labels(job.name).set_to_current_time()
        _LOGGER.debug("%s: %s", job.name, result)
    _RUNS.labels(job.name, outcome).inc()


def _leave(*_signal: object) -> None:
    sys.exit(0)
