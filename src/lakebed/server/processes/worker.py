"""A worker, on its side: how the application comes to be in a process of the server."""

import gc
import logging
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NoReturn
from wsgiref.types import WSGIApplication

from lakebed.errors import LakebedError
from lakebed.processors import processor_of
from lakebed.server.connections.dealing import Dealer
from lakebed.server.connections.server import ConnectionServer
from lakebed.server.http import logs
from lakebed.server.http.metrics import mark_process
from lakebed.server.processes.children import (
    allow_many_connections,
    end_with_parent,
    hide_settings,
    load_by_name,
)
from lakebed.server.processes.preflight import CannotStart, address_of, port_message
from lakebed.server.settings import ServerSettings

_LOGGER: Final = logging.getLogger(__name__)
_FAILED_PAUSE_SECONDS: Final = 1.0


def main(
    settings: ServerSettings, factory: str, link: Connection, folder: Path, number: int
) -> None:
    """Make the application and serve it, until the process is told to end.

    Args:
        settings: Checked ones.
        factory: The function that makes the application from settings: ``package.module:function``.
            A method `close` of the application is called at the end.
        link: To the supervisor: to say what went wrong, and to notice its end.
        folder: That of the server's processes.
        number: Which of the workers this is, from 0 on.
    """
    end_with_parent(link)
    hide_settings()
    files_max = allow_many_connections()
    logs.configure_process(settings.logging)
    mark_process("worker")
    try:
        app = load_by_name(factory)(settings)
        dealer = _dealer(settings, folder, number)
        processor = processor_of(number, settings.workers)
        server = _open(settings, app, files_max, dealer, processor)
    except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor wants to know
        _give_up(error, link)
    # What is there by now stays. The garbage collector, which holds up all requests while it works,
    # need not look at it.
    gc.freeze()
    signal.signal(signal.SIGTERM, server.stop)
    server.run()
    close = getattr(app, "close", None)
    if close is not None:
        close()


def _dealer(settings: ServerSettings, folder: Path, number: int) -> Dealer | None:
    if settings.workers == 1:
        return None
    try:
        return Dealer(folder, number, settings.workers)
    except OSError as error:
        _LOGGER.warning("this worker gets no connections from others, and gives none: %s", error)
        return None


def _open(
    settings: ServerSettings,
    app: WSGIApplication,
    files_max: int,
    dealer: Dealer | None,
    processor: int | None,
) -> ConnectionServer:
    listen = settings.listen
    address = address_of(listen.host)
    try:
        return ConnectionServer(
            app, settings, address, files_max=files_max, dealer=dealer, processor=processor
        )
    except OSError as error:
        raise CannotStart(port_message(listen.host, listen.port, error)) from error


def _give_up(error: Exception, link: Connection) -> NoReturn:
    if isinstance(error, LakebedError):
        message = str(error)
    else:
        _LOGGER.error("a worker could not start", exc_info=error)
        message = f"{type(error).__name__}: {error}"
    link.send((os.getpid(), message))
    # The supervisor starts another: not as fast as it can.
    time.sleep(_FAILED_PAUSE_SECONDS)
    sys.exit(1)
