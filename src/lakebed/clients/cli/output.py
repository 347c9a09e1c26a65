"""Output of a command: readable on a terminal, tabbed in a pipe, or JSON.

On a terminal, listings are tables. In a pipe, listings have a tabbed line for each item, records a
tabbed line for each field, with unrounded numbers and whole ids. Control characters in data from
the server are escaped. With `--json`, a listing is one array of the server's objects, streamed.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import msgspec

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
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
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
    """Return the lines of a table, titles first; `terminal_width`: None means the terminal's.

    In rows that are too long, the longest texts are shortened with a `…`, but not ids, times and
    sizes, which would be useless.
    """
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


__all__ = [
    "Column",
    "CommitId",
    "Output",
    "Size",
    "Whole",
    "coloured",
    "moment",
    "printable",
    "size",
    "stamp",
    "warn",
]


class Output:
    """Printer of results on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def table(self, items: Iterable[ItemT], columns: Sequence[Column[ItemT]]) -> None:
        """Print a listing that fits into memory."""
        if self.as_json:
            _print_array(items)
        elif sys.stdout.isatty():
            print(*table_lines(items, columns), sep="\n")
        else:
            _print_tabbed(items, columns)

    def lines(
        self, items: Iterable[ItemT], line: Callable[[ItemT], str], columns: Sequence[Column[ItemT]]
    ) -> None:
        """Print a listing of any length, streaming."""
        if self.as_json:
            _print_array(items)
        elif sys.stdout.isatty():
            for item in items:
                print(line(item))
        else:
            _print_tabbed(items, columns)

    def record(self, item: "msgspec.Struct | Mapping[str, object]") -> None:
        fields: dict[str, object] = _builtins(item)
        if self.as_json:
            _print_json(fields)
        elif sys.stdout.isatty():
            titles = {name: name.replace("_", " ").capitalize() + ":" for name in fields}
            self._aligned({titles[name]: _shown(name, value) for name, value in fields.items()})
        else:
            for name, value in fields.items():
                print(for_scripts([name, _shown(name, value)]))

    def pairs(self, pairs: Mapping[str, str]) -> None:
        """Print user-defined names and their values."""
        if self.as_json:
            _print_json(pairs)
        elif sys.stdout.isatty():
            self._aligned({f"{printable(name)}:": printable(pairs[name]) for name in sorted(pairs)})
        else:
            for pair in sorted(pairs.items()):
                print(for_scripts(pair))

    @staticmethod
    def _aligned(texts: Mapping[str, str]) -> None:
        width = max(map(len, texts), default=0)
        for title, text in texts.items():
            print(f"{title:<{width}} {text}".rstrip())

    def done(
        self, sentence: str, item: "msgspec.Struct | Mapping[str, object] | None" = None
    ) -> None:
        """Print a result sentence or, with `--json`, the item."""
        if self.as_json:
            _print_json(item if item is not None else {})
        else:
            print(printable(sentence))


def warn(line: str) -> None:
    """Print a line on stderr."""
    print(printable(line), file=sys.stderr)


def coloured(text: str, colour: str) -> str:
    """Return a colored text, unless colors are disabled."""
    return f"\x1b[{colour}m{text}\x1b[0m" if is_coloured() else text


def moment(seconds: object) -> Whole:
    """Format a time stamp of the API in the local time zone."""
    if not isinstance(seconds, int):
        return Whole()
    try:
        local = datetime.fromtimestamp(seconds, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return Whole(seconds)
    return Whole(local.isoformat(" ", "seconds"))


def stamp(moment: datetime | None) -> Whole:
    """Format a time of the API as the server writes it."""
    return Whole("" if moment is None else _builtins(moment))


def size(count: object) -> str:
    """Format a number of bytes, rounded."""
    return Size(count).rounded if isinstance(count, int) else ""


def _shown(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(key)}={printable(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(printable(item) for item in value)
    if name.endswith(("_date", "time", "expiry")) and isinstance(value, int):
        return moment(value)
    return printable(value)


def _print_tabbed(items: Iterable[ItemT], columns: Sequence[Column[ItemT]]) -> None:
    for item in items:
        print(for_scripts(value(item) for _, value in columns))


def _print_json(value: object) -> None:
    print(_encoded(value, indent=2))


def _print_array(items: Iterable[object]) -> None:
    """Print an array item by item, in constant memory."""
    separator = "["
    for item in items:
        print(f"{separator}\n  {_encoded(item)}", end="")
        separator = ","
    print("[]" if separator == "[" else "\n]")


def _encoded(value: object, *, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_builtins)


def _builtins(value: object) -> Any:
    import msgspec  # slow to import

    return msgspec.to_builtins(value)
