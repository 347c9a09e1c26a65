"""Tables on a terminal, fitted to its width.

In rows that are too long, the longest texts are shortened with a `…`, but not ids, times and sizes,
which would be useless. Commit ids are abbreviated; all commands accept abbreviated ids.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

ItemT = TypeVar("ItemT")
Column = tuple[str, Callable[[ItemT], object]]
"""Title, and function from an item to its value."""

_GAP: Final = "  "
_SHORTEST: Final = 8
"""Minimum width of a shortened text."""
_COMMIT_DIGITS: Final = 16


class Whole(str):
    """A text that a table never shortens, such as an id."""

    __slots__ = ()


class CommitId(Whole):
    """A commit id, abbreviated on terminals."""

    __slots__ = ()

    @property
    def short(self) -> str:
        """An unambiguous abbreviation."""
        return self[:_COMMIT_DIGITS]


class Size(int):
    """A number of bytes, rounded on terminals."""

    __slots__ = ()

    @property
    def rounded(self) -> str:
        """A rounded number with a unit."""
        value, units = float(self), ["B", "kB", "MB", "GB", "TB", "PB"]
        while value >= 999.5 and len(units) > 1:  # noqa: PLR2004 (rounds to the next unit)
            value /= 1000
            units.pop(0)
        return f"{int(self)} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def printable(value: object) -> str:
    """Convert a value to text without control characters."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def format_cell(value: object) -> str:
    """Format a value for a table."""
    if isinstance(value, CommitId):
        return printable(value.short)
    return value.rounded if isinstance(value, Size) else printable(value)


def for_scripts(values: Iterable[object]) -> str:
    """Format values as a tabbed line."""
    return "\t".join(printable(value) for value in values)


def is_coloured() -> bool:
    """Whether colors and bold text are enabled: see https://no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def switch_off_colours() -> None:
    """Disable colors."""
    os.environ["NO_COLOR"] = "1"  # also for Rich


def table_lines(
    items: Iterable[ItemT], columns: Sequence[Column[ItemT]], *, terminal_width: int | None = None
) -> list[str]:
    """Return the lines of a table, titles first; `terminal_width`: None means the terminal's."""
    from rich.cells import cell_len, set_cell_size  # slow to load

    values = [[value(item) for _, value in columns] for item in items]
    shown = [[format_cell(each) for each in row] for row in values]
    rows = [[title for title, _ in columns], *shown]
    widths = [max(map(cell_len, texts)) for texts in zip(*rows, strict=True)]
    may_shrink = [
        not any(isinstance(row[place], Whole | int) for row in values)
        for place in range(len(columns))
    ]
    if terminal_width is None:
        terminal_width = shutil.get_terminal_size().columns
    _shrink(widths, may_shrink, terminal_width - len(_GAP) * (len(columns) - 1))

    def cell(text: str, width: int) -> str:
        if cell_len(text) > width:
            return set_cell_size(text, width - 1) + "…"
        return set_cell_size(text, width)

    lines = [_GAP.join(map(cell, row, widths)).rstrip() for row in rows]
    if is_coloured():
        lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
    return lines


def _shrink(widths: list[int], may_shrink: list[bool], width: int) -> None:
    """Narrow the widest columns until all fit, or none can be narrowed."""
    while sum(widths) > width:
        wide = [place for place, may in enumerate(may_shrink) if may and widths[place] > _SHORTEST]
        if not wide:
            return
        widest = max(wide, key=lambda place: widths[place])
        widths[widest] -= 1
