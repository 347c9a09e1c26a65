"""Pagination of listings."""

from collections.abc import Iterator
from typing import Any, Final, ParamSpec, TypeVar

from msgspec.structs import replace

from lakebed.clients.http.errors import UnexpectedAnswer
from lakebed.wire.base import Page, PageQuery
from lakebed.wire.calls import BoundCall

P = ParamSpec("P")
ItemT = TypeVar("ItemT")

PAGE_SIZE: Final = 1000
"""The server's largest page."""


def list_items(
    call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[ItemT]:
    """Iterate over the items of a listing; see `list_pages`."""
    for page in list_pages(None, call, *args, **kwargs):
        yield from page


def list_some(
    limit: int | None, call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[ItemT]:
    """Iterate over the first `limit` items of a listing; see `list_pages`."""
    for page in list_pages(limit, call, *args, **kwargs):
        yield from page


def list_pages(
    limit: int | None, call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[list[ItemT]]:
    """Iterate over the pages of a listing; a page is fetched on demand.

    A query in `args` or `kwargs` defines the start; `limit` counts the items of all pages.
    """
    ask: Any = call
    parts = [each for each in args if not isinstance(each, PageQuery)]
    queries = [each for each in (*args, *kwargs.values()) if isinstance(each, PageQuery)]
    query = replace(queries[0]) if queries else query_of(call)
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
                f"the listing {call.call.endpoint.operation} starts over at {after!r}"
            )
        query.after = after
        left = None if left is None else left - len(results)


def query_of(call: BoundCall[P, Page[ItemT]]) -> PageQuery:
    """Return an empty query for a listing."""
    kind = call.call.endpoint.query
    assert kind is not None, "listings have a query"
    assert issubclass(kind, PageQuery), "listings have pages"
    return kind()
