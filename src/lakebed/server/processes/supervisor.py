"""The processes of a server: a supervisor, its workers, and a background process.

The supervisor opens neither store nor storage. It opens the port, whose listening socket all
workers share, starts and restarts the workers and the background process, and reports when the
first worker answers. Workers send a heartbeat byte every second; a worker silent for
`processes.hang_seconds` is killed and replaced. SIGTERM, SIGINT or the end of the terminal stop the
server: workers accept no new connections and finish their requests, for a limited time. All
processes notice the end of the supervisor.
"""

import http.client
import logging
import multiprocessing
import os
import select
import shutil
import signal
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from lakebed.server.http import logs
from lakebed.server.http.metrics import FOLDER_VARIABLE, forget_process, register_process
from lakebed.server.processes.children import call_by_name
from lakebed.server.processes.metrics import ProcessMetrics
from lakebed.server.processes.preflight import CannotStart, check_place, open_port
from lakebed.server.settings import ServerSettings

APP_FACTORY: Final = "lakebed.server.app:create"
_BACKGROUND: Final = "lakebed.server.background:main"
_WORKER: Final = "lakebed.server.processes.worker:main"
# By name: this process does not import the engine.
_ARROW_MEMORY_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"
_ARROW_MEMORY: Final = "jemalloc"
"""Arrow's allocator. Its default, mimalloc, requests pages of 2 MiB and soon returns them; zeroing
new pages took half of the time of a commit."""
CHECK_SECONDS: Final = 1.0
"""The interval of checks; also the least time between two deaths of a process."""
_HEARTBEATS_MAX: Final = 1 << 16
_DEATHS_MAX: Final = 4
"""The number of workers that may die before the first answer."""

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
        settings: checked settings.
        factory: the function that creates the application in each worker, as ``module:function``.
        on_ready: called in another thread, with the endpoint, when the server answers.

    Raises:
        CannotStart: The port is in use, a folder is not writable, or the first worker failed.
    """
    os.umask(int(settings.processes.umask, 8))  # of all processes, and before the first file
    logs.configure_process(settings.logging)
    listener = open_port(settings.listen)
    try:
        check_place(settings)
    except BaseException:
        listener.close()
        raise
    folder = Path(tempfile.mkdtemp(prefix="lakebed-"))
    os.environ[FOLDER_VARIABLE] = str(folder)
    os.environ.setdefault(_ARROW_MEMORY_VARIABLE, _ARROW_MEMORY)
    # For all child processes; see `children`.
    multiprocessing.set_start_method("spawn", force=True)
    try:
        _Supervisor(settings, folder, factory, on_ready, listener).run()
    finally:
        listener.close()
        del os.environ[FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)


def endpoint_of(settings: ServerSettings) -> str:
    """Return the server's URL for clients on this machine."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - these are looked up
    host = settings.listen.host
    shown = everywhere.get(host, f"[{host}]" if ":" in host else host)
    return f"{settings.listen.scheme}://{shown}:{settings.listen.port}"


