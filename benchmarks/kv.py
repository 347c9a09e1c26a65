"""Speed of the key-value drivers, as ratios to a floor: the same work on the bare database."""

import argparse
import sys

from benchmarks import kv_databases, kv_postgresql, kv_sqlite
from benchmarks.report import report

TINY_SCALE = 0.002


def main(arguments: list[str] | None = None) -> int:
    """Measure every driver and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    scale = TINY_SCALE if parser.parse_args(arguments).tiny else 1.0
    parts = (kv_sqlite, kv_postgresql, kv_databases)
    return report([row for part in parts for row in part.measure(scale=scale)])


if __name__ == "__main__":
    sys.exit(main())
