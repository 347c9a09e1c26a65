"""The background process: internal cleanup, imports, hooks, garbage collection.

One process, not a thread of each worker: the work is global, and a long run must not slow requests
down. Imports, hooks after operations and garbage collection have their own threads, so that they
start at once and may take long. If the database allows no second process, the worker runs all of
these threads.

- ``lakebed_background_runs_total``: runs by task and outcome (``success``, ``failure``).
- ``lakebed_background_last_success_timestamp_seconds``: end of the last successful run, by task.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Final, NoReturn

from prometheus_client import Counter, Gauge

from lakebed.base.errors import LakebedError
from lakebed.block import BlockError
from lakebed.reclaim.cleaner import Cleaner
from lakebed.reclaim.schedule import RunSchedule, export_last_good
from lakebed.server.app import begin_tracing, open_services
from lakebed.server.http import logs
from lakebed.server.http.metrics import register_process
from lakebed.server.processes.children import end_with_parent, hide_settings
from lakebed.server.processes.preflight import probe_storage
from lakebed.server.services import Services
from lakebed.server.settings import ServerSettings

_LOGGER: Final = logging.getLogger(__name__)
_IMPORTS_AT_ONCE: Final = 2
_HOOKS_AT_ONCE: Final = 8
_POLL_SECONDS: Final = 1.0
"""The polling interval for new work; a poll is one small scan."""
_RECLAIM_POLL_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 15.0
_RUNS: Final = Counter(
    "lakebed_background_runs", "Runs of background tasks, by outcome", ["task", "outcome"]
)
_LAST_SUCCESS: Final = Gauge(
    "lakebed_background_last_success_timestamp_seconds",
    "End of the last successful run of a background task",
    ["task"],
    multiprocess_mode="mostrecent",
)


Job = Callable[[], object]
"""Performs one run of a task and returns its result, which is logged."""


def jobs_of(services: Services) -> dict[str, Job]:
    """Return the periodic tasks by name."""
    runtime, grace_seconds = services.runtime, services.settings.engine.grace_seconds
    cleaner = Cleaner(services.foundation.store, runtime, grace_seconds=grace_seconds)
    return {
        "cleaner": cleaner.run_once,
        "logouts": services.auth.clean_logouts,
        "expired": services.reclaim.expired.run_once,
        "runs": lambda: clean_runs(services),
        "purges": services.reclaim.repository_purges.run_due,
        "gc_age": lambda: export_last_good(services.reclaim, services.foundation.engine),
    }


def clean_runs(services: Services) -> int:
    """Delete hook runs past their retention; return their number."""
    repositories = services.catalog.repositories.list_readable()
    return sum(services.actions.clean(repository) for repository in repositories)


def schedule_of(services: Services) -> RunSchedule:
    """Return the garbage collection runs of this process."""
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
    """Log an error if the storage is unreachable or denies access with these settings."""
    repositories = services.catalog.repositories.list_readable()
    try:
        probe_storage(
            services.foundation.block,
            services.settings,
            lambda: next((each.namespace for each in repositories), None),
        )
    except BlockError as error:
        _LOGGER.error("cannot use the storage: %s", error)  # noqa: TRY400 - settings are wrong


def main(settings: ServerSettings, link: Connection) -> None:
    """Run the background work until the process is told to end."""
    end_with_parent(link)
    hide_settings()
    logs.configure_process(settings.logging)
    register_process("background")
    begin_tracing(settings.tracing)
    # As an exception, so that leases are released on the way out.
    signal.signal(signal.SIGTERM, _leave)
    pause = threading.Event()
    services: Services | None = None
    while services is None:
        services = _open(settings)
        if services is None:
            pause.wait(settings.cleaner.interval_seconds)
    run_background(services)


def run_background(services: Services) -> NoReturn:
    """Run the periodic tasks, and imports, hooks and garbage collection as they arise."""
    settings = services.settings
    waiting: dict[str, tuple[int, Job, float]] = {
        "imports": (_IMPORTS_AT_ONCE, services.catalog.import_runner.run_waiting, _POLL_SECONDS),
        "hooks": (_HOOKS_AT_ONCE, services.actions.post.run_waiting, _POLL_SECONDS),
    }
    if settings.reclaim.enabled:
        poll_seconds = min(_RECLAIM_POLL_SECONDS, settings.reclaim.interval_seconds)
        waiting["reclaim"] = (
            1,
            partial(run, "reclaim", schedule_of(services).run_once),
            poll_seconds,
        )
    for name, (count, run_waiting, poll_seconds) in waiting.items():
        for _ in range(count):
            arguments = (name, run_waiting, poll_seconds)
            threading.Thread(target=_keep_running, args=arguments, daemon=True, name=name).start()
    run("storage", partial(check_storage, services))
    run("backups", services.reclaim.backups.catch_up_all)
    jobs, pause = jobs_of(services), threading.Event()
    while True:
        for name, job in jobs.items():
            run(name, job)
        pause.wait(settings.cleaner.interval_seconds)


def _keep_running(name: str, run_waiting: Job, poll_seconds: float) -> None:
    """Poll for waiting work and run it. If the process ends, the next one resumes it.

    Not a periodic task: one import, or one hook, may take longer than a run of a job should.
    """
    pause = threading.Event()
    while True:
        seconds = _RETRY_SECONDS
        try:
            run_waiting()
        except LakebedError as error:
            _LOGGER.warning("cannot run %s: %s: %s", name, error.kind, logs.cause_of(error))
        except Exception:
            _LOGGER.exception("cannot run %s", name)
        else:
            seconds = poll_seconds
        pause.wait(seconds)


def _open(settings: ServerSettings) -> Services | None:
    try:
        return open_services(settings)
    except LakebedError as error:
        # The database may be temporarily unavailable; the workers wait for it too.
        _LOGGER.warning(
            "cannot open the database or the storage; retrying: %s: %s",
            error.kind,
            logs.cause_of(error),
        )
        return None


def run(name: str, job: Job) -> None:
    """Run a task once; if it fails, its next run continues."""
    outcome = "failure"
    try:
        result = job()
    except LakebedError as error:
        _LOGGER.warning("%s failed: %s: %s", name, error.kind, logs.cause_of(error))
    except Exception:
        _LOGGER.exception("%s failed", name)
    else:
        outcome = "success"
        _LAST_SUCCESS.labels(name).set_to_current_time()
        _LOGGER.debug("%s: %s", name, result)
    _RUNS.labels(name, outcome).inc()


def _leave(*_signal: object) -> None:
    sys.exit(0)
