"""Differences between refs, as the server lists them."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from lakebed.cli.output import Item, printable
from lakebed.client.http import Client
from lakebed.client.paging import list_items

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~", "conflict": "*"}
_COLOURS: Final = {"added": "32", "removed": "31", "changed": "33", "conflict": "1;31"}


def compare(
    client: Client, repository: str, left: str, right: str, *, two_way: bool = False
) -> Iterator[dict[str, Any]]:
    """What merging `right` into `left` would change; two-way, how `right` differs from `left`."""
    return list_items(
        client,
        "repositories",
        repository,
        "refs",
        left,
        "diff",
        right,
        query={"type": "two_dot" if two_way else "three_dot"},
    )


def difference_line() -> Callable[[Item], str]:
    """How a difference is shown: a sign, in colour on a terminal, the kind and the path."""
    coloured = sys.stdout.isatty()

    def line(item: Item) -> str:
        kind = item["type"]
        text = f"{_SIGNS.get(kind, '?')} {kind:<8}  {printable(item['path'])}"
        return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if coloured and kind in _COLOURS else text

    return line
