"""Pages of lists."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from lakebed.engine.committed.listing import EntryQuery
from lakebed.wire.base import KeysQuery, Page, PageQuery, Pagination

ItemT = TypeVar("ItemT")
WireT = TypeVar("WireT")


def listing(query: KeysQuery) -> EntryQuery:
    """Return the part of a list of keys that a request asks for."""
    return EntryQuery(
        prefix=query.prefix.encode(),
        after=query.after.encode(),
        delimiter=query.delimiter.encode(),
        amount=query.limit,
    )


def page_of(items: list[WireT], *, has_more: bool, last: str) -> Page[WireT]:
    """Return a page, given the name of its last item."""
    return Page(pagination=pagination_of(len(items), has_more=has_more, last=last), results=items)


def pagination_of(count: int, *, has_more: bool, last: str) -> Pagination:
    """Return the pagination of a page of `count` items, given the name of the last."""
    return Pagination(has_more=has_more, next_offset=last if has_more else "", results=count)


def first_page(
    found: Iterable[ItemT],
    query: PageQuery,
    *,
    wire: Callable[[ItemT], WireT],
    name: Callable[[ItemT], str],
) -> Page[WireT]:
    """Return a page with the first items found."""
    window = list(islice(found, query.limit + 1))
    shown = window[: query.limit]
    return page_of(
        [wire(item) for item in shown],
        has_more=len(window) > len(shown),
        last=name(shown[-1]) if shown else "",
    )
