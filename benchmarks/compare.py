"""Speed of a server of these sources against one of another commit, operation by operation.

Both servers run on this machine, with the same libraries, and are asked in turns: one round of all
operations each, then the next round. What is printed for an operation is the median of the ratios
of the rounds: how many times as fast as the other commit.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.compare_operations import Sizes, measure_round
from benchmarks.report import Row, report
from benchmarks.scratch import scratch_folder
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from lakebed.testing.servers.postgresql import PostgreSQLServer, postgresql_server

ROOT = Path(__file__).parents[1]
BARS = {
    "small merge": 3.0,
    "branch, upload and commit": 2.7,
    "staged listing": 1.9,
    "first page of uncommitted changes": 1.8,
    "commit of some over many": 1.8,
    "commit of many": 1.9,
    "staging by the API": 1.2,
    "download of a large object": 1.3,
    "upload of a large object": 1.2,
}
POSTGRESQL_BARS = {"staging by the API": 2.0}
"""How many times as fast as the commit before the work on speed began, f559b0f0."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="a commit, or a folder with its sources")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--postgresql", action="store_true", help="both on one PostgreSQL")
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    given = parser.parse_args(arguments)
    sizes = Sizes.tiny() if given.tiny else Sizes()
    rounds = 1 if given.tiny else given.rounds
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        sources = stack.enter_context(checked_out(given.base, folder / "base"))
        database: PostgreSQLServer | None = None
        if given.postgresql:
            database = stack.enter_context(postgresql_server(durable=True))
        old = stack.enter_context(started(folder / "old", sources, database))
        new = stack.enter_context(started(folder / "new", ROOT, database))
        results = [
            (measure_round(old, number, sizes), measure_round(new, number, sizes))
            for number in range(rounds)
        ]
    bars = BARS if database is None else POSTGRESQL_BARS
    driver = "sqlite" if database is None else "postgresql"
    return report([row(operation, driver, bars, results) for operation in BARS])


@contextmanager
def checked_out(base: str, place: Path) -> Iterator[Path]:
    """Give a folder with the sources of a commit."""
    if Path(base).is_dir():
        yield Path(base)
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--detach", "--quiet", str(place), base], check=True)
    try:
        yield place
    finally:
        subprocess.run([*git, "remove", "--force", str(place)], check=True)


@contextmanager
def started(
    folder: Path, sources: Path, database: PostgreSQLServer | None
) -> Iterator[LakebedServer]:
    """Start a server of these sources, on a database of its own."""
    folder.mkdir()
    settings = {"logging": {"level": "warning"}}
    if database is not None:
        settings["database"] = {"url": database.create_database()}
    environment = {"PYTHONPATH": str(sources / "src")}
    with lakebed_server(folder, settings=settings, environment=environment) as server:
        yield server


def row(
    operation: str,
    driver: str,
    bars: Mapping[str, float],
    results: list[tuple[dict[str, float], dict[str, float]]],
) -> Row:
    """Return the line of an operation, given the seconds that each side took in each round."""
    ratios = [old[operation] / new[operation] for old, new in results]
    rate = median(1 / new[operation] for _, new in results)
    return Row(operation, driver, rate, median(ratios), bars.get(operation))


if __name__ == "__main__":
    sys.exit(main())
