"""The server's part of garbage collection: writing down what is in use.

The floor is that of commits: what is staged, read by SQLite, parsed by protobuf and written by
PyArrow alone.
"""

from pathlib import Path
from time import perf_counter

from benchmarks.engine_commit import bare_commit
from benchmarks.engine_data import LAKE, MAIN, BenchLake, open_lake, tables
from benchmarks.report import Row
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import LocalSettings, open_block
from lakebed.engine.model import BranchID
from lakebed.lake.catalog import Catalog
from lakebed.reclaim.service import Reclaim

AT_MOST_1_8_TIMES = 1 / 1.8

IDLE_SECONDS_MAX = 5.0


def measure(folder: Path, *, objects: int, branches: int) -> list[Row]:
    """Prepare with so many staged objects, and with so many branches that have none."""
    return [measure_staged(folder, objects), measure_idle(folder, branches)]


def measure_staged(folder: Path, objects: int) -> Row:
    """Write down what is staged on one branch."""
    with open_lake(folder / "staged") as lake:
        lake.stage(tables(objects))
        floors = [bare_commit(lake, folder, objects) for _ in range(2)]
        seconds = prepare(lake)
    operation = f"prepare, {objects:,} staged"
    return Row(operation, "sqlite", objects / seconds, min(floors) / seconds, AT_MOST_1_8_TIMES)


def measure_idle(folder: Path, branches: int) -> Row:
    """Look at branches on which nothing is staged."""
    with open_lake(folder / "idle") as lake:
        ThreadRuntime().map_parallel(
            lambda number: lake.engine.refs.create_branch(LAKE, BranchID(f"branch-{number}"), MAIN),
            range(branches),
        )
        seconds = prepare(lake)
    operation = f"prepare, {branches:,} idle branches, as part of {IDLE_SECONDS_MAX:g} s"
    return Row(operation, "sqlite", branches / seconds, IDLE_SECONDS_MAX / seconds, 1.0)


def prepare(lake: BenchLake) -> float:
    """Prepare a run; return the seconds that it took."""
    block = open_block(LocalSettings(lake.file.parent / "blocks"))
    runtime = ThreadRuntime()
    catalog = Catalog(lake.engine, lake.store, block, runtime)
    preparation = Reclaim(catalog, lake.engine, lake.store, block, runtime).preparation
    begun = perf_counter()
    page = preparation.prepare_uncommitted(LAKE)
    while page.continuation_token is not None:
        page = preparation.prepare_uncommitted(LAKE, token=page.continuation_token)
    preparation.prepare_commits(LAKE, run_id=page.run_id)
    return perf_counter() - begun
