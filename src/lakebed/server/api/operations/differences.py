"""Pages of differences, between refs and of what is uncommitted."""

from typing import Final

from lakebed.engine.committed import ChangeType, CommonPrefix, DiffEntry
from lakebed.engine.committed import Page as EnginePage
from lakebed.formats import Entry
from lakebed.server.api.call import as_text
from lakebed.server.api.models import Diff, DiffObjectStat, Page, page_of

_TYPES: Final = {
    ChangeType.ADDED: "added",
    ChangeType.CHANGED: "changed",
    ChangeType.REMOVED: "removed",
}


def page_of_differences(found: EnginePage[DiffEntry], *, right_stats: bool = False) -> Page[Diff]:
    """Return a page of differences in the words of the API."""
    results = [_wire(item, right_stats=right_stats) for item in found.items]
    return page_of(results, has_more=found.has_more, last=results[-1].path if results else "")


def _wire(item: DiffEntry | CommonPrefix, *, right_stats: bool) -> Diff:
    if isinstance(item, CommonPrefix):
        return Diff(type="prefix_changed", path=as_text(item.key), path_type="common_prefix")
    entry = item.entry
    there = item.change is not ChangeType.REMOVED
    return Diff(
        type="conflict" if item.conflict else _TYPES[item.change],
        path=as_text(entry.key),
        path_type="object",
        size_bytes=entry.size,
        right=_stat(entry) if right_stats and there else None,
    )


def _stat(entry: Entry) -> DiffObjectStat:
    return DiffObjectStat(
        checksum=entry.checksum,
        mtime=int(entry.mtime.timestamp()),
        content_type=entry.content_type,
        metadata=dict(entry.metadata),
    )
