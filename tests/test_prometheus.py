"""Metrics of several processes: what is written straight to their files is what is collected."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.prometheus import Counter, Gauge, Histogram

PROGRAM = """
import os
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from lakebed.prometheus import Counter, Gauge, Histogram

calls = Counter("calls", "Calls", ["kind"])
under_way = Gauge("under_way", "Under way", multiprocess_mode="livesum")
seconds = Histogram("seconds", "Seconds", ["kind"], buckets=(0.1, 1))
limit = Gauge("limit", "Limit", multiprocess_mode="livesum")

def work(number):
    under_way.inc(3)
    calls.labels(f"kind{number % 2}").inc()
    seconds.labels("a").observe((0.1, 0.2, 1.5)[number % 3])
    limit.set(number and 7)
    under_way.dec(2)

with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(300)))
limit.set(5)
for number in range(200):  # the files grow
    calls.labels(f"other{number}" * 20).inc()
child = os.fork()
if child == 0:
    work(1)
    calls.labels("child").inc(2.5)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
work(1)
registry = CollectorRegistry()
MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


def test_what_threads_and_a_forked_child_count_is_collected(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = dict(
        line.rpartition(" ")[::2] for line in done.stdout.splitlines() if line[:1] not in {"", "#"}
    )
    assert found['calls_total{kind="kind0"}'] == "150.0"
    assert found['calls_total{kind="kind1"}'] == "152.0"
    assert found['calls_total{kind="child"}'] == "2.5"
    assert found[f'calls_total{{kind="{"other199" * 20}"}}'] == "1.0"
    assert found["under_way"] == "302.0"
    assert found["limit"] == "14.0"
    assert found['seconds_bucket{kind="a",le="0.1"}'] == "100.0"
    assert found['seconds_bucket{kind="a",le="1.0"}'] == "202.0"
    assert found['seconds_count{kind="a"}'] == "302.0"
    assert float(found['seconds_sum{kind="a"}']) == pytest.approx(10 + 20.4 + 150)


def test_one_process_alone_counts_as_the_library_does() -> None:
    calls = Counter("calls_alone", "Calls", ["kind"], registry=None)
    calls.labels("a").inc()
    calls.labels("a").inc(2)
    gauge = Gauge("gauge_alone", "Gauge", registry=None)
    gauge.inc(5)
    gauge.dec()
    seconds = Histogram("seconds_alone", "Seconds", buckets=(0.1, 1), registry=None)
    for each in (0.1, 0.11, 5.0):
        seconds.observe(each)
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in (calls, gauge, seconds)
        for family in metric.collect()
        for sample in family.samples
    }
    assert values["calls_alone_total", "a"] == 3
    assert values["gauge_alone",] == 4
    assert values["seconds_alone_bucket", "0.1"] == 1
    assert values["seconds_alone_bucket", "1.0"] == 2
    assert values["seconds_alone_bucket", "+Inf"] == 3
