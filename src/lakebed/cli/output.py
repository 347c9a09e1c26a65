"""What a command prints: for people, or one JSON document for scripts.

For people, lists are tables on a terminal and lines with tabs in a pipe. What comes from the server
is shown as it is, except control characters, which are spelled out: no key moves the cursor.
With `--json` a list is one array of the server's own objects, written as they arrive.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Item = Mapping[str, Any]
Column = tuple[str, Callable[[Item], object]]
"""A title, and the function from an item to the text below the title."""


class Output:
    """Prints results on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def table(self, items: Iterable[Item], columns: Sequence[Column]) -> None:
        """Print a list that fits into memory."""
        if self.as_json:
            _print_array(items)
        elif sys.stdout.isatty():
            _print_table(items, columns)
        else:
            for item in items:
                print(*(printable(value(item)) for _, value in columns), sep="\t")

    def lines(self, items: Iterable[Item], line: Callable[[Item], str]) -> None:
        """Print a list of any length, as it arrives."""
        if self.as_json:
            _print_array(items)
        else:
            for item in items:
                print(line(item))

    def record(self, item: Item) -> None:
        """Print the fields of one thing."""
        if self.as_json:
            _print_json(item)
            return
        width = max((len(name) for name in item), default=0)
        for name, value in item.items():
            print(f"{_title(name):<{width + 1}} {_shown(name, value)}".rstrip())

    def done(self, sentence: str, item: Item | None = None) -> None:
        """Print a sentence about what was done; with `--json`, the item."""
        if self.as_json:
            _print_json(item if item is not None else {})
        else:
            print(printable(sentence))


def warn(line: str) -> None:
    """Print a line on stderr."""
    print(printable(line), file=sys.stderr)


def printable(value: object) -> str:
    """A value as text without control characters."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def moment(seconds: object) -> str:
    """A time stamp of the API, in the local time zone."""
    if not isinstance(seconds, int):
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def size(count: object) -> str:
    """A number of bytes, rounded for people."""
    if not isinstance(count, int):
        return ""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5 and len(units) > 1:  # noqa: PLR2004 (rounds to the next unit)
        value /= 1000
        units.pop(0)
    return f"{count} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize() + ":"


def _shown(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(key)}={printable(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(printable(item) for item in value)
    if name.endswith(("_date", "time", "expiry")) and isinstance(value, int):
        return moment(value)
    return printable(value)


def _print_table(items: Iterable[Item], columns: Sequence[Column]) -> None:
    from rich.console import Console  # noqa: PLC0415 (slow to load, and for terminals only)
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, _ in columns:
        table.add_column(title, overflow="fold")
    for item in items:
        table.add_row(*(printable(value(item)) for _, value in columns))
    # Brackets and colons in names are names, not markup and emoji.
    Console(markup=False, emoji=False, highlight=False).print(table)


def _print_json(value: Any) -> None:
    print(_encoded(value, indent=2))


def _print_array(items: Iterable[Item]) -> None:
    """Write an array item by item, so that its length does not matter."""
    separator = "["
    for item in items:
        print(f"{separator}\n  {_encoded(item)}", end="")
        separator = ","
    print("[]" if separator == "[" else "\n]")


def _encoded(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
