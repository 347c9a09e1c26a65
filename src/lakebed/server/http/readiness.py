"""Readiness: whether the database and the storage answer.

Liveness (``/_health``) only shows that the process runs. Readiness queries the database and the
storage, and answers 503 while either does not answer. The queries are in
`lakebed.server.probes`.

The answer comes within `BOUND_SECONDS`, even if a query hangs. Each query runs in its own thread,
one at a time: probes that arrive meanwhile share it, and fail at once when it has hung for that
long. So probes neither pile up nor hold threads of the server.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import falcon
import msgspec

from lakebed.base.errors import LakebedError
from lakebed.server.http.errors import JSON_TYPE, RETRY_SECONDS, note_error
from lakebed.server.http.request import current_record

BOUND_SECONDS: Final = 1.5

Probe = Callable[[], None]
"""Queries a dependency; raises if it does not answer."""


class NotReady(LakebedError):
    """A dependency of the server does not answer; `names` lists all of them."""

    kind = "not_ready"

    def __init__(self, names: list[str]) -> None:
        verb = "does" if len(names) == 1 else "do"
        super().__init__(f"the {' and the '.join(names)} {verb} not answer")
        self.names = names


class Readiness:
    """Concurrent queries of all dependencies, in bounded time."""

    def __init__(
        self, probes: Mapping[str, Probe], *, bound_seconds: float = BOUND_SECONDS
    ) -> None:
        self._probes = {name: _Shared(name, ask) for name, ask in probes.items()}
        self._bound_seconds = bound_seconds
        self.names: Final = list(probes)

    def check(self) -> None:
        """Query all dependencies.

        Raises:
            NotReady: A query failed or exceeded the time limit; the first failure is the cause.
        """
        asked = {name: probe.begin() for name, probe in self._probes.items()}
        failures = {name: each.failure_within(self._bound_seconds) for name, each in asked.items()}
        found = {name: failure for name, failure in failures.items() if failure is not None}
        if found:
            raise NotReady(list(found)) from next(iter(found.values()))


class _Shared:
    """A query that runs in one thread at a time, shared by all concurrent probes."""

    def __init__(self, name: str, ask: Probe) -> None:
        self._name = name
        self._ask = ask
        self._lock = threading.Lock()
        self._current: _Asking | None = None

    def begin(self) -> "_Asking":
        with self._lock:
            if self._current is None or self._current.is_over:
                self._current = _Asking(self._name, self._ask)
            return self._current


class _Asking:
    def __init__(self, name: str, ask: Probe) -> None:
        self._name = name
        self._ask = ask
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._failure: Exception | None = None
        threading.Thread(target=self._run, name=f"readiness-{name}", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def failure_within(self, seconds: float) -> Exception | None:
        """Wait until `seconds` after the start of the query; return its failure, or None."""
        if not self._over.wait(max(0.0, self._begun + seconds - time.monotonic())):
            return TimeoutError(f"the {self._name} has not answered yet")
        return self._failure

    def _run(self) -> None:
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 - handed to the waiting probe
            self._failure = error
        finally:
            self._over.set()


class ReadinessHandler:
    """Handler of ``GET /readiness``, open to all; the answer omits hosts and drivers."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    def on_get(self, _request: falcon.Request, response: falcon.Response) -> None:
        """Answer 200, or 503 with the dependencies that do not answer."""
        record = current_record()
        if record is not None:
            record.operation = "readiness"
        states = dict.fromkeys(self._readiness.names, "ok")
        try:
            self._readiness.check()
        except NotReady as error:
            note_error(error, 503, error.kind)
            response.status = falcon.HTTP_SERVICE_UNAVAILABLE
            response.set_header("Retry-After", str(RETRY_SECONDS))
            states |= dict.fromkeys(error.names, "does not answer")
            states |= {"message": str(error), "kind": error.kind}
        response.data = msgspec.json.encode(states)
        response.content_type = JSON_TYPE

    on_head = on_get
