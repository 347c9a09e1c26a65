"""The table that every benchmark prints, and whether its bars were met."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: how fast, and as a ratio to a floor measured in the same run."""

    operation: str
    driver: str
    per_second: float
    ratio: float | None
    bar: float | None

    @property
    def missed(self) -> bool:
        return self.bar is not None and (self.ratio is None or self.ratio < self.bar)


def report(rows: Sequence[Row]) -> int:
    """Print the table; return 1 if a bar was missed, else 0: the exit status of a benchmark."""
    print(f"{'operation':<28} {'driver':<12} {'per second':>12} {'ratio':>7} {'bar':>5}")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        bar = "" if row.bar is None else f"{row.bar:.2f}"
        mark = "  missed" if row.missed else ""
        print(
            f"{row.operation:<28} {row.driver:<12} {row.per_second:>12,.0f}"
            f" {ratio:>7} {bar:>5}{mark}"
        )
    return int(any(row.missed for row in rows))
