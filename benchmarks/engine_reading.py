"""Reads of single keys, and a merge of two very different branches; these have no bars."""

import random
from pathlib import Path
from time import perf_counter

import pyarrow as pa

from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, open_lake, tables
from benchmarks.engine_writers import THREADS, in_threads
from benchmarks.report import Row
from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.model import BranchID
from lakebed.lake.commits import HeadChanges
from tests.kit import staging

DEV = BranchID("dev")


def measure(folder: Path, objects: int, *, changes: int, reads: int) -> list[Row]:
    """Read keys while they are staged and when they are committed; then merge."""
    with open_lake(folder / "reading") as lake:
        staged = list(tables(objects // 10))
        lake.stage(staged)
        keys = pa.concat_tables(staged).column("key").to_pylist()
        rows = [_reads(lake, keys, reads, "staged")]
        lake.stage(tables(objects))
        HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
        rows.append(_reads(lake, keys, reads, "committed"))
        return [*rows, _merge(lake, objects, objects // changes)]


def _reads(lake: BenchLake, keys: list[bytes], reads: int, where: str) -> Row:
    def read(thread: int) -> None:
        chance = random.Random(thread)
        for key in chance.choices(keys, k=reads):
            staging.get(lake.engine, LAKE, "main", key)

    read(0)  # fills the cache with what is committed
    seconds, _ = in_threads(read)
    return Row(f"read a {where} key, 16 threads", "sqlite", THREADS * reads / seconds, None, None)


def _merge(lake: BenchLake, objects: int, step: int) -> Row:
    """Change some objects on one branch and others on a second one, and merge them."""
    lake.engine.refs.create_branch(LAKE, DEV, "main")
    for branch, version in ((MAIN, 1), (DEV, 2)):
        lake.stage(tables(objects, version=version, step=step, first=version), branch)
        HeadChanges(lake.engine).commit(LAKE, branch, REQUEST)
    request = MergeRequest(committer="benchmark", message="both")
    begun = perf_counter()
    HeadChanges(lake.engine).merge(LAKE, MAIN, DEV, request)
    seconds = perf_counter() - begun
    changes = objects // step
    operation = f"merge of {changes:,} and {changes:,} changes over {objects:,} ({seconds:.1f} s)"
    return Row(operation, "sqlite", 2 * changes / seconds, None, None)