class _Supervisor:
    def __init__(
        self,
        settings: ServerSettings,
        folder: Path,
        factory: str,
        on_ready: Callable[[str], None],
        listener: socket.socket,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._on_ready = on_ready
        self._is_ready = threading.Event()
        self._is_stopping = False
        self._failure: str | None = None
        # The far end goes to every process: they notice when this end is closed.
        self._link, far_link = multiprocessing.Pipe()
        # Self-pipe: the signal handler only writes a byte, which ends the wait of the loop.
        self._wakes, self._wake = os.pipe()
        self._folder = folder
        self._metrics = ProcessMetrics(folder)
        counts = multiprocessing.RawArray("I", settings.workers)
        self._workers = [
            _Worker(_WORKER, settings, factory, far_link, listener, number, counts)
            for number in range(settings.workers)
        ]
        self._background = _Child("background", _BACKGROUND, settings, far_link)
        self._deaths = 0

    def run(self) -> None:
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, self._stop)
        register_process("supervisor")
        self._metrics.write()
        try:
            self._start()
            while not self._is_stopping:
                select.select([self._wakes], [], [], CHECK_SECONDS)
                if not self._is_stopping:
                    self._check_children()
        finally:
            self._is_stopping = True
            self._end()
        if self._failure:
            raise CannotStart(self._failure)

    def _stop(self, *_signal: object) -> None:
        self._is_stopping = True
        os.write(self._wake, b"x")

    @property
    def _children(self) -> "list[_Child]":
        others = [] if self._settings.one_process else [self._background]
        return [*self._workers, *others]

    def _start(self) -> None:
        if self._settings.in_memory:
            _LOGGER.warning(
                "all data is in memory: the server runs one worker without cleanup, and the data"
                " is lost when it stops"
            )
        elif self._settings.one_process:
            _LOGGER.warning(
                "the database allows one process: the server runs one worker, which also does the"
                " background work"
            )
        for child in self._children:
            child.start()
        for target in (self._listen_to_workers, self._wait_until_ready):
            threading.Thread(target=target, daemon=True).start()

    def _check_children(self) -> None:
        """Restart dead processes, kill one that hangs, and write metrics."""
        self._kill_hanging_worker()
        dead = [child for child in self._children if not child.is_alive]
        for child in dead:
            _LOGGER.warning("%s ended: restarting it", child.label)
            self._metrics.count_restart(child.role)
            forget_process(child.pid, self._folder)
        self._deaths += sum(child.role == "worker" for child in dead)
        if not self._is_ready.is_set() and self._deaths > _DEATHS_MAX:
            self._failure = "the workers exit at startup: see the log for the reason"
            self._is_stopping = True
            return
        for child in dead:
            try:
                child.start()
            except OSError as error:
                # Retried at the next check; the other processes continue.
                _LOGGER.warning("cannot start a %s: %s", child.role, error)
        self._metrics.write()
        logs.bound_file(self._settings.logging)

    def _kill_hanging_worker(self) -> None:
        """Kill a worker silent for too long; the next one only after this one is replaced.

        Silence is counted in checks, not by a clock: time in which this process, or the whole
        machine, was suspended must not count.
        """
        for worker in self._workers:
            worker.listen()
        checks_max = ceil(self._settings.processes.hang_seconds / CHECK_SECONDS)
        if not checks_max or self._settings.in_memory:  # all data would be lost with the worker
            return
        if any(
            worker.is_starting and worker.silent_checks < checks_max for worker in self._workers
        ):
            return
        for worker in self._workers:
            if worker.is_alive and not worker.is_starting and worker.silent_checks >= checks_max:
                _LOGGER.error(
                    "%s has not served for %d seconds: killing and replacing it",
                    worker.label,
                    worker.silent_checks * CHECK_SECONDS,
                )
                worker.kill()
                return

    def _end(self) -> None:
        """Tell all processes to end, and kill those still alive after the timeout."""
        self._listener.close()
        for child in self._children:
            child.terminate()
        until = time.monotonic() + max(1, self._settings.processes.shutdown_seconds)
        for child in self._workers:
            child.wait(until)
        self._background.wait(time.monotonic() + _PATIENCE_SECONDS)

    def _listen_to_workers(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                pid, message = self._link.recv()
                _LOGGER.error("worker %d could not start: %s", pid, message)
                if not self._is_ready.is_set():
                    self._failure = message
                    self._stop()

    def _wait_until_ready(self) -> None:
        endpoint = endpoint_of(self._settings)
        while not self._is_stopping:
            if _answers(endpoint):
                self._is_ready.set()
                self._on_ready(endpoint)
                return
            time.sleep(0.05)


class _Child:
    """A child process, as seen by the supervisor."""

    def __init__(self, role: str, function: str, *arguments: object) -> None:
        self.role = role
        self._arguments = (function, *arguments)
        self._process: BaseProcess | None = None

    def start(self) -> None:
        self._spawn()

    def _spawn(self, *arguments: object) -> None:
        process = multiprocessing.Process(
            target=call_by_name,
            args=(*self._arguments, *arguments),
            name=f"lakebed-{self.role}",
        )
        process.start()
        self._process = process

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        assert self._process.pid is not None, "not started"
        return self._process.pid

    @property
    def label(self) -> str:
        return f"worker {self.pid}" if self.role == "worker" else f"the {self.role} process"

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self, until: float) -> None:
        """Wait for its end; kill it at the deadline."""
        if self._process is None:
            return
        self._process.join(max(0.0, until - time.monotonic()))
        if self._process.is_alive():
            self.kill()

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        assert self._process is not None, "not started"
        self._process.kill()
        self._process.join()


class _Worker(_Child):
    """A worker process, with heartbeats."""

    def __init__(self, function: str, *arguments: object) -> None:
        super().__init__("worker", function, *arguments)
        self._heartbeats: Connection | None = None
        self.is_starting = True
        """Whether no heartbeat has arrived yet."""
        self.silent_checks = 0
        """The number of checks since the last heartbeat."""

    def start(self) -> None:
        heartbeats, far_heartbeats = multiprocessing.Pipe(duplex=False)
        with far_heartbeats:  # only the worker keeps it
            self._spawn(far_heartbeats)
        os.set_blocking(heartbeats.fileno(), False)
        if self._heartbeats is not None:
            self._heartbeats.close()
        self._heartbeats, self.is_starting, self.silent_checks = heartbeats, True, 0

    def listen(self) -> None:
        """Read the heartbeats that have arrived."""
        self.silent_checks += 1
        if self._heartbeats is not None:
            with suppress(BlockingIOError):
                if os.read(self._heartbeats.fileno(), _HEARTBEATS_MAX):
                    self.is_starting, self.silent_checks = False, 0


def _answers(endpoint: str) -> bool:
    scheme, _, place = endpoint.partition("://")
    connection = http.client.HTTPConnection(place, timeout=2)
    if scheme == "https":
        # The certificate's name does not matter: this connects to our own process.
        trusting = ssl._create_unverified_context()  # noqa: S323, SLF001 - see above
        connection = http.client.HTTPSConnection(place, timeout=2, context=trusting)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status < http.client.BAD_REQUEST
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
