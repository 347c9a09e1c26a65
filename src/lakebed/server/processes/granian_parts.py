"""The parts of Granian that are not its public interface, all in one place.

Granian does the serving and the work with signals. Its own loop gives up on a server whose worker
dies twice within seconds, and can overlook one of two deaths at the same time. The loop here looks
at all workers each time. For that it replaces `_serve_loop`, and uses the list of workers, the
events and `_respawn_workers` of the server. A test compares these with the ones this was written
for; the version of Granian is bounded in ``pyproject.toml``.
"""

import logging
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer

from lakebed.server.settings import ServerSettings

LOOK_SECONDS: Final = 1.0
"""How often the supervisor looks after its processes, should nothing wake it."""
_DEATHS_MAX: Final = 4
"""How many workers may die before the first has answered."""
_CONNECTIONS_MAX: Final = 10_000
"""Connections of a worker; one that only waits holds no thread."""
_BUFFER_BYTES_MIN: Final = 8192
"""The least that Granian takes."""

_LOGGER: Final = logging.getLogger(__name__)

# What the server logs goes where all logs go.
_LOGS: Final = {
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {"handlers": [], "propagate": True}},
}


class GranianServer(MPServer):
    """Granian, with a loop that brings every worker back, every time."""

    def __init__(
        self,
        settings: ServerSettings,
        address: str,
        *,
        look_after: Callable[[], None],
        on_death: Callable[[int], None],
        is_ready: Callable[[], bool],
    ) -> None:
        """Prepare a server.

        Args:
            settings: Checked ones.
            address: The numeric address to listen at.
            look_after: Called each time that the loop looks at its workers.
            on_death: Called with the id of a worker's process that ended.
            is_ready: Whether a worker has answered yet.
        """
        limits = settings.limits
        super().__init__(
            "lakebed",
            address=address,
            port=settings.listen.port,
            interface=Interfaces.WSGI,
            workers=settings.workers,
            blocking_threads=settings.limits.threads,
            backpressure=_CONNECTIONS_MAX,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(
                header_read_timeout=int(limits.header_seconds * 1000),
                max_buffer_size=max(limits.header_bytes_max, _BUFFER_BYTES_MIN),
            ),
            websockets=False,
            log_level=LogLevels.error,
            log_dictconfig=_LOGS,
            respawn_failed_workers=True,
            workers_kill_timeout=max(1, settings.processes.shutdown_seconds),
        )
        self._look_after = look_after
        self._on_death = on_death
        self._is_ready = is_ready
        self._deaths = 0
        self.failure: str | None = None
        """Why the server gave up."""

    @property
    def is_stopping(self) -> bool:
        """Whether the server was told to stop."""
        return bool(self.interrupt_signal)

    def stop(self, *_signal: object) -> None:
        """Tell the server to stop; also a handler of signals."""
        self.signal_handler_interrupt()  # type: ignore[no-untyped-call] # it has no types

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        while True:
            self.main_loop_interrupt.wait(LOOK_SECONDS)
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
                self._on_death(pid)
            self._deaths += len(dead)
            if not self._is_ready() and self._deaths > _DEATHS_MAX:
                self.failure = "the workers end as soon as they start; see the log for the reason"
                return
            if dead:
                self._respawn_workers(dead, spawn_target, target_loader)
