"""What the processes of a server have in common, on their side.

They are spawned, not forked: nothing of the supervisor is copied, neither locks nor connections,
and metrics are set up when their library is imported. The settings arrive by a pipe, so they are
in no list of processes and in no file.
"""

import os
import resource
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from lakebed.server.config_files import ENVIRONMENT_PREFIX

_PATIENCE_SECONDS: Final = 30.0
_LISTENER_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.05


def load_by_name(name: str) -> Callable[..., Any]:
    """Import a function, given as ``package.module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def call_by_name(name: str, *arguments: object) -> None:
    """Import a function and call it: what a process begins with."""
    load_by_name(name)(*arguments)


def end_with_parent(link: Connection) -> None:
    """Have this process end when the one that started it does, however that ended.

    It also leaves the group of the terminal: Ctrl-C is for the supervisor, which tells the others.
    """
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(link,), name="lakebed-parent", daemon=True).start()


def _watch(link: Connection) -> None:
    # The supervisor sends nothing: there is something to read when its end of the pipe is closed.
    with suppress(EOFError, OSError):
        link.recv()
    os.kill(os.getpid(), signal.SIGTERM)  # requests under way are finished
    time.sleep(_PATIENCE_SECONDS)
    os._exit(1)


def hide_settings() -> None:
    """Take settings out of the environment: the server shows it to every request."""
    for name in list(os.environ):
        if name.startswith(ENVIRONMENT_PREFIX):
            del os.environ[name]


def allow_many_connections() -> int:
    """Raise the number of files that this process may open as far as it goes; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses what it calls infinite
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def drop_dead_clients(port: int, stall_seconds: float) -> None:
    """Have connections closed whose clients take nothing, or are no longer there.

    A thread that sends to such a client would wait for ever. The system can end that, if the
    listening socket says so: connections take it over. The server opens that socket itself and
    later, so it is looked for among the files of this process.
    """
    threading.Thread(
        target=_tune_listener, args=(port, stall_seconds), name="lakebed-listener", daemon=True
    ).start()


def _tune_listener(port: int, stall_seconds: float) -> None:
    until = time.monotonic() + _LISTENER_SECONDS
    while time.monotonic() < until:
        for path in Path("/dev/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if _set_if_listener(int(path.name), port, stall_seconds):
                    return
        time.sleep(_PAUSE_SECONDS)


def _set_if_listener(handle: int, port: int, stall_seconds: float) -> bool:
    if not stat.S_ISSOCK(os.fstat(handle).st_mode):
        return False
    with socket.socket(fileno=os.dup(handle)) as candidate:
        listens = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if not listens or candidate.getsockname()[1] != port:
            return False
        _set_timeouts(candidate, stall_seconds)
        return True


def _set_timeouts(listener: socket.socket, stall_seconds: float) -> None:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    tcp, seconds = socket.IPPROTO_TCP, max(1, int(stall_seconds))
    for name, value in (
        ("TCP_KEEPIDLE", seconds),
        ("TCP_KEEPINTVL", max(1, seconds // 4)),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", seconds * 1000),
    ):
        if hasattr(socket, name):
            listener.setsockopt(tcp, getattr(socket, name), value)
