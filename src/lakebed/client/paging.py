"""Lists that come in pages, followed to their end."""

from collections.abc import Iterator
from typing import Any, Final

from lakebed.client.errors import UnexpectedAnswer
from lakebed.client.http import Client, Query

PAGE_SIZE: Final = 1000
"""The most that a server returns at once."""


def list_pages(
    client: Client,
    *path: str,
    query: Query | None = None,
    limit: int | None = None,
    after: str = "",
) -> Iterator[list[dict[str, Any]]]:
    """Iterate over the pages of a list; each is fetched when it is needed.

    Args:
        client: The server to ask.
        path: The list's path.
        query: Further parameters, without the place in the list.
        limit: At most so many items in all.
        after: Begin behind this item.

    Raises:
        UnexpectedAnswer: The answer is not a page, or the list does not advance.
        Refused: The server answered with an error.
        Unreachable: It did not answer.
    """
    left = limit
    while left is None or left > 0:
        amount = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
        page = client.get(*path, query={**(query or {}), "after": after or None, "amount": amount})
        results, more, offset = _checked(page, "/".join(path))
        results = results[:amount]
        if results:
            yield results
        if not more:
            return
        if offset == after:
            raise UnexpectedAnswer(f"the list {'/'.join(path)} begins again at {offset!r}")
        after = offset
        left = None if left is None else left - len(results)


def list_items(
    client: Client,
    *path: str,
    query: Query | None = None,
    limit: int | None = None,
    after: str = "",
) -> Iterator[dict[str, Any]]:
    """Iterate over the items of a list; see `list_pages`."""
    for page in list_pages(client, *path, query=query, limit=limit, after=after):
        yield from page


def _checked(page: Any, name: str) -> tuple[list[dict[str, Any]], bool, str]:
    try:
        pagination = page["pagination"]
        return list(page["results"]), bool(pagination["has_more"]), str(pagination["next_offset"])
    except (TypeError, KeyError):
        raise UnexpectedAnswer(f"the server's answer to {name} is not a list") from None
