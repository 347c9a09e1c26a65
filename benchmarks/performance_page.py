"""Measures rates and large objects at all places, and writes them into docs/performance.md.

Only the tables between the two marks are replaced.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from benchmarks import large
from benchmarks.api import BARS, FEW, MANY, PLACES, Rate, Sizes, note, rates_at
from benchmarks.places import ROOT, SQLITE, Place
from benchmarks.report import Row, as_ratio

PAGE: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each rate")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args(arguments)
    sizes = Sizes.tiny() if given.tiny else Sizes(seconds=given.seconds)
    size, turns = (1 << 20, 1) if given.tiny else (large.LARGE_BYTES, large.TURNS)
    begun = os.getloadavg()[0]
    parts = [f"### {each.title}\n\n{rates_table(each, rates_at(each, sizes))}" for each in PLACES]
    rows = [(each, large.large_rows(each, size, turns)) for each in large.LARGE_PLACES]
    parts.append(f"### Large objects\n\n{large_table(rows)}")
    parts.insert(0, f"Measured on {datetime.now(UTC):%Y-%m-%d} {circumstances(begun)}.")
    given.page.write_text(with_tables(given.page.read_text(), "\n\n".join(parts)))
    return 0


def with_tables(page: str, text: str) -> str:
    """Return a page with other text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page must have the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def rates_table(place: Place, rates: Sequence[Rate]) -> str:
    """Return the rates at a place as Markdown; those of lakeFS stand beside SQLite's."""
    head = [
        *("request", f"a second, {FEW} connections", "processor time"),
        *(f"a second, {MANY} connections", "processor time", "ratio to G"),
        *(["lakeFS, to G"] if place is SQLITE else []),
    ]
    lines = [_line(head), _line(["---"] * len(head))]
    for rate in rates:
        cells = [
            *(rate.name, f"{rate.few.per_second:,.0f}", note(rate.few)),
            *(f"{rate.many.per_second:,.0f}", note(rate.many), as_ratio(rate.ratio)),
            *([as_ratio(BARS.get(rate.name))] if place is SQLITE else []),
        ]
        lines.append(_line(cells))
    return "\n".join(lines)


def large_table(places: Sequence[tuple[Place, Sequence[Row]]]) -> str:
    """Return the rates of large objects as Markdown."""
    head = ["place", "transfer", "MB/s", "beside", "ratio"]
    lines = [_line(head), _line(["---"] * len(head))]
    for place, rows in places:
        for row in rows:
            cells = [place.title, row.operation, f"{row.per_second:,.0f}", row.driver]
            lines.append(_line([*cells, as_ratio(row.ratio)]))
    return "\n".join(lines)


def circumstances(load_before: float) -> str:
    """Return the tree, the machine, and its load before the measurements began."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    tree = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"at commit {tree or 'unknown'}: {os.cpu_count()} processors ({platform.machine()}),"
        f" {memory:.0f} GiB, {platform.system()} {platform.release().partition('-')[0]},"
        f" Python {platform.python_version()}, load average {load_before:.1f} at the start"
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
