"""Speed of small requests on PostgreSQL, as ratios to a floor in the same run. 2 workers.

The floor is that of `benchmarks.api`. The database, which syncs every commit to the disk, shares
the machine with the server and with whoever sends the requests; so the processor time of a request
is that of the server and, behind the plus sign, that of the database.
"""

import argparse
import sys

from benchmarks.performance_page import measure_on_postgresql
from benchmarks.report import report


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    tiny = parser.parse_args(arguments).tiny
    seconds, objects = (0.2, 20) if tiny else (10.0, 2000)
    return report(measure_on_postgresql(seconds=seconds, objects=objects))


if __name__ == "__main__":
    sys.exit(main())
