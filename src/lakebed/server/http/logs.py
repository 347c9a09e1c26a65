"""Logs: one record a line, on the standard error, each with the id of the request it belongs to.

`Trace` is what is known of the request that a thread works on. The `envelope` makes it and logs
the access line at the end; whoever learns who the user is, or which operation it is, notes it
there. Of a request nothing else is logged: not its environment, which holds that of the process,
not its headers, not its query, where signatures and tokens may be.
"""

import logging
import re
import secrets
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from lakebed.server.settings import LoggingSettings

ACCESS: Final = logging.getLogger("lakebed.access")
_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_LOUD: Final = ("azure", "boto3", "botocore", "s3transfer", "urllib3", "httpx", "httpcore")

_trace: ContextVar["Trace | None"] = ContextVar("lakebed_trace", default=None)
_under_way: set["Trace"] = set()


@dataclass(slots=True, eq=False)
class Trace:
    """One request, from its arrival until the last byte of the answer."""

    request_id: str
    method: str
    path: str
    begun: float
    """By the monotonic clock."""
    operation: str = ""
    """The operation of the API, once it is known; metrics are kept by it."""
    user: str = ""
    """Who asks, once that is known."""
    status: int = 0
    bytes_sent: int = 0
    peer: str = ""
    """The address of the other end of the connection: the client's, or that of a proxy."""
    client: str = ""
    """The address of the client; see `client_address`."""
    received_at: float = 0.0
    """When something last came of the request."""
    is_receiving: bool = False
    """Whether more is awaited right now."""
    _on_end: list[Callable[[], None]] = field(default_factory=list)

    def at_end(self, action: Callable[[], None]) -> None:
        """Have something done when the answer is out, or the client is gone: once, whatever."""
        self._on_end.append(action)

    def end(self) -> None:
        """Do what is to be done at the end; a second call does nothing."""
        _under_way.discard(self)
        while self._on_end:
            self._on_end.pop()()


def current_trace() -> Trace | None:
    """Return the trace of the request that this thread works on; None outside of requests."""
    return _trace.get()


def traces_under_way() -> list[Trace]:
    """Return the traces of all requests that this process works on."""
    return list(_under_way)


def begin_trace(method: str, path: str, *, peer: str, client: str, given_id: str | None) -> Trace:
    """Make the trace of a request that arrived, and bind it to this thread."""
    now = time.monotonic()
    request_id = _request_id(given_id)
    trace = Trace(request_id, method, path, now, peer=peer, client=client, received_at=now)
    _trace.set(trace)
    _under_way.add(trace)
    return trace


def unbind_trace() -> None:
    """The thread works on no request any more."""
    _trace.set(None)


def log_access(trace: Trace) -> None:
    """Log that a request has ended, and how."""
    if not ACCESS.isEnabledFor(logging.INFO):
        return
    # Made here: the logger would look through the stack for who calls it, which costs more than
    # all the rest.
    arguments = (trace.method, trace.path, trace.status)
    record = logging.LogRecord(
        ACCESS.name, logging.INFO, __file__, 0, "%s %s %d", arguments, exc_info=None
    )
    record.fields = {
        "method": trace.method,
        "path": trace.path,
        "status": trace.status,
        "milliseconds": round((time.monotonic() - trace.begun) * 1000, 3),
        "bytes": trace.bytes_sent,
        "operation": trace.operation,
        "user": trace.user,
        "client": trace.client,
        "request_id": trace.request_id,
    }
    ACCESS.handle(record)


def configure(settings: LoggingSettings) -> None:
    """Send all logs of this process to the standard error, in the format of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    as_text = settings.format == "text" or (settings.format == "auto" and sys.stderr.isatty())
    handler.setFormatter(TextFormatter() if as_text else JSONFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.WARNING)


class JSONFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        } | _fields(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextFormatter(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        shown = {"milliseconds": "ms", "bytes": "B", "user": "", "operation": "", "request_id": ""}
        notes = [
            f"{value}{shown[name]}" for name, value in _fields(record).items()
            if name in shown and value != ""
        ]  # fmt: skip
        # A path may hold what moves the cursor of a terminal.
        message = "".join(c if c.isprintable() else repr(c)[1:-1] for c in record.getMessage())
        line = f"{_time_of(record)[11:23]} {record.levelname:<7} {' '.join([message, *notes])}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = dict(getattr(record, "fields", {}))
    trace = _trace.get()
    if trace is not None:
        fields["request_id"] = trace.request_id
    return fields


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _request_id(given: str | None) -> str:
    if given is not None and _SANE_ID.fullmatch(given):
        return given
    return secrets.token_hex(8)
