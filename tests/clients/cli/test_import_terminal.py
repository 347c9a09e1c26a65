"""Ctrl-C while an import goes on, pressed on a terminal of its own.

The server is a script, so that the import goes on until the test has it end.
"""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.clients.cli.kit import bare_environ

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

# A terminal sends signals to the programs of the session that it belongs to.
PROGRAM = """\
import fcntl, runpy, termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("lakebed", run_name="__main__", alter_sys=True)
"""

COMMIT = {
    "id": "c" * 64,
    "parents": [],
    "committer": "",
    "message": "",
    "creation_date": 0,
    "meta_range_id": "",
}


class ImportServer(ThreadingHTTPServer):
    """Answers for one import."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.error: str | None = None
        self.completed = False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def status(self) -> dict[str, object]:
        status: dict[str, object] = {
            "completed": self.completed,
            "update_time": "2026-01-01T00:00:00Z",
            "ingested_objects": 12345,
            "skipped_objects": 0,
            "skipped": [],
            "current_prefix": "s3://b/lake/day=07/",
        }
        if self.completed:
            status["commit"] = COMMIT
        if self.error:
            status["error"] = {"message": self.error}
        return status


class Answers(BaseHTTPRequestHandler):
    server: ImportServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(202, {"id": "the-import"})

    def do_GET(self) -> None:
        self._answer(200, self.server.status)

    def do_DELETE(self) -> None:
        self.server.error = "Canceled"
        self._answer(204, None)

    def log_message(self, *_args: object) -> None:
        pass

    def _answer(self, status: int, body: object) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server() -> Iterator[ImportServer]:
    with ImportServer() as started:
        thread = Thread(target=started.serve_forever)
        thread.start()
        yield started
        started.shutdown()
        thread.join()


class Terminal:
    """A terminal that a program runs on."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self.shown = ""

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def see(self, text: str) -> None:
        """Wait until something is shown, behind what was seen before; a test has a time-out."""
        self.seen_up_to(text)

    def seen_up_to(self, text: str) -> str:
        """Return what is shown before a text."""
        while text not in self.shown:
            self.shown += os.read(self._master, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def end(self) -> int:
        """What the program ends with."""
        try:
            while chunk := os.read(self._master, 65536):
                self.shown += chunk.decode(errors="replace")
        except OSError:
            pass  # a terminal ends with an error
        return self.process.wait()


@pytest.fixture
def terminal(server: ImportServer, tmp_path: Path) -> Iterator[Terminal]:
    with importing(server, tmp_path) as opened:
        yield opened


@contextmanager
def importing(server: ImportServer, home: Path) -> Iterator[Terminal]:
    """Run an import on a terminal of 100 columns, which sends SIGINT for Ctrl-C."""
    master, slave = pty.openpty()
    arguments = ["import", "--from", "s3://b/lake/", "--to", "lakefs://r/main/lake/"]
    environ = {"LAKEBED_ENDPOINT": server.endpoint, "COLUMNS": "100", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=bare_environ(home) | environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    ) as process:
        os.close(slave)
        try:
            yield Terminal(process, master)
        finally:
            process.kill()
            os.close(master)


def test_progress_and_a_cancel(terminal: Terminal, server: ImportServer) -> None:
    terminal.see("s3://b/lake/day=07/: 12,345 objects, ")
    terminal.press(b"\x03")
    terminal.see("Cancel the import? [y/N]")
    time.sleep(0.5)  # a line that goes on changing would be drawn over the question by now
    terminal.press(b"y\n")
    assert "objects" not in terminal.seen_up_to("y\r\n")
    assert terminal.end() == 1
    assert "import the-import failed: Canceled" in terminal.shown
    assert server.error == "Canceled"


def test_going_on(terminal: Terminal, server: ImportServer) -> None:
    terminal.see("12,345 objects")
    terminal.press(b"\x03")
    terminal.see("Cancel the import? [y/N]")
    terminal.press(b"n\n")
    terminal.see("Keep waiting for it? [Y/n]")
    terminal.press(b"\n")
    terminal.see("12,345 objects")
    server.completed = True
    assert terminal.end() == 0
    assert f"Imported 12345 object(s) from s3://b/lake/ in commit {COMMIT['id']}" in terminal.shown
    assert server.error is None


def test_leaving_it_to_the_server(terminal: Terminal, server: ImportServer) -> None:
    terminal.see("12,345 objects")
    terminal.press(b"\x03")
    terminal.see("Cancel the import? [y/N]")
    terminal.press(b"\x04")  # the end of the input
    assert terminal.end() == 130
    assert "import the-import continues on the server" in terminal.shown
    assert server.error is None
