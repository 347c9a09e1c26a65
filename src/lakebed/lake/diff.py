"""Differences between two refs, and uncommitted changes of a branch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from lakebed.base.tracing import traced
from lakebed.engine.committed import ChangeType, DiffEntry, EntryPage, EntryQuery
from lakebed.engine.committed.listing import differences_of
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.entry_metadata import split
from lakebed.lake.model import etag_of
from lakebed.lake.object_pages import ColumnPage


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A differing object: its right side, or its left side if it was removed."""

    change: ChangeType
    conflict: bool
    """Whether the left side changed the object too, to a different content."""
    path: bytes
    size: int
    """In bytes."""
    checksum: str
    mtime: datetime
    content_type: str
    metadata: Mapping[str, str] = field(hash=False)
    """The user's own metadata."""


class DifferencePage(ColumnPage[Difference]):
    """A page of differences: rows with the columns of `DIFF_SCHEMA`.

    Column `conflict` tells whether the left side also changed the row; absent, no row conflicts.
    """

    __slots__ = ()

    def __init__(self, page: EntryPage[DiffEntry]) -> None:
        super().__init__(page.rows, page.folded, has_more=page.has_more, values_of=_differences)


def _differences(rows: pa.Table) -> list[Difference]:
    return [
        Difference(
            change=item.change,
            conflict=item.conflict,
            path=item.entry.key,
            size=item.entry.size,
            checksum=etag_of(item.entry),
            mtime=item.entry.mtime,
            content_type=item.entry.content_type,
            metadata=split(item.entry.metadata).user,
        )
        for item in differences_of(rows)
    ]


class Differences:
    """Lists differences of all repositories.

    Methods raise `RepositoryNotFound`, `BranchNotFound`, `RefNotFound` or `InvalidRef` if a
    repository, branch or ref does not exist.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @traced("catalog.list_uncommitted")
    def list_uncommitted(
        self, repository_id: RepositoryID, branch: BranchID, query: EntryQuery
    ) -> DifferencePage:
        """Return a page of uncommitted changes that differ from the branch head."""
        return DifferencePage(self._engine.reader.list_changes(repository_id, branch, query))

    @traced("catalog.diff")
    def list_between(
        self,
        repository_id: RepositoryID,
        left: str,
        right: str,
        query: EntryQuery,
        *,
        since_merge_base: bool = False,
    ) -> DifferencePage:
        """Return a page of differences of `right` from `left`.

        With `since_merge_base`, only changes of `right` since the merge base ("three dots");
        otherwise all differences ("two dots"). Raises `Invalid` without a common ancestor.
        """
        engine = self._engine
        repository = engine.repositories.get(repository_id)
        before = engine.resolver.commit(repository, left)
        after = engine.resolver.commit(repository, right)
        committed = engine.committed(repository)
        if not since_merge_base:
            found = committed.list_diff(before.metarange_id, after.metarange_id, query)
            return DifferencePage(found)
        base = engine.merge_bases.get(repository, after.id, before.id)
        three = base.metarange_id, before.metarange_id, after.metarange_id
        return DifferencePage(committed.list_changes(*three, query))
