"""A development server in one process: ``make serve``.

Stores everything in a folder, like ``lakebed quickstart``, and runs from the sources. The process
restarts when a source changes. Log lines of all levels, and the spans of each request as a tree
with milliseconds, go to the terminal:

    POST uploadObject 201                            3.1
      auth.identify                                  0.2
      catalog.upload                                 2.4
        block.put                                    1.1

``--profile uploadObject`` also profiles each of these requests. ``--child`` runs the server itself,
for a debugger.
"""

import argparse
import cProfile
import logging
import os
import pstats
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO
from wsgiref.types import WSGIEnvironment

import lakebed
from lakebed.base import tracing
from lakebed.httpd import WSGIServer
from lakebed.server import quickstart
from lakebed.server.app import build, open_services
from lakebed.server.background import run_background
from lakebed.server.config_files import load
from lakebed.server.http import logs
from lakebed.server.http.request import RequestRecord
from lakebed.server.processes.children import allow_many_connections
from lakebed.server.processes.preflight import open_port
from lakebed.server.processes.worker import http_limits

SOURCES: Final = Path(lakebed.__file__).parent
_POLL_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 5.0
_TIMES_COLUMN: Final = 60
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Span:
    """A traced call of a request, with its nested calls."""

    name: str
    begun: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    inside: list["Span"] = field(default_factory=list)

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield a line for this span and each nested span."""
        name = "  " * depth + self.name
        yield f"{name:{_TIMES_COLUMN}}{self.seconds * 1000:8.1f}"
        for span in self.inside:
            yield from span.lines(depth + 1)


_current: ContextVar[Span | None] = ContextVar("span", default=None)


@contextmanager
def start_span(name: str) -> Iterator[None]:
    """Record a traced call in the enclosing span, if any."""
    parent = _current.get()
    if parent is None:
        yield
        return
    span = Span(name)
    parent.inside.append(span)
    token = _current.set(span)
    try:
        yield
    finally:
        span.seconds = time.perf_counter() - span.begun
        _current.reset(token)


class Requests:
    """Prints the spans of each request, and profiles of the requests for one operation."""

    def __init__(self, profiled: str | None = None, output: TextIO = sys.stderr) -> None:
        """Print to `output`; `profiled` names the operation to profile, or None."""
        self._profiled = profiled
        self._output = output

    def begin(self, _environ: WSGIEnvironment, record: RequestRecord) -> Callable[[], None]:
        """Begin a request, to be printed when it ends."""
        root, profile = Span(record.method), cProfile.Profile()
        token = _current.set(root)

        def end() -> None:
            root.seconds = time.perf_counter() - root.begun
            root.name = f"{record.method} {record.operation or record.path} {record.status}"
            self._output.write("\n".join(root.lines()) + "\n")
            if record.operation and record.operation == self._profiled:
                pstats.Stats(profile, stream=self._output).sort_stats("tottime").print_stats(40)

        def leave() -> None:
            profile.disable()
            _current.reset(token)

        record.at_end(end)
        if self._profiled is not None:
            profile.enable()
        return leave


def run_server(folder: Path, port: int, profiled: str | None) -> None:
    """Run the server in this process, until SIGINT or SIGTERM."""
    quickstart.restrict_access(folder)
    quickstart.create_key(folder)
    flags = quickstart.flags_of(folder, "127.0.0.1", port)
    flags |= {"logging.file": None, "logging.level": "debug", "logging.format": "text"}
    settings = load(environment=dict(os.environ), flags=flags)
    logs.configure_process(settings.logging)
    listener = open_port(settings.listen)
    prepared = quickstart.prepare(settings, sample=True)
    services = open_services(settings)
    tracing.turn_on(start_span)
    server = WSGIServer(
        build(services, Requests(profiled).begin),
        listener,
        http_limits(settings, allow_many_connections()),
        server_name=settings.listen.host,
    )
    threading.Thread(
        target=run_background, args=(services,), daemon=True, name="background"
    ).start()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, server.stop)
    keys = prepared.access_key_id if prepared else "printed at the first start"
    _LOGGER.info("ready at http://127.0.0.1:%d, data in %s, access key id %s", port, folder, keys)
    server.run()
    services.close()


def newest_change() -> tuple[float, Path]:
    """Return time and path of the latest change of a source."""
    files = (path for path in SOURCES.rglob("*") if path.suffix in {".py", ".mjs", ".js", ".css"})
    return max((path.stat().st_mtime, path) for path in files)


def watch(arguments: list[str]) -> None:
    """Run the server in a child, restarted when a source changes, until Ctrl-C."""
    command = [sys.executable, "-m", "lakebed.testing.serve", "--child", *arguments]
    while True:
        seen, _ = newest_change()
        child = subprocess.Popen(command)
        try:
            while (change := newest_change())[0] == seen:
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            child.wait(_STOP_SECONDS)
            return
        sys.stderr.write(f"{change[1].relative_to(SOURCES)} changed: restarting\n")
        child.terminate()
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def main() -> None:
    """Parse the command line and run the server."""
    parser = argparse.ArgumentParser(description="Run a Lakebed development server.")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--profile", metavar="OPERATION", help="Operation to profile, for example uploadObject"
    )
    parser.add_argument(
        "--child", action="store_true", help="Run the server itself, without restarts"
    )
    given = parser.parse_args()
    if given.child:
        run_server(given.data_dir.absolute(), given.port, given.profile)
    else:
        watch(sys.argv[1:])


if __name__ == "__main__":
    main()
