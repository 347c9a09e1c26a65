"""Finding objects by a part of their paths, some of a lake at a time."""

from dataclasses import dataclass
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.engine.model import RepositoryID
from lakebed.lake.model import ObjectStats
from lakebed.lake.object_pages import ObjectPage
from lakebed.lake.objects import Objects

LOOKED_AT_MAX: Final = 100_000
"""How many objects one request looks at."""
SECONDS_MAX: Final = 5.0
"""For how long one request looks."""
STEP: Final = 1000
"""How many objects are listed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Objects whose paths have a text in them, and how far the search came."""

    objects: list[ObjectStats]
    has_more: bool
    """Whether there are objects that it has not looked at."""
    last: bytes
    """The path that it looked at last: the next search goes on behind it."""


class ObjectSearch:
    """Looks for objects by their paths. How many it looks at, and for how long, is bounded."""

    def __init__(self, objects: Objects, runtime: Runtime) -> None:
        self._objects = objects
        self._runtime = runtime

    @traced("catalog.search")
    def find(
        self, repository_id: RepositoryID, ref: str, text: str, query: EntryQuery
    ) -> SearchResult:
        """Find objects of a ref whose paths have a text behind the prefix; case does not matter.

        It lists objects once at least, so whoever goes on behind `last` comes to the end.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is nothing to look at.
        """
        until = self._runtime.monotonic() + SECONDS_MAX
        wanted = text.casefold()
        found: list[ObjectStats] = []
        looked_at, last = 0, query.after
        while True:
            step = EntryQuery(prefix=query.prefix, after=last, amount=STEP)
            page = self._objects.list_objects(repository_id, ref, step)
            found += _matching(page, len(query.prefix), wanted)
            if len(found) > query.amount:
                kept = found[: query.amount]
                return SearchResult(objects=kept, has_more=True, last=kept[-1].path)
            looked_at, last = looked_at + len(page), page.last
            is_over = looked_at >= LOOKED_AT_MAX or self._runtime.monotonic() >= until
            if not page.has_more or is_over or len(found) == query.amount:
                return SearchResult(objects=found, has_more=page.has_more, last=last)


def _matching(page: ObjectPage, skipped: int, wanted: str) -> list[ObjectStats]:
    """Return the objects of a page whose paths have a text behind so many bytes."""
    keys = page.column("key").to_pylist()
    places = [
        place
        for place, key in enumerate(keys)
        if wanted in key[skipped:].decode(errors="replace").casefold()
    ]
    if not places:
        return []
    items = page.items
    found = (items[place] for place in places)
    return [item for item in found if not isinstance(item, CommonPrefix)]
