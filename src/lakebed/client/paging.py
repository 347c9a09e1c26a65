"""Lists that come in pages, followed to their end."""

from collections.abc import Iterator
from typing import Any, Final

from lakebed.client.errors import UnexpectedAnswer
from lakebed.client.http import Client, Query

PAGE_SIZE: Final = 1000
"""As many as a server gives at once."""


def list_pages(
    client: Client, *path: str, query: Query | None = None, limit: int | None = None
) -> Iterator[list[dict[str, Any]]]:
    """The pages of a list, each fetched when the one before it has been used.

    Args:
        client: Where from.
        path: The list's path.
        query: What is asked for, apart from the place in the list.
        limit: At most so many items in all.

    Raises:
        UnexpectedAnswer: The answer is no page, or the list does not get on.
        Refused: The server says no.
        Unreachable: It says nothing.
    """
    after, left = "", limit
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
    client: Client, *path: str, query: Query | None = None, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """The items of a list; see `list_pages`."""
    for page in list_pages(client, *path, query=query, limit=limit):
        yield from page


def _checked(page: Any, name: str) -> tuple[list[dict[str, Any]], bool, str]:
    try:
        pagination = page["pagination"]
        return list(page["results"]), bool(pagination["has_more"]), str(pagination["next_offset"])
    except (TypeError, KeyError):
        raise UnexpectedAnswer(
            f"the server answers {name} with something else than a list"
        ) from None
