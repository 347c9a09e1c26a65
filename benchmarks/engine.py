"""Speed of the engine on sqlite and local storage, as ratios to a floor.

The floor is the same work done by SQLite, protobuf and PyArrow alone, in the same run. "At most n
times the floor" is the bar 1 / n.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import (
    engine_commit,
    engine_hooks,
    engine_listing,
    engine_reading,
    engine_scale,
    engine_writers,
)
from benchmarks.report import Row, report

TINY_SCALE = 0.002


def main(arguments: list[str] | None = None) -> int:
    """Measure everything and print the table; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    return report(measure(TINY_SCALE if parser.parse_args(arguments).tiny else 1.0))


def measure(scale: float) -> list[Row]:
    """Return all measurements; `scale` shrinks the number of objects."""
    million = int(1_000_000 * scale)
    alone_seconds = 10 if scale >= 1 else 0.2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            engine_commit.measure(folder, million, repeats=1),
            # It takes half a second, and one that meets something else on the machine tells little.
            engine_commit.measure(folder, million // 10, repeats=5 if scale >= 1 else 1),
            *engine_commit.measure_scale(
                folder,
                [1_000, million // 10, 10 * million],
                repeats=9 if scale >= 1 else 2,
            ),
            engine_hooks.measure(folder, commits=300 if scale >= 1 else 2),
            *engine_writers.measure_long_commit(folder, million, alone_seconds=alone_seconds),
            engine_writers.measure_racing(folder, commits=20 if scale >= 1 else 1),
            engine_listing.measure_pages(folder, int(240_000 * scale)),
            *engine_listing.measure_directories(folder, million),
            engine_scale.measure_branches(folder, 100, 10_000 if scale >= 1 else 200),
            *engine_scale.measure_prefix(folder, 1_000, million),
            engine_scale.measure_tokens(folder, 10, 100),
            *engine_reading.measure(
                folder, million, changes=million // 10, reads=1000 if scale >= 1 else 10
            ),
        ]


if __name__ == "__main__":
    sys.exit(main())
