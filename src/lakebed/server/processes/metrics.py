"""Metrics about the processes of a server, by their role: supervisor, worker, background, builder.

The metrics library has none of them when there are several processes. So each process leaves a
mark in the folder of the metrics (`lakebed.server.http.metrics.mark_process`), and the supervisor
samples all that are marked. It writes what it knows into a file of the same folder, which whoever
is asked for ``/metrics`` appends to the rest. Without ``/proc`` (other than Linux) only the
restarts are known.

- ``lakebed_process_count``: processes that are alive.
- ``lakebed_process_resident_memory_bytes``, ``lakebed_process_open_fds``: summed over these.
- ``lakebed_process_start_time_seconds``: when the youngest of them was started.
- ``lakebed_process_cpu_seconds_total``: CPU time; that of processes that ended is kept.
- ``lakebed_process_restarts_total``: processes that ended and were started again.
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

from lakebed.server.http.metrics import SUPERVISOR_FILE, forget_process, marked_processes

_LOGGER: Final = logging.getLogger(__name__)
_SAMPLE_SECONDS: Final = 2.0


class ProcessMetrics(Collector):
    """What the supervisor knows of all processes."""

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
        """Count a process that is started again."""
        self._restarts[role] += 1

    def write(self) -> None:
        """Sample the processes and write the metrics down, unless that was done a moment ago."""
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
            # A full disk, or somebody emptied the temporary folder: the server works all the same.
            if not self._has_failed:
                _LOGGER.warning("the metrics of processes cannot be written: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False

    def _sample(self) -> None:
        self._alive = defaultdict(list)
        for role, pid in marked_processes(self._folder):
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
        """Yield what was sampled last."""
        count = _gauge("count", "Processes that are alive")
        memory = _gauge("resident_memory_bytes", "Memory of the processes")
        files = _gauge("open_fds", "Files and connections that the processes have open")
        start = _gauge("start_time_seconds", "When the youngest process was started")
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
            "lakebed_process_restarts", "Processes that were started again", labels=["role"]
        )
        for role, number in self._restarts.items():
            restarts.add_metric([role], number)
        yield from (count, memory, files, start, cpu, restarts)


def _gauge(name: str, meaning: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lakebed_process_{name}", meaning, labels=["role"])


def _sum(processes: list[dict[str, float]], name: str) -> float:
    return sum(each.get(name, 0.0) for each in processes)


def _values_of(pid: int) -> dict[str, float]:
    """Return the values of one process by their usual names; nothing if it has ended."""
    found = ProcessCollector(pid=lambda: pid, registry=None).collect()
    return {metric.name: metric.samples[0].value for metric in found}
