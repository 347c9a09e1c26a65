"""What a page costs where there is much around it: branches, keys of a prefix, sealed tokens."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, open_lake, tables
from benchmarks.report import Row
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.engine.model import BranchID
from lakebed.lake.commits import HeadChanges
from tests.kit import staging

AT_MOST_1_5_TIMES = 1 / 1.5
REPEATS = 50
PAGE = 100
STAGED_IN_A_TOKEN = 100


def measure_branches(folder: Path, few: int, many: int) -> Row:
    """List the first branches of a few, and then of many."""
    with open_lake(folder / "branches") as lake:
        head = lake.engine.branches.get(lake.repository, MAIN).commit_id

        def first_page() -> None:
            found = islice(lake.engine.branches.list(lake.repository), PAGE)
            assert len(list(found)) == min(PAGE, few)

        for number in range(few - 1):
            lake.engine.branches.create(lake.repository, BranchID(f"b{number:06}"), head)
        small = _seconds(first_page)
        for number in range(few - 1, many - 1):
            lake.engine.branches.create(lake.repository, BranchID(f"b{number:06}"), head)
        return _compared(f"first branches of {many:,}, to of {few:,}", small, _seconds(first_page))


def measure_prefix(folder: Path, few: int, many: int) -> list[Row]:
    """List a directory as one item, with few and with many keys in it; staged, then committed."""
    lakes = [folder / f"prefix-{count}" for count in (few, many)]
    with open_lake(lakes[0]) as small, open_lake(lakes[1]) as large:
        small.stage(tables(few, directories=1))
        large.stage(tables(many, directories=1))
        rows = [_directory(small, large, f"directory of {many:,} staged, to of {few:,}")]
        for lake in (small, large):
            HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
        return [*rows, _directory(small, large, f"directory of {many:,} committed, to of {few:,}")]


def _directory(small: BenchLake, large: BenchLake, operation: str) -> Row:
    def first_page(lake: BenchLake) -> None:
        page = staging.list_entries(lake.engine, LAKE, MAIN, EntryQuery(delimiter=b"/"))
        assert page.items == [CommonPrefix(b"0/")]

    seconds = [_seconds(partial(first_page, lake)) for lake in (small, large)]
    return _compared(operation, *seconds)


def measure_tokens(folder: Path, few: int, many: int) -> Row:
    """List a page of what lies in some sealed tokens, and in many: each costs no more."""
    with open_lake(folder / "tokens") as lake:
        publisher = lake.engine.publisher

        def seal(count: int, first: int) -> None:
            for number in range(first, first + count):
                lake.stage(tables(STAGED_IN_A_TOKEN * many, first=number, step=many))
                publisher.seal(lake.repository, lake.engine.branches.get(lake.repository, MAIN))

        def first_page() -> None:
            page = staging.list_entries(lake.engine, LAKE, MAIN, EntryQuery(amount=PAGE))
            assert len(page.items) == PAGE

        seal(few, 0)
        small = _seconds(first_page)
        seal(many - few, few)
        large = _seconds(first_page)
    operation = f"page of {many} sealed tokens, to {many // few} pages of {few}"
    return Row(operation, "sqlite", 1 / large, small * (many // few) / large, 1.0)


def _compared(operation: str, small: float, large: float) -> Row:
    return Row(operation, "sqlite", 1 / large, small / large, AT_MOST_1_5_TIMES)


def _seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes that is made again and again."""
    times = []
    for _ in range(REPEATS):
        begun = perf_counter()
        call()
        times.append(perf_counter() - begun)
    return median(times)
