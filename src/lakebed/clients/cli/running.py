"""Execution of a command: always an exit code and at most a short message, no traceback."""

import io
import os
import re
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer
from typer.main import get_command

from lakebed.base.errors import LakebedError, MissingExtraError
from lakebed.clients.cli.errors import FAILED, INTERRUPTED, exit_code, explained
from lakebed.clients.cli.output import printable
from lakebed.clients.cli.uris import forget_base_uri

SERVER_PACKAGES: Final = frozenset(
    {"awscrt", "cryptography", "falcon", "httptools", "jwt", "lupa", "re2"}
)
"""Packages of the server, optional for the command line."""


def run(app: typer.Typer, arguments: list[str]) -> int:
    """Run a command, and print its error.

    Returns:
        The exit code: 0, 1 for a failure, 2 for wrong arguments, 130 if interrupted.
    """
    _use_utf8()
    forget_base_uri()
    try:
        command = get_command(app)
        if "_LAKEBED_COMPLETE" in os.environ:
            from typer._completion_classes import completion_init  # for shells only

            completion_init()
        result = command.main(arguments, prog_name="lakebed", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        code = FAILED
    except SystemExit as end:  # raised by Typer after a broken pipe
        code = end.code if isinstance(end.code, int) else FAILED
    except Exception as error:  # noqa: BLE001 (printed without a traceback)
        message, code = _explained(error)
        _print_error(message)
    if code == INTERRUPTED:
        _print_error("interrupted")
    return code if _flush() else FAILED


def _explained(error: Exception) -> tuple[str, int]:
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context else ""
        said = " ".join(error.format_message().split()).removesuffix(".")
        said = re.sub(r"(?<=')\. ([A-Z])", lambda start: f": {start[1].lower()}", said)
        return f"{said[:1].lower()}{said[1:]}{hint}", error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in SERVER_PACKAGES:
        error = MissingExtraError("the server", "server")
    if isinstance(error, LakebedError):
        return explained(error), exit_code(error)
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename else reason, FAILED
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    what = " ".join(f"{type(error).__name__} at {where}: {error}".split())
    return f"internal error, please report it: {what}", FAILED


def _print_error(message: str) -> None:
    with suppress(BrokenPipeError):
        for line in filter(str.strip, message.splitlines()):
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
