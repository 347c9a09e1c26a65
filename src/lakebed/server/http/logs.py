"""Logs: one record a line, each with the id of its request.

Logs go to the standard error, as JSON or as text, and to a file if configured. In JSON mode every
line is a JSON object: Python's warnings, uncaught exceptions (also of threads and finalizers) and
lines of the HTTP server use the same formatter. Only crash output of native code cannot be
formatted.

Secrets in messages and tracebacks are masked.
"""

import json
import logging
import logging.handlers
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

import msgspec

from lakebed.server.http.request import RequestRecord, current_record
from lakebed.server.settings import MASK, LoggingSettings

ACCESS: Final = logging.getLogger("lakebed.access")
FILE_BYTES_MAX: Final = 16 << 20
"""A larger log file is renamed to the suffix ``.1``, replacing the previous one."""

_LOGGER: Final = logging.getLogger(__name__)
_LOUD: Final = (
    "azure", "boto3", "botocore", "s3transfer", "urllib3", "httpx", "httpcore", "opentelemetry",
)  # fmt: skip
_CHAIN_MAX: Final = 8
# Clients control the input of these expressions: they take linear time, on bounded text.
_LINE_CHARACTERS_MAX: Final = 4096
_PASSWORD_IN_URL: Final = re.compile(r"(?<=://)([^/?#:@\s]*+):\S*@")
_PARAMETER_NAME: Final = re.compile(r"(?<![\w-])([\w-]++)=")
_PARAMETER_VALUE: Final = re.compile(r"[^&#\s'\"]++")
_SECRET_NAME: Final = re.compile(
    r"(?i)password|passwd|secret|token|key|credential|signature|(?<!\w)sig"
)


def mask_secrets(text: str) -> str:
    """Return a text with passwords in URLs, and parameters that look secret, masked."""
    # Most texts contain neither; the expressions cost more than this test.
    if "://" not in text and "=" not in text:
        return text
    return "\n".join(map(_mask_line, text.split("\n")))


def _mask_line(line: str) -> str:
    if len(line) > _LINE_CHARACTERS_MAX:
        line = line[:_LINE_CHARACTERS_MAX] + "…"
    return _mask_parameters(_PASSWORD_IN_URL.sub(rf"\1:{MASK}@", line))


def _mask_parameters(line: str) -> str:
    """Mask the values of parameters that look secret, also if nested in another value."""
    shown, at = [], 0
    for name in _PARAMETER_NAME.finditer(line):
        if name.start() >= at and _SECRET_NAME.search(name[1]):
            value = _PARAMETER_VALUE.match(line, name.end())
            if value is not None:
                shown += [line[at : name.end()], MASK]
                at = value.end()
    return "".join([*shown, line[at:]])


def cause_of(error: BaseException) -> str:
    """Return the texts of an error and its chain of causes, without secrets."""
    return mask_secrets("; caused by ".join(_chain(error)))


def _chain(error: BaseException) -> Iterator[str]:
    before: str | None = None
    for _ in range(_CHAIN_MAX):
        text = " ".join(str(error).split())
        shown = f"{type(error).__name__}: {text}" if text else type(error).__name__
        if shown != before:
            yield shown
        before = shown
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None:
            return
        error = following


def log_access(record: RequestRecord) -> None:
    """Log the access line of an ended request."""
    if not ACCESS.isEnabledFor(logging.INFO):
        return
    # Created directly: the logger would walk the stack for its caller, the most expensive part.
    arguments = (record.method, record.path, record.status)
    line = logging.LogRecord(
        ACCESS.name, logging.INFO, __file__, 0, "%s %s %d", arguments, exc_info=None
    )
    fields = {
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "milliseconds": round((time.monotonic() - record.begun) * 1000, 3),
        "bytes": record.bytes_sent,
        "operation": record.operation,
        "user": record.user,
        "client": record.client,
        "request_id": record.request_id,
    }
    if record.kind:
        fields["kind"] = record.kind
    if record.cause:
        fields["cause"] = record.cause
    line.fields = fields
    ACCESS.handle(line)


def configure_process(settings: LoggingSettings) -> None:
    """Configure all logging of this process, with warnings and uncaught exceptions."""
    configure(settings)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_thread


