"""Lists that come in pages, followed to their end."""

from collections.abc import Iterator
from typing import Any, Final, ParamSpec, TypeVar

from msgspec.structs import replace

from lakebed.clients.http.errors import UnexpectedAnswer
from lakebed.wire.base import Page, PageQuery
from lakebed.wire.calls import BoundCall

P = ParamSpec("P")
ItemT = TypeVar("ItemT")

PAGE_SIZE: Final = 1000
"""The most that a server returns at once."""


def list_items(
    call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[ItemT]:
    """Iterate over the items of a list; see `list_pages`."""
    for page in list_pages(None, call, *args, **kwargs):
        yield from page


def list_some(
    limit: int | None, call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[ItemT]:
    """Iterate over the first items of a list; see `list_pages`."""
    for page in list_pages(limit, call, *args, **kwargs):
        yield from page


def list_pages(
    limit: int | None, call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[list[ItemT]]:
    """Iterate over the pages of a list; each is fetched when it is needed.

    Args:
        limit: At most so many items in all.
        call: The operation of a client that returns a page.
        args: The parts of its path, and a query that says behind which item to begin.
        kwargs: As `args`.

    Raises:
        UnexpectedAnswer: The answer is not a page, or the list does not advance.
        Refused: The server answered with an error.
        Unreachable: It did not answer.
    """
    ask: Any = call
    parts = [each for each in args if not isinstance(each, PageQuery)]
    queries = [each for each in (*args, *kwargs.values()) if isinstance(each, PageQuery)]
    query = replace(queries[0]) if queries else _query_of(call)
    left = limit
    while left is None or left > 0:
        query.amount = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
        page: Page[ItemT] = ask(*parts, query=query)
        results = page.results[: query.amount]
        if results:
            yield results
        if not page.pagination.has_more:
            return
        after = page.pagination.next_offset
        if after == query.after:
            raise UnexpectedAnswer(
                f"the list {call.call.endpoint.operation} begins again at {after!r}"
            )
        query.after = after
        left = None if left is None else left - len(results)


def _query_of(call: BoundCall[P, Page[ItemT]]) -> PageQuery:
    kind = call.call.endpoint.query
    assert kind is not None, "lists have a query"
    assert issubclass(kind, PageQuery), "lists have pages"
    return kind()
