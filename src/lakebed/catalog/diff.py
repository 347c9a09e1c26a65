"""What differs: between two refs, or between a branch and what is staged on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakebed.catalog.entry_metadata import split
from lakebed.engine.committed import ChangeType, CommonPrefix, DiffEntry, Page, Query
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.tracing import traced


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One object that differs: as it is on the right, or as it was, if it was removed."""

    change: ChangeType
    conflict: bool
    """Whether the left changed it too, to something else."""
    path: bytes
    size: int
    """In bytes."""
    checksum: str
    mtime: datetime
    content_type: str
    metadata: Mapping[str, str] = field(hash=False)
    """The user's own."""


class Differences:
    """Compares refs of all repositories."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @traced("catalog.list_uncommitted")
    def list_uncommitted(
        self, repository_id: RepositoryID, branch: BranchID, query: Query
    ) -> Page[Difference]:
        """Return a page of what is staged on a branch and differs from its head.

        Raises:
            RepositoryNotFound, BranchNotFound: There is no such branch.
        """
        return _shown(self._engine.list_changes(repository_id, branch, query))

    @traced("catalog.diff")
    def list_between(
        self,
        repository_id: RepositoryID,
        left: str,
        right: str,
        query: Query,
        *,
        since_parting: bool = False,
    ) -> Page[Difference]:
        """Return a page of what is different on the right.

        With `since_parting`, only what the right changed since the two had their last commit in
        common ("three dots"); otherwise all that differs between them ("two dots").

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is nothing to compare.
        """
        found = self._engine.diff(repository_id, left, right, query, since_parting=since_parting)
        return _shown(found)


def _shown(page: Page[DiffEntry]) -> Page[Difference]:
    items: list[Difference | CommonPrefix] = [
        item if isinstance(item, CommonPrefix) else _difference(item) for item in page.items
    ]
    return Page(items, page.has_more)


def _difference(item: DiffEntry) -> Difference:
    entry = item.entry
    return Difference(
        change=item.change,
        conflict=item.conflict,
        path=entry.key,
        size=entry.size,
        checksum=entry.checksum,
        mtime=entry.mtime,
        content_type=entry.content_type,
        metadata=split(entry.metadata).user,
    )
