"""Listings of a branch: of what is staged, of directories, and of what is almost all deleted."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from benchmarks.engine_commit import SCAN, bare_values
from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, open_lake, tables, tombstones
from benchmarks.report import Row
from lakebed.block import LocalSettings, open_block
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.engine.engine import Engine
from lakebed.lake.commits import HeadChanges
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit import staging

ResultT = TypeVar("ResultT")

AT_MOST_4_TIMES = 1 / 4
SEEKS = 50


def measure_pages(folder: Path, objects: int) -> Row:
    """List staged objects page by page."""
    with open_lake(folder / "pages") as lake:
        lake.stage(tables(objects))
        floors, ours = [], []
        for _ in range(2):
            floors.append(_bare_parse(lake))
            begun = perf_counter()
            assert list_all(lake) == objects
            ours.append(perf_counter() - begun)
    operation = f"list {objects:,} staged objects by 1,000"
    return Row(operation, "sqlite", objects / min(ours), min(floors) / min(ours), AT_MOST_4_TIMES)


def list_all(lake: BenchLake) -> int:
    """List all objects of the main branch, a page at a time; return how many there are."""
    count, after, has_more = 0, b"", True
    while has_more:
        page = staging.list_entries(lake.engine, LAKE, MAIN, EntryQuery(after=after))
        count += len(page.items)
        after, has_more = page.items[-1].key, page.has_more
    return count


def _bare_parse(lake: BenchLake) -> float:
    """Seconds to scan what is staged and parse it into plain Python values."""
    with lake.bare() as connection:
        begun = perf_counter()
        rows = connection.execute(SCAN, (lake.token(),))
        while page := rows.fetchmany(EntryQuery().amount):
            [bare_values(key, value) for key, value in page]
        return perf_counter() - begun


def measure_directories(folder: Path, objects: int) -> list[Row]:
    """List ten directories over many objects, then the same when all, or all but one, are gone."""
    with open_lake(folder / "directories") as lake:
        lake.stage(tables(objects))
        rows = [_directories(folder, lake, "staged")]
        HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
        rows.append(_directories(folder, lake, "committed"))
        lake.stage(tables(objects), values=tombstones)
        rows += _emptied_twice(lake, f"list a directory under {objects:,} tombstones")
        last = max(table.column("key")[-1].as_py() for table in tables(objects))
        HeadChanges(lake.engine).reset_object(LAKE, MAIN, last)
        rows.append(_emptied(lake, 1, "same, with one object left at the end"))
    return rows


def _directories(folder: Path, lake: BenchLake, where: str) -> Row:
    """Count the calls to store and storage of a listing by an engine with an empty cache."""
    calls: list[StoreCall] = []

    def count(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        calls.append(call)
        return apply()

    store = FaultyStore(lake.store, count)
    engine = Engine(store, open_block(LocalSettings(folder / "directories" / "blocks")))
    begun = perf_counter()
    page = staging.list_entries(engine, LAKE, MAIN, EntryQuery(delimiter=b"/"))
    seconds = perf_counter() - begun
    assert page.items == [CommonPrefix(b"%d/" % number) for number in range(10)]
    counters = engine._committed_in(lake.repository.files_root).counters  # noqa: SLF001
    seeks = len(calls) + counters.ranges_read + counters.metaranges_read
    operation = f"list 10 directories, {where} ({seeks} seeks)"
    return Row(operation, "sqlite", 1 / seconds, SEEKS / seeks, 1.0)


def _emptied_twice(lake: BenchLake, operation: str) -> list[Row]:
    """The first listing leaves a note that makes the second much faster."""
    first = _seconds_to_list(lake, 0)
    again = _seconds_to_list(lake, 0)
    return [
        Row(f"{operation} ({first:.1f} s)", "sqlite", 1 / first, None, None),
        Row(f"same, once more ({again * 1000:.0f} ms)", "sqlite", 1 / again, first / again, 20.0),
    ]


def _emptied(lake: BenchLake, directories: int, operation: str) -> Row:
    seconds = _seconds_to_list(lake, directories)
    return Row(f"{operation} ({seconds * 1000:.0f} ms)", "sqlite", 1 / seconds, None, None)


def _seconds_to_list(lake: BenchLake, directories: int) -> float:
    begun = perf_counter()
    page = staging.list_entries(lake.engine, LAKE, MAIN, EntryQuery(delimiter=b"/"))
    seconds = perf_counter() - begun
    assert len(page.items) == directories, page.items
    return seconds
