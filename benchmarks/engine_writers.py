"""Many at once: writers while a large commit runs, and committers on one branch."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from time import perf_counter
from typing import TypeVar

from prometheus_client import REGISTRY

from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, open_lake, some_entry, tables
from benchmarks.report import Row
from lakebed.engine.errors import NoChanges
from lakebed.lake.commits import HeadChanges
from tests.kit import staging

THREADS = 16
KEPT_RATE = 0.6
# A write that waited for the commit to end would take nearly as long as the commit.
COMMIT_TO_SLOWEST_WRITE = 4.0

ResultT = TypeVar("ResultT")

Span = tuple[float, float]
"""When a write began and when it was acknowledged."""


def measure_long_commit(folder: Path, objects: int, *, alone_seconds: float) -> list[Row]:
    """Let writers write, then commit what was staged before while they go on."""
    with open_lake(folder / "long-commit") as lake:
        lake.start_worker()
        lake.stage(tables(objects))
        stop = Event()
        with ThreadPoolExecutor(THREADS) as pool:
            writers = [pool.submit(_write_until, stop, lake, number) for number in range(THREADS)]
            begun = perf_counter()
            time.sleep(alone_seconds)
            commit_begun = perf_counter()
            try:
                HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
            finally:
                commit_ended = perf_counter()
                stop.set()
            spans = [span for writer in writers for span in writer.result()]
    alone = [span for span in spans if span[1] <= commit_begun]
    during = [span for span in spans if span[1] > commit_begun and span[0] < commit_ended]
    commit_seconds = commit_ended - commit_begun
    rate_alone = len(alone) / (commit_begun - begun)
    rate_during = sum(span[1] <= commit_ended for span in during) / commit_seconds
    slowest = max(end - begin for begin, end in during)
    return [
        Row("write, 16 threads", "sqlite", rate_alone, None, None),
        Row(
            f"same while {objects:,} are committed (p99 {_p99_ms(alone):.0f} -> "
            f"{_p99_ms(during):.0f} ms)",
            "sqlite",
            rate_during,
            rate_during / rate_alone,
            KEPT_RATE,
        ),
        Row(
            f"commit of {commit_seconds:.1f} s, times the slowest write ({slowest * 1e3:.0f} ms)",
            "sqlite",
            1 / commit_seconds,
            commit_seconds / slowest,
            COMMIT_TO_SLOWEST_WRITE,
        ),
    ]


def _write_until(stop: Event, lake: BenchLake, writer: int) -> list[Span]:
    spans = []
    number = 0
    while not stop.is_set():
        begun = perf_counter()
        staging.put(lake.engine, LAKE, MAIN, some_entry(b"writer-%d/%d" % (writer, number)))
        spans.append((begun, perf_counter()))
        number += 1
    return spans


def _p99_ms(spans: list[Span]) -> float:
    times = [end - begin for begin, end in spans]
    return 1e3 * (statistics.quantiles(times, n=100)[-1] if len(times) > 1 else times[0])


def measure_racing(folder: Path, commits: int) -> Row:
    """Let committers race on one branch; each writes before it commits."""
    with open_lake(folder / "racing") as lake:
        first = _head_generation(lake)
        rebuilds_before = _rebuilds()

        def commit(thread: int) -> int:
            """Commit `commits` times; return how often others had left nothing to commit."""
            trims = 0
            for number in range(commits):
                key = b"committer-%d/%d" % (thread, number)
                staging.put(lake.engine, LAKE, MAIN, some_entry(key))
                try:
                    HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
                except NoChanges:
                    trims += 1
            return trims

        seconds, trims = in_threads(commit)
        calls = THREADS * commits
        heads = _head_generation(lake) - first
        rebuilds = _rebuilds() - rebuilds_before
    # Each success of another (a new head, or dropped tokens that change nothing) costs a
    # committer at most one more build.
    bound = (THREADS - 1) * (heads + sum(trims))
    counts = f"{heads / calls:.2f} heads, {rebuilds / calls:.1f} rebuilds each"
    operation = f"racing commits, 16 threads ({counts})"
    return Row(operation, "sqlite", calls / seconds, bound / max(1, rebuilds), 1.0)


def _rebuilds() -> float:
    return REGISTRY.get_sample_value("lakebed_engine_rebuilds_total") or 0


def _head_generation(lake: BenchLake) -> int:
    branch = lake.engine.branches.get(lake.repository, MAIN)
    return lake.engine.commits.get(lake.repository, branch.commit_id).generation


def in_threads(work: Callable[[int], ResultT]) -> tuple[float, list[ResultT]]:
    """Run work in as many threads as all these benchmarks use; return how long it took."""
    barrier = Barrier(THREADS + 1)

    def run(thread: int) -> ResultT:
        barrier.wait()
        return work(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(run, thread) for thread in range(THREADS)]
        barrier.wait()
        begun = perf_counter()
        results = [future.result() for future in futures]
        return perf_counter() - begun, results
