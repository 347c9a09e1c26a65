"""Metrics of hooks.

- ``lakebed_hook_seconds``: duration of hooks, by type and outcome (``success``, ``failure``).
- ``lakebed_hook_runs_total``: ended runs, by event and outcome.
"""

from typing import Final

from prometheus_client import Counter, Histogram

HOOK_SECONDS: Final = Histogram(
    "lakebed_hook_seconds",
    "Duration of hooks, by type and outcome",
    ["type", "outcome"],
    buckets=(0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600),
)
HOOK_RUNS: Final = Counter(
    "lakebed_hook_runs", "Ended runs of hooks, by event and outcome", ["event", "outcome"]
)
