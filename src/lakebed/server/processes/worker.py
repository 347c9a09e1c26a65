"""A worker, on its side: how the application comes to be in a process of the server."""

import logging
import os
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Final
from wsgiref.types import WSGIApplication

from lakebed.errors import LakebedError
from lakebed.server.http import logs
from lakebed.server.http.metrics import mark_process
from lakebed.server.http.slow_clients import Stalls
from lakebed.server.processes.children import (
    allow_many_connections,
    do_without_pandas,
    end_with_parent,
    hide_settings,
    load_by_name,
)
from lakebed.server.processes.preflight import check_port
from lakebed.server.settings import ServerSettings

_LOGGER: Final = logging.getLogger(__name__)
_FAILED_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Worker:
    """Makes the application, once, in the process that will serve it."""

    settings: ServerSettings
    factory: str
    """The function that makes the application from settings: ``package.module:function``."""
    link: Connection
    """To the supervisor: to say what went wrong, and to notice its end."""

    def __call__(self) -> WSGIApplication:
        """Return the application; a method `close` of it is called when the process ends well."""
        do_without_pandas()
        end_with_parent(self.link)
        hide_settings()
        allow_many_connections()
        logs.configure_process(self.settings.logging)
        mark_process("worker")
        Stalls(self.settings.listen.port, self.settings.limits.stall_seconds).start()
        try:
            app: WSGIApplication = load_by_name(self.factory)(self.settings)
            # The HTTP server opens the port next; if it cannot, it ends with a backtrace.
            check_port(self.settings.listen, is_shared=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor wants to know
            self._give_up(error)
        close = getattr(app, "close", None)
        if close is not None:
            Finalize(None, close, exitpriority=1)
        return app

    def _give_up(self, error: Exception) -> None:
        if isinstance(error, LakebedError):
            message = str(error)
        else:
            _LOGGER.error("a worker could not start", exc_info=error)
            message = f"{type(error).__name__}: {error}"
        self.link.send((os.getpid(), message))
        # The supervisor starts another: not as fast as it can.
        time.sleep(_FAILED_PAUSE_SECONDS)
        sys.exit(1)
