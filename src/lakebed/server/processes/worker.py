"""Entry point of a worker process: the application and its HTTP server."""

import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import MutableSequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Final, NoReturn

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import call_before_waiting
from lakebed.httpd import ClientCut, HTTPLimits, WSGIServer
from lakebed.server.http import logs, refusals
from lakebed.server.http.bodies import PATIENCE_SECONDS
from lakebed.server.http.metrics import register_process
from lakebed.server.http.refusals import Refusal
from lakebed.server.http.request import current_record
from lakebed.server.processes.children import (
    allow_many_connections,
    end_with_parent,
    hide_settings,
    load_by_name,
)
from lakebed.server.processes.preflight import tls_context
from lakebed.server.settings import ServerSettings

_LOGGER: Final = logging.getLogger(__name__)
_FAILED_PAUSE_SECONDS: Final = 1.0
_CONNECTIONS_MAX: Final = 10_000
_OTHER_FILES: Final = 200
"""Open files of a worker beside its connections."""


def main(
    settings: ServerSettings,
    factory: str,
    link: Connection,
    listener: socket.socket,
    number: int,
    counts: MutableSequence[int],
    heartbeats: Connection,
) -> None:
    """Create the application and serve it, until the process is told to end.

    Args:
        settings: checked settings.
        factory: ``package.module:function`` that creates the application; its method
            `update_metrics` is called about once a second, `close` at the end, if it has them.
        link: pipe to the supervisor: reports failures, and shows its end.
        listener: the listening socket, shared by all workers.
        number: the index of this worker.
        counts: the number of connections of each worker, in shared memory.
        heartbeats: pipe to the supervisor for heartbeats.
    """
    end_with_parent(link)
    hide_settings()
    files_max = allow_many_connections()
    logs.configure_process(settings.logging)
    register_process("worker")
    try:
        app = load_by_name(factory)(settings)
        listener.setblocking(False)  # a flag of the object as well as of the socket
        listener.set_inheritable(False)
        os.set_blocking(heartbeats.fileno(), False)
        server = WSGIServer(
            app,
            listener,
            http_limits(settings, files_max),
            tls=tls_context(settings.listen),
            server_name=settings.listen.host,
            number=number,
            counts=counts,
            heartbeat=partial(_on_heartbeat, heartbeats, app),
            report=count_cut,
            begin_thread=call_before_waiting,
        )
    except Exception as error:  # noqa: BLE001 - any failure is reported to the supervisor
        _give_up(error, link)
    # Freeze the loaded objects: scanning them in each garbage collection would pause all requests.
    gc.freeze()
    signal.signal(signal.SIGTERM, server.stop)
    server.run()
    close = getattr(app, "close", None)
    if close is not None:
        close()


def http_limits(settings: ServerSettings, files_max: int) -> HTTPLimits:
    """Return the limits of the HTTP server, given the limit of open files."""
    limits = settings.limits
    return HTTPLimits(
        threads=limits.threads,
        connections=max(1, min(_CONNECTIONS_MAX, files_max - _OTHER_FILES)),
        head_bytes=limits.header_bytes_max,
        head_seconds=limits.header_seconds,
        stall_seconds=limits.stall_seconds,
        response_bytes_per_second=limits.body_bytes_per_second,
        patience_seconds=PATIENCE_SECONDS,
        shutdown_seconds=settings.processes.shutdown_seconds,
    )


def count_cut(kind: ClientCut, reason: str, peer: str) -> None:
    """Count a client whose connection the HTTP server closed, by its forwarded address if known."""
    record = current_record()
    refusals.count(Refusal(kind), reason, client=peer if record is None else record.client)


def _on_heartbeat(heartbeats: Connection, app: object) -> None:
    """Tell the supervisor that this process works, then update the metrics of the application."""
    # A suspended supervisor reads no heartbeats; a dead one ends this process.
    with suppress(OSError):
        os.write(heartbeats.fileno(), b".")
    update_metrics = getattr(app, "update_metrics", None)
    if update_metrics is not None:
        update_metrics()


def _give_up(error: Exception, link: Connection) -> NoReturn:
    if isinstance(error, LakebedError):
        message = str(error)
    else:
        _LOGGER.error("a worker could not start", exc_info=error)
        message = f"{type(error).__name__}: {error}"
    link.send((os.getpid(), message))
    # Limit the rate of restarts.
    time.sleep(_FAILED_PAUSE_SECONDS)
    sys.exit(1)
