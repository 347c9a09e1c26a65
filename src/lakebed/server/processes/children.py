"""Functions shared by the child processes of a server.

Children are spawned, not forked: they inherit no locks or connections of the supervisor, and the
metrics library initializes in each. Settings arrive by a pipe, so they appear in no process list
and in no file.
"""

import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Final

from lakebed.base.without_pandas import block_pandas
from lakebed.server.config_files import ENVIRONMENT_PREFIX
from lakebed.server.http import logs
from lakebed.server.http.metrics import register_process
from lakebed.server.settings import LoggingSettings

_LOGGER: Final = logging.getLogger(__name__)
_PATIENCE_SECONDS: Final = 30.0


def load_by_name(name: str) -> Callable[..., Any]:
    """Import a function given as ``package.module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def call_by_name(name: str, *arguments: object) -> None:
    """Import a function and call it: the entry point of a child process."""
    block_pandas()
    try:
        load_by_name(name)(*arguments)
    except Exception:
        # Otherwise Python would write the traceback past the log.
        _LOGGER.critical("%s failed", name, exc_info=True)
        sys.exit(1)


def begin_builder(settings: LoggingSettings) -> None:
    """Set up a process that builds commits for a worker."""
    hide_settings()
    logs.configure_process(settings)
    register_process("builder")


def end_with_parent(link: Connection) -> None:
    """End this process when its parent ends, for whatever reason.

    Also leaves the terminal's process group: Ctrl-C is for the supervisor, which stops its
    children.
    """
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(link,), name="lakebed-parent", daemon=True).start()


def _watch(link: Connection) -> None:
    # The supervisor never sends: the pipe becomes readable when its end is closed.
    with suppress(EOFError, OSError):
        link.recv()
    os.kill(os.getpid(), signal.SIGTERM)  # finishes the requests in progress
    time.sleep(_PATIENCE_SECONDS)
    os._exit(1)


def hide_settings() -> None:
    """Remove settings from the environment, which children of this process would inherit."""
    for name in list(os.environ):
        if name.startswith(ENVIRONMENT_PREFIX):
            del os.environ[name]


def allow_many_connections() -> int:
    """Raise the limit of open files to the hard limit; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses what it calls infinite
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
