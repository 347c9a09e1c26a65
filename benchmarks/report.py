"""The table that every benchmark prints, and its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, and its ratio to the floor measured in the same run."""

    operation: str
    driver: str
    per_second: float
    ratio: float | None
    bar: float | None

    @property
    def missed(self) -> bool:
        """Whether there is a bar and the ratio is below it."""
        return self.bar is not None and (self.ratio is None or self.ratio < self.bar)


def report(rows: Sequence[Row]) -> int:
    """Print the rows as a table; return 1 if any missed its bar, else 0."""
    head = ("operation", "driver", "per second", "ratio", "bar", "")
    lines = [head, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for operation, driver, *numbers in lines:
        left = (operation.ljust(widths[0]), driver.ljust(widths[1]))
        right = (number.rjust(width) for number, width in zip(numbers, widths[2:], strict=True))
        print("  ".join((*left, *right)).rstrip())
    return int(any(row.missed for row in rows))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.operation,
        row.driver,
        f"{row.per_second:,.0f}",
        as_ratio(row.ratio),
        as_ratio(row.bar),
        "MISSED" if row.missed else "",
    )


def as_ratio(ratio: float | None) -> str:
    """Return a ratio as tables show it: small ones to more places; nothing, if there is none."""
    if ratio is None:
        return ""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"
