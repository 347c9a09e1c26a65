"""Execution of a command: always an exit code and at most a short message, no traceback."""

import io
import json
import os
import re
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import typer
from typer.main import get_command

from lakebed.base.errors import LakebedError, MissingExtraError
from lakebed.clients.cli.errors import (
    FAILED,
    INTERRUPTED,
    InvalidArguments,
    exit_code,
    explained,
)
from lakebed.clients.cli.output import printable
from lakebed.clients.cli.uris import forget_base_uri

SERVER_PACKAGES: Final = frozenset(
    {"awscrt", "cryptography", "falcon", "httptools", "jwt", "lupa", "re2"}
)
"""Packages of the server, optional for the command line."""


def run(app: typer.Typer, arguments: list[str]) -> int:
    """Run a command, and print its error: with `--json` as an object with `kind` and `message`.

    Returns:
        The exit code: 0, 1 for a failure, 2 for wrong arguments, 130 if interrupted.
    """
    _use_utf8()
    forget_base_uri()
    failure = None
    try:
        if "_LAKEBED_COMPLETE" in os.environ:
            from lakebed.clients.cli.completing import complete  # for shells only

            complete(app)
        result = get_command(app).main(arguments, prog_name="lakebed", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        code = FAILED
    except SystemExit as end:  # raised by Typer after a broken pipe
        code = end.code if isinstance(end.code, int) else FAILED
    except Exception as error:  # noqa: BLE001 (printed without a traceback)
        failure, code = _explained(error)
    if code == INTERRUPTED:
        failure = {"kind": "interrupted", "message": "interrupted"}
    if failure is not None:
        _print_error(failure, as_json="--json" in arguments)
    return code if _flush() else FAILED


def _explained(error: Exception) -> tuple[dict[str, Any], int]:
    """Return the kind and the message of an error, and the exit code."""
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context else ""
        said = " ".join(error.format_message().split()).removesuffix(".")
        # Pydantic's prefix, in Typer's errors about choices.
        said = said.replace(": Value error, ", ": ")
        said = re.sub(r"(?<=')\. ([A-Z])", lambda start: f": {start[1].lower()}", said)
        message = f"{said[:1].lower()}{said[1:]}{hint}"
        return {"kind": InvalidArguments.kind, "message": message}, error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in SERVER_PACKAGES:
        error = MissingExtraError("the server", "server")
    if isinstance(error, LakebedError):
        from lakebed.clients.http.errors import Refused  # slow to import

        failure: dict[str, Any] = {"kind": error.kind, "message": explained(error)}
        if isinstance(error, Refused):
            failure |= {"kind": error.body.kind or error.kind, "status": error.status}
        return failure, exit_code(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        message = f"{error.filename}: {reason}" if error.filename else reason
        return {"kind": "system", "message": message}, FAILED
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    what = " ".join(f"{type(error).__name__} at {where}: {error}".split())
    return {"kind": "internal", "message": f"internal error, please report it: {what}"}, FAILED


def _print_error(failure: dict[str, Any], *, as_json: bool) -> None:
    with suppress(BrokenPipeError):
        if as_json:
            print(json.dumps(failure), file=sys.stderr, flush=True)
            return
        for line in filter(str.strip, failure["message"].splitlines()):
            print(f"lakebed: {printable(line.strip())}", file=sys.stderr, flush=True)


def _use_utf8() -> None:
    """Write UTF-8 regardless of the locale, with escapes for undecodable bytes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _flush() -> bool:
    """Flush the output; return False if the pipe is broken."""
    complete = True
    for stream in (sys.__stdout__, sys.__stderr__):
        assert stream is not None
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            complete = False
    return complete
