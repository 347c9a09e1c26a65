"""Metrics of a server's processes by role: supervisor, worker, background, builder.

`prometheus_client` has none of them with several processes. So each process creates a marker file
in the folder of the metrics (`lakebed.server.http.metrics.register_process`), and the supervisor
samples all marked processes. It writes the samples to a file of the same folder, which the worker
that answers ``/metrics`` appends. Without ``/proc`` (on systems other than Linux) only restarts are
counted.

- ``lakebed_process_count``: live processes.
- ``lakebed_process_resident_memory_bytes``, ``lakebed_process_open_fds``: sums over these.
- ``lakebed_process_start_time_seconds``: start time of the youngest.
- ``lakebed_process_cpu_seconds_total``: CPU time, including ended processes.
- ``lakebed_process_restarts_total``: restarts of ended processes.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lakebed.server.http.metrics import SUPERVISOR_FILE, forget_process, registered_processes

_LOGGER: Final = logging.getLogger(__name__)
_SAMPLE_SECONDS: Final = 2.0


class ProcessMetrics(Collector):
    """The supervisor's samples of all processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._registry = CollectorRegistry()
        self._sampled_at = -_SAMPLE_SECONDS
        self._has_failed = False
        self._restarts: dict[str, int] = dict.fromkeys(("worker", "background"), 0)
        self._cpu: dict[str, float] = defaultdict(float)
        self._cpu_of: dict[int, float] = {}
        self._alive: dict[str, list[dict[str, float]]] = {}
        self._registry.register(self)

    def count_restart(self, role: str) -> None:
        self._restarts[role] += 1

    def write(self) -> None:
        """Sample the processes and write the metrics; at most once per `_SAMPLE_SECONDS`."""
        now = time.monotonic()
        if now - self._sampled_at < _SAMPLE_SECONDS:
            return
        self._sampled_at = now
        try:
            self._sample()
            draft = self._folder / f"{SUPERVISOR_FILE}.draft"
            draft.write_bytes(generate_latest(self._registry))
            draft.replace(self._folder / SUPERVISOR_FILE)
        except OSError as error:
            # A full disk, or a cleaned temporary folder: the server works without these metrics.
            if not self._has_failed:
                _LOGGER.warning("cannot write the metrics of processes: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False

    def _sample(self) -> None:
        self._alive = defaultdict(list)
        for role, pid in registered_processes(self._folder):
            values = _values_of(pid)
            if not values:
                forget_process(pid, self._folder)
                self._cpu_of.pop(pid, None)
                continue
            cpu = values["process_cpu_seconds"]
            self._cpu[role] += cpu - self._cpu_of.get(pid, 0.0)
            self._cpu_of[pid] = cpu
            self._alive[role].append(values)

    def collect(self) -> Iterator[Metric]:
        count = _gauge("count", "Live processes")
        memory = _gauge("resident_memory_bytes", "Resident memory of the processes")
        files = _gauge("open_fds", "Open files and connections of the processes")
        start = _gauge("start_time_seconds", "Start time of the youngest process")
        for role, processes in self._alive.items():
            count.add_metric([role], len(processes))
            memory.add_metric([role], _sum(processes, "process_resident_memory_bytes"))
            files.add_metric([role], _sum(processes, "process_open_fds"))
            youngest = max(each["process_start_time_seconds"] for each in processes)
            start.add_metric([role], youngest)
        cpu = CounterMetricFamily("lakebed_process_cpu_seconds", "CPU time", labels=["role"])
        for role, seconds in self._cpu.items():
            cpu.add_metric([role], seconds)
        restarts = CounterMetricFamily(
            "lakebed_process_restarts", "Restarts of processes", labels=["role"]
        )
        for role, number in self._restarts.items():
            restarts.add_metric([role], number)
        yield from (count, memory, files, start, cpu, restarts)


def _gauge(name: str, meaning: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lakebed_process_{name}", meaning, labels=["role"])


def _sum(processes: list[dict[str, float]], name: str) -> float:
    return sum(each.get(name, 0.0) for each in processes)


def _values_of(pid: int) -> dict[str, float]:
    """Return the values of one process by name, or an empty dict if it has ended."""
    found = ProcessCollector(pid=lambda: pid, registry=None).collect()
    return {metric.name: metric.samples[0].value for metric in found}
