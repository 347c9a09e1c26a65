"""What every benchmark prints: rates, ratios to a floor measured in the same run, and the bars."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement."""

    operation: str
    driver: str
    per_second: float
    ratio: float | None
    """Ours to the floor's; None where there is no floor."""
    bar: float | None
    """The least ratio that will do; None where it is only reported."""

    @property
    def missed(self) -> bool:
        return self.bar is not None and (self.ratio is None or self.ratio < self.bar)


def report(rows: Iterable[Row]) -> int:
    """Print a table; return the exit code: 1 if a bar is missed."""
    lines = [("operation", "driver", "per second", "ratio", "bar", "")]
    any_missed = False
    for row in rows:
        any_missed |= row.missed
        lines.append(
            (
                row.operation,
                row.driver,
                f"{row.per_second:,.0f}" if row.per_second >= 10 else f"{row.per_second:.2f}",
                "-" if row.ratio is None else f"{row.ratio:.2f}",
                "-" if row.bar is None else f"{row.bar:.2f}",
                "MISSED" if row.missed else "",
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        texts = [line[0].ljust(widths[0]), line[1].ljust(widths[1])]
        texts += [text.rjust(width) for text, width in zip(line[2:], widths[2:], strict=True)]
        print("  ".join(texts).rstrip())
    return int(any_missed)
