"""Metrics of the server, for Prometheus, right across its processes.

The library keeps the numbers of a process in files of a folder that ``PROMETHEUS_MULTIPROC_DIR``
names; whichever worker is asked for ``/metrics`` adds up the files of all. The supervisor makes
the folder and sets the variable before it starts any process, since the library looks at it when
it is imported. Without the variable, as in tests, metrics are those of the process alone.

- ``lakebed_http_requests_total``: requests by operation and status.
- ``lakebed_http_seconds``: how long they took, to the last byte of the answer, by operation.
- ``lakebed_http_requests_in_progress``: requests under way.
- ``lakebed_http_refused_total``: requests answered 503 for want of a slot, by kind of slot.
"""

import os
import time
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

from lakebed.server.http.logs import Trace

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
NO_OPERATION: Final = "none"
"""The operation of requests that ended before it was known: a label that cannot multiply."""

IN_PROGRESS: Final = Gauge(
    "lakebed_http_requests_in_progress", "Requests under way", multiprocess_mode="livesum"
)
REFUSED: Final = Counter(
    "lakebed_http_refused", "Requests refused for want of a slot, by kind of slot", ["slot"]
)
_REQUESTS: Final = Counter(
    "lakebed_http_requests", "Requests by operation and status", ["operation", "status"]
)
_SECONDS: Final = Histogram(
    "lakebed_http_seconds",
    "Time of requests, to the last byte of the answer",
    ["operation"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600),
)


def count(trace: Trace) -> None:
    """Count a request that has ended."""
    operation = trace.operation or NO_OPERATION
    _requests(operation, trace.status).inc()
    _seconds(operation).observe(time.monotonic() - trace.begun)


@cache
def _requests(operation: str, status: int) -> Counter:
    return _REQUESTS.labels(operation, str(status))


@cache
def _seconds(operation: str) -> Histogram:
    return _SECONDS.labels(operation)


def render() -> bytes:
    """Return the metrics of all processes of this server, to be sent with `CONTENT_TYPE`."""
    if FOLDER_VARIABLE not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # it has no types
    return generate_latest(registry)


def forget_process(pid: int, folder: Path) -> None:
    """Drop the gauges of a process that died; what it counted stays in the sums."""
    mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call] # it has no types
