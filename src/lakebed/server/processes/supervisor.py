"""The processes of a server: a supervisor, its workers, and one in the background.

The supervisor opens neither store nor storage. It makes sure that the port is free, starts the
workers and the background process, starts them again when they die, and says when the first worker
answers. SIGTERM, SIGINT or the end of its terminal make it stop: workers take no new connections
and finish their requests, for a while. All processes notice when the supervisor is gone.

Granian does the serving and the work with signals. Its own loop gives up on a server whose worker
dies twice within seconds, and can overlook one of two deaths at the same time; the loop here looks
at all workers each time.
"""

import http.client
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer

from lakebed.server.http import logs
from lakebed.server.http.metrics import FOLDER_VARIABLE, forget_process
from lakebed.server.processes.children import call_by_name
from lakebed.server.processes.preflight import CannotStart, check_place
from lakebed.server.processes.worker import Worker
from lakebed.server.settings import ServerSettings

APP_FACTORY: Final = "lakebed.server.app:create"
_BACKGROUND: Final = "lakebed.server.processes.background:main"
# Both by name: the engine is not imported in this process.

_LOGGER: Final = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 1.0
"""How often the supervisor looks after its processes, should nothing wake it."""
_PATIENCE_SECONDS: Final = 5.0
_DEATHS_MAX: Final = 4
"""How many workers may die before the first has answered."""
_CONNECTIONS_MAX: Final = 10_000
"""Connections of a worker; one that only waits holds no thread."""

# What the server logs goes where all logs go.
_GRANIAN_LOGS: Final = {
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {"handlers": [], "propagate": True}},
}


def serve(
    settings: ServerSettings,
    *,
    factory: str = APP_FACTORY,
    on_ready: Callable[[str], None] = lambda _endpoint: None,
) -> None:
    """Run a server until it is told to stop; must be called in the main thread.

    Args:
        settings: Checked ones.
        factory: The function that makes the application in each worker, as ``module:function``.
        on_ready: Called with the endpoint when the server answers; in another thread.

    Raises:
        CannotStart: The port is taken, a folder cannot be written, or the first worker failed.
    """
    logs.configure(settings.logging)
    address = check_place(settings)
    folder = Path(tempfile.mkdtemp(prefix="lakebed-"))
    os.environ[FOLDER_VARIABLE] = str(folder)
    # For all processes of this one; see `children`.
    multiprocessing.set_start_method("spawn", force=True)
    try:
        _Supervisor(settings, address, folder, factory, on_ready).run()
    finally:
        del os.environ[FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)


def endpoint_of(settings: ServerSettings) -> str:
    """Return the URL that a client on this machine reaches the server by."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - these are looked up
    host = settings.listen.host
    shown = everywhere.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{settings.listen.port}"


class _Supervisor:
    def __init__(
        self,
        settings: ServerSettings,
        address: str,
        folder: Path,
        factory: str,
        on_ready: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._is_ready = threading.Event()
        self._failure: str | None = None
        # Its far end goes to every process: they notice when this end is closed.
        self._link, self._far_link = multiprocessing.Pipe()
        self._background = _Background(settings, self._far_link)
        self._worker = Worker(settings, factory, self._far_link)
        self._server = _Server(
            settings,
            address,
            look_after=self._background.keep,
            is_ready=self._is_ready.is_set,
            folder=folder,
        )
        logs.configure(settings.logging)  # again: the server has set them up for itself

    def run(self) -> None:
        server = self._server
        server.on_startup(self._begin)
        server.on_shutdown(self._background.stop)
        server.serve(target_loader=self._worker, wrap_loader=False)
        if failure := self._failure or server.failure:
            raise CannotStart(failure)

    def _begin(self) -> None:
        # A terminal that closes ends what runs in it. (Granian would start its workers anew.)
        signal.signal(signal.SIGHUP, self._server.signal_handler_interrupt)
        if self._settings.in_memory:
            _LOGGER.warning(
                "data is kept in memory: there is one worker, nothing is cleaned up, and all is"
                " gone when the server stops"
            )
        else:
            self._background.start()
        for target in (self._listen_to_workers, self._wait_until_ready):
            threading.Thread(target=target, daemon=True).start()

    def _listen_to_workers(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                pid, message = self._link.recv()
                _LOGGER.error("worker %d could not start: %s", pid, message)
                if not self._is_ready.is_set():
                    self._failure = message
                    self._server.signal_handler_interrupt()  # type: ignore[no-untyped-call] # no types

    def _wait_until_ready(self) -> None:
        endpoint = endpoint_of(self._settings)
        while not self._server.interrupt_signal:
            if _answers(endpoint):
                self._is_ready.set()
                self._on_ready(endpoint)
                return
            time.sleep(0.05)


class _Server(MPServer):
    """Granian, with a loop that brings every worker back, every time."""

    def __init__(
        self,
        settings: ServerSettings,
        address: str,
        *,
        look_after: Callable[[], None],
        is_ready: Callable[[], bool],
        folder: Path,
    ) -> None:
        limits = settings.limits
        super().__init__(
            "lakebed",
            address=address,
            port=settings.listen.port,
            interface=Interfaces.WSGI,
            workers=settings.workers,
            blocking_threads=settings.processes.threads,
            backpressure=_CONNECTIONS_MAX,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(
                header_read_timeout=int(limits.header_seconds * 1000),
                max_buffer_size=max(limits.header_bytes_max, 8192),
            ),
            websockets=False,
            log_level=LogLevels.error,
            log_dictconfig=_GRANIAN_LOGS,
            respawn_failed_workers=True,
            workers_kill_timeout=max(1, settings.processes.shutdown_seconds),
        )
        self._look_after = look_after
        self._is_ready = is_ready
        self._folder = folder
        self._deaths = 0
        self.failure: str | None = None

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        while True:
            self.main_loop_interrupt.wait(_LOOK_SECONDS)
            self.main_loop_interrupt.clear()
            self.interrupt_children.clear()
            if self.interrupt_signal:
                return
            self._look_after()
            processes: list[BaseProcess] = [worker.inner for worker in self.wrks]
            dead = [index for index, process in enumerate(processes) if not process.is_alive()]
            for pid in (processes[index].pid for index in dead):
                assert pid is not None
                _LOGGER.warning("worker %d ended; it is started again", pid)
                forget_process(pid, self._folder)
            self._deaths += len(dead)
            if not self._is_ready() and self._deaths > _DEATHS_MAX:
                self.failure = "the workers end as soon as they start; the log may tell why"
                return
            if dead:
                self._respawn_workers(dead, spawn_target, target_loader)


class _Background:
    """The background process, as the supervisor sees it."""

    def __init__(self, settings: ServerSettings, link: Connection) -> None:
        self._arguments = (settings, link)
        self._process: BaseProcess | None = None

    def start(self) -> None:
        self._process = multiprocessing.Process(
            target=call_by_name, args=(_BACKGROUND, *self._arguments), name="lakebed-background"
        )
        self._process.start()

    def keep(self) -> None:
        """Start it again if it died."""
        if self._process is not None and not self._process.is_alive():
            _LOGGER.warning("the background process ended; it is started again")
            self.start()

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(_PATIENCE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _answers(endpoint: str) -> bool:
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=2)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status < http.client.BAD_REQUEST
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
