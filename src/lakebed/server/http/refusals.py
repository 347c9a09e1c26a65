"""Requests that are refused, cut off, throttled or forged: each is counted, and a few are logged.

Whoever is attacked wants to see it, and whoever attacks must not be able to fill the disk with log
lines. So every such request is counted in ``lakebed_http_refusals_total``, by kind. It is logged
with the address of its client while there are few. In a minute, a process logs `LINES_A_CLIENT`
lines of one kind about one client, and `LINES_A_KIND` lines of one kind. At the end of the minute
one line says how many there were beside these.

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
"""The clients of one kind and minute that are told apart."""
MINUTE_SECONDS: Final = 60.0

_LOGGER: Final = logging.getLogger(__name__)
_REFUSALS: Final = Counter(
    "lakebed_http_refusals", "Requests refused, cut off, throttled or forged, by kind", ["kind"]
)

Later = Callable[[float, Callable[[], None]], None]
"""Calls something in another thread, in so many seconds."""


class Refusal(StrEnum):
    """Why a request was not served. All are listed here: metrics are kept by them."""

    UNAUTHENTICATED = "unauthenticated"
    """No credentials, or wrong ones: an access key, a token, a presigned URL."""
    BAD_SIGNATURE = "bad_signature"
    """An S3 request whose signature does not hold."""
    DENIED = "denied"
    """The user's policies do not allow it."""
    THROTTLED = "throttled"
    """Too many tries, of a login for example."""
    OVERLOADED = "overloaded"
    """No slot was free, there were too many connections, or too much was kept for slow ones."""
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_SLOW = "body_too_slow"
    STALLED_UPLOAD = "stalled_upload"
    """Nothing of a body came for too long: the connection was cut."""
    STALLED_DOWNLOAD = "stalled_download"
    """Nothing of an answer was taken for too long: the connection was cut."""
    FORGED_ORIGIN = "forged_origin"
    """A browser sent it on behalf of a page that is not ours."""
    FORGED_HOST = "forged_host"
    """It names a host that this server is not known by."""


def count(kind: Refusal, reason: str, *, client: str | None = None) -> None:
    """Count a refusal, and log it unless there were many of late.

    Args:
        kind: Why the request is not served.
        reason: The same in words, for people; it must hold no secret.
        client: The address of the client; that of the request under way if it is left out.
    """
    _REFUSALS.labels(kind.value).inc()
    if client is None:
        record = current_record()
        client = "unknown" if record is None else record.client
    _LOG.note(kind, reason, client)


class RefusalLog:
    """Logs a few refusals of each kind in a minute, and how many others there were."""

    def __init__(self, *, clock: Callable[[], float], later: Later) -> None:
        self._clock = clock
        self._later = later
        self._lock = threading.Lock()
        self._minutes: dict[Refusal, _Minute] = {}

    def note(self, kind: Refusal, reason: str, client: str) -> None:
        """Log a refusal, unless there were many in this minute."""
        now = self._clock()
        with self._lock:
            minute = self._minutes.get(kind)
            if minute is None or now - minute.begun >= MINUTE_SECONDS:
                minute = self._minutes[kind] = _Minute(now)
            is_logged = minute.take(client)
            is_first_unlogged = not is_logged and minute.unlogged == 1
        if is_logged:
            fields = {"kind": kind.value, "client": client}
            _LOGGER.warning("refused a request of %s: %s", client, reason, extra={"fields": fields})
        elif is_first_unlogged:
            self._later(minute.begun + MINUTE_SECONDS - now, lambda: _sum_up(kind, minute))


class _Minute:
    """The refusals of one kind in one minute."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.unlogged = 0
        self._lines = 0
        self._lines_of: dict[str, int] = {}

    @property
    def clients(self) -> str:
        """How many clients there were, in words."""
        number = len(self._lines_of)
        if number == 1:
            return f"the client {next(iter(self._lines_of))}"
        return f"{number} clients" if number < CLIENTS_MAX else f"{number} clients or more"

    def take(self, client: str) -> bool:
        """Take note of one; return whether it is to be logged."""
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
        "refused %d more requests within a minute: %s, by %s",
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
