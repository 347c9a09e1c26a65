"""A small application for the tests of the server's shell, and the program that serves it.

It does what the real one does with a request, and little else: uploads go to a folder and are
visible under their names only when the body proved whole.
"""

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from lakebed.server.config_files import load
from lakebed.server.http import metrics
from lakebed.server.http.admission import Admission, Overloaded
from lakebed.server.http.bodies import Body, BodyError
from lakebed.server.http.errors import note_error
from lakebed.server.http.forms import form_file
from lakebed.server.http.pipeline import Pipeline, Step
from lakebed.server.http.request import current_record
from lakebed.server.processes.preflight import CannotStart
from lakebed.server.processes.supervisor import serve
from lakebed.server.settings import ServerSettings, SettingsError

DOWNLOAD_BYTES: Final = 4 << 30
PATIENCE_SECONDS: Final = 60.0


class App:
    def __init__(self, settings: ServerSettings) -> None:
        assert settings.blockstore.local is not None
        self._folder = settings.blockstore.local.root
        self._limits = settings.limits
        self._admission = Admission(settings.limits)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        status = "200 OK"
        answer: bytes | Iterator[bytes]
        try:
            answer = self._answer(environ)
        except BodyError as error:
            note_error(error, 400, error.kind)
            status, answer = "400 Bad Request", error.kind.encode()
        except Overloaded as error:
            note_error(error, 503, error.kind)
            status, answer = "503 Service Unavailable", error.kind.encode()
        if isinstance(answer, bytes):
            start(status, [("Content-Length", str(len(answer)))])
            return [answer]
        start(status, [("Content-Length", str(DOWNLOAD_BYTES))])
        return answer

    def _answer(  # noqa: C901, PLR0911, PLR0912 - one for each path
        self, environ: WSGIEnvironment
    ) -> bytes | Iterator[bytes]:
        name, _, argument = environ["PATH_INFO"].strip("/").partition("/")
        record = current_record()
        assert record is not None
        record.operation = name
        body = Body(environ, seconds_max=self._limits.transfer_seconds)
        match name:
            case "healthcheck":
                return b"ok"
            case "metrics":
                return metrics.render()
            case "pid":
                return str(os.getpid()).encode()
            case "large":
                return b"x" * (6 << 20)  # more than the system keeps of an answer
            case "environment":
                return json.dumps({key: str(value) for key, value in environ.items()}).encode()
            case "slow":
                self._admission.admit(record, is_transfer=False)
                time.sleep(float(argument))
                return b"done"
            case "held":
                self._admission.admit(record, is_transfer=False)
                return self._wait_for_gate()
            case "late":
                # All that is left to do is to let the HTTP server have the answer.
                record.at_end(lambda: time.sleep(float(argument)))
                return b"done"
            case "raw":
                self._admission.admit(record, is_transfer=True)
                return self._keep(argument, body.chunks())
            case "form":
                self._admission.admit(record, is_transfer=True)
                file = form_file(body, environ.get("CONTENT_TYPE", ""), field="content")
                return self._keep(argument, file.chunks)
            case "download":
                self._admission.admit(record, is_transfer=True)
                return self._download(argument)
            case "break":
                self._admission.admit(record, is_transfer=True)
                return self._break_off()
            case "noise":
                return _make_noise()
            case "crash":
                raise ZeroDivisionError
        raise BodyError

    def _wait_for_gate(self) -> bytes:
        """Wait until a test opens the gate, for as long as a test waits for anything."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (self._folder / "gate").exists() and time.monotonic() < until:
            time.sleep(0.02)
        return b"done"

    def _keep(self, name: str, chunks: Iterable[bytes]) -> bytes:
        draft = self._folder / f"{name}.draft"
        size = 0
        try:
            with draft.open("wb") as file:
                for chunk in chunks:
                    size += file.write(chunk)
            draft.rename(self._folder / name)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return str(size).encode()

    def _download(self, name: str) -> Iterator[bytes]:
        open_mark = self._folder / f"{name}.open"
        open_mark.touch()
        try:
            for _ in range(DOWNLOAD_BYTES >> 16):
                yield b"x" * (1 << 16)
        finally:
            open_mark.unlink()

    def _break_off(self) -> Iterator[bytes]:
        yield b"x"
        raise ZeroDivisionError


class _Broken:
    def __del__(self) -> None:
        raise ZeroDivisionError


def _make_noise() -> bytes:
    """Let Python say things that it writes to the standard error by itself."""
    warnings.warn("a warning of Python", stacklevel=1)
    _Broken()
    thread = threading.Thread(target=lambda: 1 // 0, name="of-the-test")
    thread.start()
    thread.join()
    return b"done"


def create(settings: ServerSettings) -> WSGIApplication:
    orders = Path(settings.blockstore.default_namespace_prefix or "/nowhere")
    if (orders / "refuse").exists():
        raise SettingsError(["told to fail"])
    if (orders / "die").exists():
        os._exit(7)
    return Pipeline([Step.of("app", App(settings))])


def main() -> None:
    """Serve; the settings are a file, and the environment."""
    try:
        settings = load(Path(sys.argv[1]), environment=os.environ)
        serve(
            settings,
            factory="tests.system.server_app:create",
            on_ready=lambda endpoint: print("ready", endpoint, flush=True),  # noqa: T201
        )
    except (SettingsError, CannotStart) as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(2)


if __name__ == "__main__":
    main()
