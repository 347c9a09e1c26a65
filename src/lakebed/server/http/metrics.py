"""Prometheus metrics of the server, summed over its processes, and access to them.

`prometheus_client` keeps the values of each process in files of the folder that
``PROMETHEUS_MULTIPROC_DIR`` names; the worker that answers ``/metrics`` sums the files of all
processes. The supervisor creates the folder and sets the variable before it starts any process,
since the library reads the variable at import. Without it, as in tests, metrics cover this process.

- ``lakebed_http_seconds``: duration of requests, to the last byte of the answer, by operation and
  status; its count is that of the requests.
- ``lakebed_http_requests_in_progress``: requests in progress.
- ``lakebed_http_refused_total``: requests answered 503 for lack of a slot, by kind of slot.
- ``lakebed_http_slots``, ``lakebed_http_slots_used``: slots, and slots in use, by kind, as of the
  last second.

The supervisor's metrics (see `lakebed.server.processes.metrics`) are a file of the same folder.
"""

import logging
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from lakebed.auth.policy.addresses import is_in, parse_address, parse_network
from lakebed.auth.secrets import same_secret
from lakebed.base.errors import LakebedError
from lakebed.server.http.request import RequestRecord
from lakebed.server.settings import MetricsSettings

_LOGGER: Final = logging.getLogger(__name__)
FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
SUPERVISOR_FILE: Final = "supervisor.prom"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
NO_OPERATION: Final = "none"
"""The label of requests that ended before their operation was known."""

IN_PROGRESS: Final = Gauge(
    "lakebed_http_requests_in_progress", "Requests in progress", multiprocess_mode="livesum"
)
REFUSED: Final = Counter(
    "lakebed_http_refused", "Requests refused because no slot was free, by kind of slot", ["slot"]
)
SLOTS: Final = Gauge(
    "lakebed_http_slots", "Slots for requests, by kind", ["slot"], multiprocess_mode="livesum"
)
SLOTS_USED: Final = Gauge(
    "lakebed_http_slots_used",
    "Slots in use, by kind, as of the last second",
    ["slot"],
    multiprocess_mode="livesum",
)
_SECONDS: Final = Histogram(
    "lakebed_http_seconds",
    "Requests and their time to the last byte of the answer, by operation and status",
    ["operation", "status"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600),
)


def count(record: RequestRecord) -> None:
    """Count a request that has ended."""
    seconds = _seconds(record.operation or NO_OPERATION, record.status)
    seconds.observe(time.monotonic() - record.begun)


@cache
def _seconds(operation: str, status: int) -> Histogram:
    return _SECONDS.labels(operation, str(status))


def render() -> bytes:
    """Return the metrics of all processes of this server, of type `CONTENT_TYPE`."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    of_supervisor = b""
    with suppress(FileNotFoundError):  # not written yet
        of_supervisor = (Path(folder) / SUPERVISOR_FILE).read_bytes()
    return generate_latest(registry) + of_supervisor


def register_process(role: str) -> None:
    """Create the marker file of this process, for the metrics of processes."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return
    try:
        (Path(folder) / f"process-{role}-{os.getpid()}").touch()
    except OSError as error:
        # Metrics are optional: the process works without its marker.
        _LOGGER.warning("this process is missing from the metrics: %s", error)


def registered_processes(folder: Path) -> list[tuple[str, int]]:
    """Return the role and the id of each process that has a marker file."""
    names = (path.name.split("-") for path in folder.glob("process-*-*"))
    return [(role, int(pid)) for _, role, pid in names]


def forget_process(pid: int, folder: Path) -> None:
    """Drop the gauges and the marker of an ended process; its counters stay in the sums."""
    with suppress(OSError):  # a leftover is a file of a few bytes
        mark_process_dead(pid, str(folder))
        for path in folder.glob(f"process-*-{pid}"):
            path.unlink(missing_ok=True)


class MetricsRefused(LakebedError):
    """The settings do not let this client read the metrics."""

    kind = "metrics_refused"

    def __init__(self) -> None:
        super().__init__(
            "access to the metrics is restricted: connect from a network in metrics.networks, or"
            " send metrics.key as a bearer token"
        )


class MetricsReaders:
    """Clients allowed to read the metrics: all, unless the settings restrict them."""

    def __init__(self, settings: MetricsSettings) -> None:
        self._networks = tuple(parse_network(network) for network in settings.networks)
        self._key = settings.key

    def may_read(self, client: str, authorization: str | None) -> bool:
        """Whether a client may, by its address or by its ``Authorization`` header."""
        if not self._networks and self._key is None:
            return True
        address = parse_address(client)
        if address is not None and is_in(address, self._networks):
            return True
        scheme, _, token = (authorization or "").partition(" ")
        is_bearer = scheme.lower() == "bearer" and self._key is not None
        return is_bearer and same_secret(token.strip(), self._key or "")