def configure(settings: LoggingSettings) -> None:
    """Set the handlers of all loggers, without Python's hooks."""
    handlers: list[logging.Handler] = [_stderr_handler(settings)]
    if settings.file is not None:
        settings.file.parent.mkdir(parents=True, exist_ok=True)
        # Reopens the file after `bound_file` of any process has renamed it.
        to_file = _FileHandler(settings.file, instead=handlers[0])
        to_file.setFormatter(TextFormatter() if settings.format == "text" else JSONFormatter())
        handlers[0].setLevel(logging.WARNING)
        handlers.append(to_file)
    root = logging.getLogger()
    for old in root.handlers:
        if isinstance(old, logging.FileHandler):
            old.close()
    root.handlers[:] = handlers
    root.setLevel(settings.level.upper())
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.WARNING)


def bound_file(settings: LoggingSettings) -> None:
    """Rename the log file if it has become too large; only one process may call this."""
    if settings.file is None:
        return
    with suppress(OSError):  # missing, or cannot be renamed: then it keeps growing
        if settings.file.stat().st_size > FILE_BYTES_MAX:
            settings.file.replace(f"{settings.file}.1")


def _stderr_handler(settings: LoggingSettings) -> logging.Handler:
    as_text = settings.format == "text" or (settings.format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr) if as_text else _JSONHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if as_text else JSONFormatter())
    return handler


class _FileHandler(logging.handlers.WatchedFileHandler):
    """Log file handler that falls back to another handler if the file cannot be written."""

    def __init__(self, file: Path, *, instead: logging.Handler) -> None:
        super().__init__(file, encoding="utf-8")
        self._instead = instead

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; a full disk or a missing folder must not break the caller."""
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is inherited
        """Pass on a record that could not be written, unless the other handler shows it anyway."""
        if record.levelno < self._instead.level:
            self._instead.handle(record)


class _JSONHandler(logging.StreamHandler[TextIO]):
    """Stream handler that reports a formatting failure as a line of JSON, not a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is inherited
        """Name the source line of a record that cannot be formatted."""
        where = f"{Path(record.pathname).name}:{record.lineno}"
        line = {
            "level": "error",
            "logger": record.name,
            "message": f"the log line of {where} could not be formatted",
        }
        with suppress(OSError, ValueError):  # the stream is closed
            self.stream.write(json.dumps(line) + self.terminator)


class JSONFormatter(logging.Formatter):
    """Formatter for one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message_of(record),
        } | _fields(record)
        if record.exc_info:
            line["exception"] = mask_secrets(self.formatException(record.exc_info))
        try:
            return msgspec.json.encode(line, enc_hook=str).decode()
        except UnicodeEncodeError:  # half of a surrogate pair, as in names of files
            return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Formatter for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        shown = {
            "milliseconds": "ms", "bytes": "B", "user": "", "operation": "", "kind": "",
            "cause": "", "request_id": "",
        }  # fmt: skip
        notes = [
            f"{value}{shown[name]}" for name, value in _fields(record).items()
            if name in shown and value != ""
        ]  # fmt: skip
        # A path may contain control sequences of terminals.
        text = " ".join([_message_of(record), *notes])
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        line = f"{_time_of(record)[11:23]} {record.levelname:<7} {text}"
        if record.exc_info:
            line += "\n" + mask_secrets(self.formatException(record.exc_info))
        return line


def _message_of(record: logging.LogRecord) -> str:
    message = record.getMessage()
    # An access line quotes the path unchanged; it has no query.
    return message if record.name == ACCESS.name else mask_secrets(message)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = dict(getattr(record, "fields", {}))
    current = current_record()
    if current is not None:
        fields["request_id"] = current.request_id
    return fields


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


# Hooks for output that Python would write to the standard error itself


def _log_uncaught(
    error_type: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(error_type, KeyboardInterrupt):
        return
    _LOGGER.critical(
        "uncaught exception: the process exits", exc_info=(error_type, error, traceback)
    )


def _log_unraisable(found: "sys.UnraisableHookArgs") -> None:
    text = found.err_msg or "exception ignored"
    _LOGGER.error("%s: %r", text, found.object, exc_info=found.exc_value)


def _log_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_type is SystemExit or found.exc_value is None:
        return
    name = found.thread.name if found.thread is not None else "?"
    error = (found.exc_type, found.exc_value, found.exc_traceback)
    _LOGGER.error("uncaught exception in the thread %s", name, exc_info=error)
