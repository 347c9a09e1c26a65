"""Speed of a server of these sources against one of another commit.

Both servers run on this machine, with the same libraries, on one database server and one object
store, and are measured in turns: one round each, then the next. A ratio is the median of the
ratios of the rounds: how many times as fast as the other commit. The benchmark speaks HTTP to both,
and imports nothing of the other commit.
"""

import argparse
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks import compare_operations
from benchmarks.api import Sizes, Target, in_turns, note, ratio, targets_of
from benchmarks.compare_operations import Round
from benchmarks.places import POSTGRESQL, POSTGRESQL_S3, ROOT, SQLITE, SQLITE_S3, machine_at
from benchmarks.report import Row, report
from benchmarks.scratch import scratch_folder

BAR = 0.85
LOCAL_BARS = {
    "upload 1 KiB": 0.7,
    "S3 PUT 1 KiB": 0.7,
    "upload and commit": 0.75,
    "branch, upload and commit": 0.75,
    "small merge": 0.75,
    "commit of some over many": 0.75,
}
"""Bars on SQLite and local storage, where an upload waits for the disk itself."""
COMMITS = (
    *("upload and commit", "branch, upload and commit", "small merge"),
    *("commit of some over many", "commit of many"),
)
NOISE = 0.1
"""How much less than 1.0 commits and merges may be on PostgreSQL and S3: runs differ so much."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="a commit, or a folder with its sources")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--postgresql", action="store_true", help="both on one PostgreSQL")
    parser.add_argument("--s3", action="store_true", help="both on one S3, 5 ms away")
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    given = parser.parse_args(arguments)
    place = {
        (False, False): SQLITE,
        (True, False): POSTGRESQL,
        (False, True): SQLITE_S3,
        (True, True): POSTGRESQL_S3,
    }[given.postgresql, given.s3]
    sizes = Sizes.tiny() if given.tiny else Sizes(turns=given.rounds)
    operations = compare_operations.Sizes.tiny() if given.tiny else compare_operations.Sizes()
    print(f"{place.title}, against {given.base}\n")
    with checked_out(given.base) as sources, machine_at(place) as machine:
        old, new = machine.start("old", sources), machine.start("new")
        targets = [targets_of(server, machine, sizes) for server in (old, new)]
        rows = rate_rows(targets[0], targets[1], sizes)
        seconds = [
            (Round(old, number, operations).measure(), Round(new, number, operations).measure())
            for number in range(sizes.turns)
        ]
    bars = LOCAL_BARS if place is SQLITE else dict.fromkeys(COMMITS, 1 - NOISE)
    for name in seconds[0][1]:
        as_fast = median(before[name] / after[name] for before, after in seconds)
        rows.append(Row(name, "", median(1 / after[name] for _, after in seconds), as_fast, None))
    return report([replace(row, bar=bars.get(row.operation, BAR)) for row in rows])


def rate_rows(old: list[Target], new: list[Target], sizes: Sizes) -> list[Row]:
    """Return the rows of rates, each by both servers in turns."""
    in_pairs = [target for pair in zip(old, new, strict=True) for target in pair]
    found = in_turns(in_pairs, sizes)
    return [
        Row(
            target.name,
            note(after),
            after.per_second,
            ratio(after.per_second, before.per_second),
            None,
        )
        for target, (before, _), (after, _) in zip(new, found[::2], found[1::2], strict=True)
    ]


@contextmanager
def checked_out(base: str) -> Iterator[Path]:
    """Give a folder with the sources of a commit."""
    if Path(base).is_dir():
        yield Path(base)
        return
    with scratch_folder() as folder:
        archive = folder / "sources.tar"
        git = ["git", "-C", str(ROOT), "archive", "-o", str(archive), base, "src"]
        subprocess.run(git, check=True)
        with tarfile.open(archive) as sources:
            sources.extractall(folder, filter="data")
        yield folder


if __name__ == "__main__":
    sys.exit(main())
