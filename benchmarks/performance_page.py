"""Measures the rates of all small requests and writes them into docs/performance.md.

The page keeps what people wrote on it; the table and the machine between the two marks are new.
"""

import argparse
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from benchmarks import api_rates
from benchmarks.api import QUIET, floor_server, unsynced_server
from benchmarks.report import Row, as_ratio, report
from benchmarks.scratch import scratch_folder
from lakebed.testing.servers.lakebed import lakebed_server
from lakebed.testing.servers.postgresql import postgresql_server

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"

LAKEFS: Final = {
    "healthcheck": 0.46,
    "get repository": 0.50,
    "stat, committed": 0.07,
    "stat, staged": 0.074,
    "GET 1 KiB": 0.07,
    "log of a short history": 0.33,
    "list 100": 0.038,
    "list 1000": 0.0063,
    "S3 LIST 1000": 0.0078,
    "S3 GET 1 KiB": 0.07,
    "upload 1 KiB": 0.027,
    "S3 PUT 1 KiB": 0.026,
    "upload 1 KiB, not synced": 0.027,
    "S3 PUT 1 KiB, not synced": 0.026,
    "create branch": 0.021,
}
"""What was measured of lakeFS 1.84, in the same G, before this page was begun (November 2026).

It never syncs objects on local storage."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the page; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args(arguments)
    seconds, objects = (0.2, 20) if given.tiny else (10.0, 2000)
    on_sqlite = measure_on_sqlite(seconds=seconds, objects=objects)
    on_postgresql = measure_on_postgresql(seconds=seconds, objects=objects)
    parts = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {machine()}.",
        f"### SQLite\n\n{table(on_sqlite, LAKEFS)}",
        f"### PostgreSQL, on the same machine\n\n{table(on_postgresql, {})}",
    ]
    given.page.write_text(with_table(given.page.read_text(), "\n\n".join(parts)))
    return report(on_sqlite) | report(on_postgresql)


def measure_on_sqlite(*, seconds: float, objects: int) -> list[Row]:
    """Return the rates of all small requests to a server on SQLite, and of uploads not synced."""
    bars = api_rates.SQLITE_BARS
    with (
        scratch_folder() as place,
        lakebed_server(place, settings=QUIET) as server,
        unsynced_server(place / "unsynced") as unsynced,
        floor_server(place, "bare") as (port, pid),
    ):
        targets = api_rates.targets_of(server, port, pid, objects=objects, bars=bars)
        targets += api_rates.unsynced_targets_of(unsynced, bars=bars)
        return api_rates.rows(targets, seconds=seconds)


def measure_on_postgresql(*, seconds: float, objects: int) -> list[Row]:
    """Return the rates of all small requests to a server on a PostgreSQL that syncs to the disk."""
    bars = api_rates.POSTGRESQL_BARS
    with postgresql_server(durable=True) as database, scratch_folder() as place:
        settings = {**QUIET, "database": {"url": database.create_database()}}
        with (
            lakebed_server(place, settings=settings) as server,
            floor_server(place, "bare") as (port, pid),
        ):
            floor, *ours = api_rates.targets_of(server, port, pid, objects=objects, bars=bars)
            ours = [replace(target, database_pid=database.pid) for target in ours]
            return api_rates.rows([floor, *ours], seconds=seconds)


def with_table(page: str, table_text: str) -> str:
    """Return a page with another table between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page must have the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table_text}\n{END}{after}"


def table(rows: Sequence[Row], lakefs: Mapping[str, float]) -> str:
    """Return what was measured, as Markdown; `lakefs` has ratios to stand beside it."""
    few, many = rows[::2], rows[1::2]
    lines = [
        (
            f"| request | a second | processor time | ratio to G | bar | lakeFS, to G |"
            f" {api_rates.MANY} connections, to {api_rates.FEW} |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for row, other in zip(few, many, strict=True):
        cells = (
            row.operation,
            f"{row.per_second:,.0f}",
            row.driver,
            as_ratio(row.ratio),
            as_ratio(row.bar),
            as_ratio(lakefs.get(row.operation)),
            as_ratio(other.ratio) or other.driver,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def machine() -> str:
    """Return what the measurements were made on."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} processors ({platform.machine()}), {memory:.0f} GiB,"
        f" {platform.system()} {platform.release().partition('-')[0]},"
        f" Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
