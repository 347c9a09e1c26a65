"""Prometheus metrics of the engine.

- ``lakebed_engine_cache_requests_total``: requests for files of committed entries, by cache and
  result. Every miss in memory asks the disk cache, if configured; every miss of the last cache
  reads from the storage.
- ``lakebed_engine_commit_seconds``: duration of commits, by outcome.
- ``lakebed_engine_commit_changes``: entries added, changed and removed by each commit.
- ``lakebed_engine_build_seconds``: duration of building a commit's entries, in this process
  (``here``) or in a build process (``process``).
- ``lakebed_engine_rebuilds_total``: builds repeated after a concurrent change of the branch, or
  because the first build had become too old.
- ``lakebed_engine_merge_seconds``: duration of merges, reverts and cherry-picks, by outcome.
- ``lakebed_engine_cleaned_total``: records removed by the Cleaner.

The outcome is ``done``, or the kind of the error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import Counter, Histogram

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

_CACHE_REQUESTS = Counter(
    "lakebed_engine_cache_requests",
    "Requests for files of committed entries, by cache and result",
    ["cache", "result"],
)
MEMORY_HITS = _CACHE_REQUESTS.labels("memory", "hit")
MEMORY_MISSES = _CACHE_REQUESTS.labels("memory", "miss")
DISK_HITS = _CACHE_REQUESTS.labels("disk", "hit")
DISK_MISSES = _CACHE_REQUESTS.labels("disk", "miss")

COMMIT_SECONDS = Histogram(
    "lakebed_engine_commit_seconds",
    "Duration of commits, by outcome",
    ["outcome"],
    buckets=_SECONDS,
)
COMMIT_CHANGES = Histogram(
    "lakebed_engine_commit_changes",
    "Entries added, changed and removed by a commit",
    buckets=(1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000),
)
BUILD_SECONDS = Histogram(
    "lakebed_engine_build_seconds",
    "Duration of building a commit's entries, by where it was built",
    ["where"],
    buckets=_SECONDS,
)
REBUILDS = Counter("lakebed_engine_rebuilds", "Repeated builds of a commit")
MERGE_SECONDS = Histogram(
    "lakebed_engine_merge_seconds",
    "Duration of merges, reverts and cherry-picks, by outcome",
    ["operation", "outcome"],
    buckets=_SECONDS,
)
CLEANED = Counter("lakebed_engine_cleaned", "Records removed by the Cleaner", ["what"])


@contextmanager
def measure_outcome(histogram: Histogram, runtime: Runtime, *labels: str) -> Iterator[None]:
    """Observe the duration of a block, with its outcome as the last label."""
    begun = runtime.monotonic()
    outcome = "error"
    try:
        yield
        outcome = "done"
    except LakebedError as error:
        outcome = error.kind
        raise
    finally:
        histogram.labels(*labels, outcome).observe(runtime.monotonic() - begun)
