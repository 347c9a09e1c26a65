"""Metrics and rate-limited logs of refused requests.

An operator must see an attack, and an attacker must not be able to fill the disk with log lines. So
every refusal is counted in ``lakebed_http_refusals_total``, by kind, but few are logged: per minute
and kind, a process logs `LINES_A_CLIENT` lines about one client, and `LINES_A_KIND` lines in all.
At the end of the minute, one line gives the number of refusals not logged.

    refusals.count(Refusal.FORGED_ORIGIN, "the page is of http://evil.example")
"""

import logging
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from prometheus_client import Counter

from lakebed.server.http.request import current_record

LINES_A_CLIENT: Final = 3
LINES_A_KIND: Final = 20
CLIENTS_MAX: Final = 1000
"""The number of clients tracked per kind and minute."""
MINUTE_SECONDS: Final = 60.0

_LOGGER: Final = logging.getLogger(__name__)
_REFUSALS: Final = Counter(
    "lakebed_http_refusals", "Requests refused, cut off, throttled or forged, by kind", ["kind"]
)

Later = Callable[[float, Callable[[], None]], None]
"""Calls a function in another thread after some seconds."""


class Refusal(StrEnum):
    """Reason to refuse a request. Metrics are labelled by it."""

    UNAUTHENTICATED = "unauthenticated"
    """Missing or invalid credentials: an access key, a token, a presigned URL."""
    BAD_SIGNATURE = "bad_signature"
    DENIED = "denied"
    THROTTLED = "throttled"
    """Too many attempts, for example to log in."""
    OVERLOADED = "overloaded"
    """All slots or connections in use, or too many bytes buffered for slow clients."""
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_SLOW = "body_too_slow"
    STALLED_UPLOAD = "stalled_upload"
    """No bytes of a body arrived for too long; the connection was closed."""
    STALLED_DOWNLOAD = "stalled_download"
    """The client read no bytes of the answer for too long; the connection was closed."""
    FORGED_ORIGIN = "forged_origin"
    """A page of another origin made a browser send the request."""
    FORGED_HOST = "forged_host"
    """The Host header is not a known name of this server."""


def count(kind: Refusal, reason: str, *, client: str | None = None) -> None:
    """Count a refusal, and log it within the limits.

    `reason` must not contain secrets. `client` is by default that of the current request.
    """
    _REFUSALS.labels(kind.value).inc()
    if client is None:
        record = current_record()
        client = "unknown" if record is None else record.client
    _LOG.note(kind, reason, client)


class RefusalLog:
    """Rate-limited log of refusals, with a summary per kind and minute."""

    def __init__(self, *, clock: Callable[[], float], later: Later) -> None:
        self._clock = clock
        self._later = later
        self._lock = threading.Lock()
        self._minutes: dict[Refusal, _Minute] = {}

    def note(self, kind: Refusal, reason: str, client: str) -> None:
        """Log a refusal, within the limits of this minute."""
        now = self._clock()
        with self._lock:
            minute = self._minutes.get(kind)
            if minute is None or now - minute.begun >= MINUTE_SECONDS:
                minute = self._minutes[kind] = _Minute(now)
            is_logged = minute.take(client)
            is_first_unlogged = not is_logged and minute.unlogged == 1
        if is_logged:
            fields = {"kind": kind.value, "client": client}
            _LOGGER.warning(
                "refused a request from %s: %s", client, reason, extra={"fields": fields}
            )
        elif is_first_unlogged:
            self._later(minute.begun + MINUTE_SECONDS - now, lambda: _sum_up(kind, minute))


class _Minute:
    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.unlogged = 0
        self._lines = 0
        self._lines_of: dict[str, int] = {}

    @property
    def clients(self) -> str:
        """The number of clients, in words."""
        number = len(self._lines_of)
        if number == 1:
            return f"the client {next(iter(self._lines_of))}"
        return f"{number} clients" if number < CLIENTS_MAX else f"{number} clients or more"

    def take(self, client: str) -> bool:
        """Count a refusal; return whether to log it."""
        lines = self._lines_of.get(client, 0)
        if len(self._lines_of) < CLIENTS_MAX:
            self._lines_of.setdefault(client, 0)
        if self._lines >= LINES_A_KIND or lines >= LINES_A_CLIENT:
            self.unlogged += 1
            return False
        self._lines += 1
        self._lines_of[client] = lines + 1
        return True


def _sum_up(kind: Refusal, minute: _Minute) -> None:
    _LOGGER.warning(
        "refused %d more requests within a minute: %s, from %s",
        minute.unlogged,
        kind.value,
        minute.clients,
        extra={"fields": {"kind": kind.value, "more": minute.unlogged}},
    )


def _in_a_thread(seconds: float, action: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


_LOG: Final = RefusalLog(clock=time.monotonic, later=_in_a_thread)
