"""Search for objects by a part of their paths, in bounded steps."""

from dataclasses import dataclass
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.engine.model import RepositoryID
from lakebed.lake.model import ObjectStats
from lakebed.lake.object_pages import ObjectPage
from lakebed.lake.objects import Objects

SCANNED_MAX: Final = 100_000
"""Objects scanned by one request."""
SECONDS_MAX: Final = 5.0
"""Time limit of one request."""
STEP: Final = 1000
"""Objects per listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Objects whose paths contain a text, and the end of the scan."""

    objects: list[ObjectStats]
    has_more: bool
    """Whether unscanned objects remain."""
    last: bytes
    """The last path scanned: the next search continues after it."""


class ObjectSearch:
    """Searches objects by path; limits the objects and the time of each search."""

    def __init__(self, objects: Objects, runtime: Runtime) -> None:
        self._objects = objects
        self._runtime = runtime

    @traced("catalog.search")
    def find(
        self, repository_id: RepositoryID, ref: str, text: str, query: EntryQuery
    ) -> SearchResult:
        """Find objects of a ref whose paths contain a text after the prefix, ignoring case.

        Scans at least one listing, so repeating from `last` reaches the end.
        """
        until = self._runtime.monotonic() + SECONDS_MAX
        wanted = text.casefold()
        found: list[ObjectStats] = []
        scanned, last = 0, query.after
        while True:
            step = EntryQuery(prefix=query.prefix, after=last, amount=STEP)
            page = self._objects.list_objects(repository_id, ref, step)
            found += _matching(page, len(query.prefix), wanted)
            if len(found) > query.amount:
                kept = found[: query.amount]
                return SearchResult(objects=kept, has_more=True, last=kept[-1].path)
            scanned, last = scanned + len(page), page.last
            is_over = scanned >= SCANNED_MAX or self._runtime.monotonic() >= until
            if not page.has_more or is_over or len(found) == query.amount:
                return SearchResult(objects=found, has_more=page.has_more, last=last)


def _matching(page: ObjectPage, skipped: int, wanted: str) -> list[ObjectStats]:
    """Return the objects of a page whose paths contain a text after `skipped` bytes."""
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
