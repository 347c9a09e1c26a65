"""The processes of a server: a supervisor, its workers, and one in the background.

The supervisor opens neither store nor storage. It makes sure that the port is free, starts the
workers and the background process, starts them again when they die, and reports when the first
worker answers. SIGTERM, SIGINT or the end of its terminal make it stop: workers take no new
connections and finish their requests, for a while. All processes notice when the supervisor is
gone.

Granian does the serving and the work with signals; what we change of it is in `granian_parts`.
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
from typing import Final

from lakebed.server.http import logs
from lakebed.server.http.metrics import FOLDER_VARIABLE, forget_process, mark_process
from lakebed.server.processes.children import call_by_name
from lakebed.server.processes.granian_parts import GranianServer
from lakebed.server.processes.metrics import ProcessMetrics
from lakebed.server.processes.preflight import CannotStart, check_place, check_port
from lakebed.server.processes.worker import Worker
from lakebed.server.settings import ServerSettings

APP_FACTORY: Final = "lakebed.server.app:create"
_BACKGROUND: Final = "lakebed.server.processes.background:main"
# Both by name: the engine is not imported in this process.

_LOGGER: Final = logging.getLogger(__name__)
_PATIENCE_SECONDS: Final = 5.0


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
    logs.configure_process(settings.logging)
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
        self._has_begun = False
        self._failure: str | None = None
        # Its far end goes to every process: they notice when this end is closed.
        self._link, self._far_link = multiprocessing.Pipe()
        self._folder = folder
        self._metrics = ProcessMetrics(folder)
        self._background = _Background(
            settings, self._far_link, on_death=lambda pid: self._forget("background", pid)
        )
        self._worker = Worker(settings, factory, self._far_link)
        self._server = GranianServer(
            settings,
            address,
            look_after=self._look_after,
            on_death=lambda pid: self._forget("worker", pid),
            is_ready=self._is_ready.is_set,
        )
        logs.configure_process(settings.logging)  # again: the server has set them up for itself

    def run(self) -> None:
        server = self._server
        server.on_startup(self._begin)
        server.on_shutdown(self._background.stop)
        try:
            server.serve(target_loader=self._worker, wrap_loader=False)
        except SystemExit:
            # A worker ended while the server was stopping. Why it stopped is said below.
            if not (self._failure or server.failure):
                raise
        except Exception:
            # Before anything else, the server tries whether it can open the port.
            if not self._has_begun:
                check_port(self._settings.listen)
            raise
        if failure := self._failure or server.failure:
            raise CannotStart(failure)

    def _begin(self) -> None:
        self._has_begun = True
        # A terminal that closes ends what runs in it. (Granian would start its workers anew.)
        signal.signal(signal.SIGHUP, self._server.stop)
        mark_process("supervisor")
        self._metrics.write()
        if self._settings.in_memory:
            _LOGGER.warning(
                "data is kept in memory: there is one worker, nothing is cleaned up, and all is"
                " gone when the server stops"
            )
        else:
            self._background.start()
        for target in (self._listen_to_workers, self._wait_until_ready):
            threading.Thread(target=target, daemon=True).start()

    def _look_after(self) -> None:
        self._background.keep()
        self._metrics.write()
        logs.bound_file(self._settings.logging)

    def _forget(self, role: str, pid: int) -> None:
        self._metrics.count_restart(role)
        forget_process(pid, self._folder)

    def _listen_to_workers(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                pid, message = self._link.recv()
                _LOGGER.error("worker %d could not start: %s", pid, message)
                if not self._is_ready.is_set():
                    self._failure = message
                    self._server.stop()

    def _wait_until_ready(self) -> None:
        endpoint = endpoint_of(self._settings)
        while not self._server.is_stopping:
            if _answers(endpoint):
                self._is_ready.set()
                self._on_ready(endpoint)
                return
            time.sleep(0.05)


class _Background:
    """The background process, as the supervisor sees it."""

    def __init__(
        self, settings: ServerSettings, link: Connection, *, on_death: Callable[[int], None]
    ) -> None:
        self._arguments = (settings, link)
        self._on_death = on_death
        self._process: BaseProcess | None = None

    def start(self) -> None:
        self._process = multiprocessing.Process(
            target=call_by_name, args=(_BACKGROUND, *self._arguments), name="lakebed-background"
        )
        self._process.start()

    def keep(self) -> None:
        """Start it again if it died."""
        if self._process is not None and not self._process.is_alive():
            assert self._process.pid is not None
            _LOGGER.warning("the background process ended; it is started again")
            self._on_death(self._process.pid)
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
