"""Small commits on branches without action files, with hooks and without."""

from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, open_lake, tables
from benchmarks.report import Row
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import BlockStore, LocalSettings, open_block
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID
from lakebed.lake.catalog import Catalog
from lakebed.lake.commits import HeadChanges
from lakebed.lake.hooks.actions import Actions
from lakebed.lake.hooks.guard import HookGuard
from lakebed.lake.hooks.kinds import Caller
from lakebed.lake.hooks.settings import HookLimits

CHANGES = 10
NO_MEASURABLE_TIME = 0.97


def measure(folder: Path, commits: int) -> Row:
    """Commit in turns by an engine with hooks and by one without: nobody has action files."""
    with open_lake(folder / "hooks") as lake:
        block = open_block(LocalSettings(folder / "hooks" / "blocks"))
        engines = [Engine(lake.store, block), _hooked(lake, block)]
        branches = [BranchID("plain"), BranchID("hooked")]
        for branch in branches:
            lake.engine.refs.create_branch(LAKE, branch, MAIN)
        seconds: list[list[float]] = [[], []]
        for number in range(commits):
            for turn in (0, 1) if number % 2 else (1, 0):
                lake.stage(tables(CHANGES, version=number + 1), branches[turn])
                begun = perf_counter()
                HeadChanges(engines[turn]).commit(LAKE, branches[turn], REQUEST)
                seconds[turn].append(perf_counter() - begun)
    plain, hooked = map(median, seconds)
    operation = f"commit of {CHANGES} with hooks, to without"
    return Row(operation, "sqlite", 1 / hooked, plain / hooked, NO_MEASURABLE_TIME)


def _hooked(lake: BenchLake, block: BlockStore) -> Engine:
    runtime = ThreadRuntime()
    guard = HookGuard(runtime)
    engine = Engine(lake.store, block, runtime=runtime, hooks=guard)
    Actions(
        guard,
        engine,
        Catalog(engine, lake.store, block, runtime),
        lake.store,
        block,
        runtime,
        HookLimits(),
        heartbeat_seconds=60.0,
        new_caller=_no_calls,
        while_waiting=nullcontext,
    )
    return engine


def _no_calls(event: object) -> Caller:
    raise AssertionError(f"there are no action files, and yet a hook was run for {event}")
