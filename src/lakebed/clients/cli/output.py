"""Output of a command: readable on a terminal, tabbed in a pipe, or JSON.

On a terminal, listings are tables. In a pipe, listings have a tabbed line for each item, records a
tabbed line for each field, with unrounded numbers and whole ids. Control characters in data from
the server are escaped. With `--json`, a listing is one array of the server's objects, streamed.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from lakebed.clients.cli.tables import (
    Column,
    CommitId,
    ItemT,
    Size,
    Whole,
    for_scripts,
    is_coloured,
    printable,
    table_lines,
)

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

    def record(self, item: msgspec.Struct | Mapping[str, object]) -> None:
        """Print the fields of a record."""
        fields: dict[str, object] = msgspec.to_builtins(item)
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
        self, sentence: str, item: msgspec.Struct | Mapping[str, object] | None = None
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
    return Whole("" if moment is None else msgspec.to_builtins(moment))


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
    return json.dumps(value, ensure_ascii=False, indent=indent, default=msgspec.to_builtins)
