"""Speed of the key-value drivers, as ratios to a floor: the same work on the bare database."""

import argparse
import sys

from benchmarks import kv_databases, kv_postgresql, kv_sqlite
from benchmarks.report import report

TINY_SCALE = 0.002
_PARTS = {"sqlite": kv_sqlite, "postgresql": kv_postgresql}


def main(arguments: list[str] | None = None) -> int:
    """Measure every driver and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    parser.add_argument("databases", nargs="*", help="which to measure; all, if none is named")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.databases) - {*_PARTS, *kv_databases.NAMES}
    if unknown:
        parser.error(f"not measured here: {', '.join(sorted(unknown))}")
    scale = TINY_SCALE if chosen.tiny else 1.0
    rows = [
        row
        for name, part in _PARTS.items()
        if not chosen.databases or name in chosen.databases
        for row in part.measure(scale=scale)
    ]
    return report(rows + kv_databases.measure(chosen.databases, scale=scale))


if __name__ == "__main__":
    sys.exit(main())
