"""Search a repository for an entry with an absolute address in a namespace.

Used by adoption: objects referenced by another repository must not be deleted.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow.compute as pc

from lakebed.block import Namespace
from lakebed.engine.committed import CommittedFor
from lakebed.engine.expiry_marks import ExpiryMarks
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.staging.cells import all_values, parse_all, path_of
from lakebed.formats import MetaRangeID
from lakebed.kv import Store

_RECORDS: Final = 1024


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """An entry with its object's location."""

    path: bytes
    place: str
    """The branch or commit of the entry, for display."""


class References:
    """Search of all uncommitted changes and all unexpired commits."""

    def __init__(
        self,
        store: Store,
        branches: Branches,
        commits: Commits,
        marks: ExpiryMarks,
        committed_in: CommittedFor,
    ) -> None:
        self._store = store
        self._branches = branches
        self._commits = commits
        self._marks = marks
        self._committed_in = committed_in

    def find(self, repository: Repository, namespace: Namespace) -> ObjectReference | None:
        """Return an entry with an absolute address in a namespace, or None if none exists.

        Reads staged entries before commits, because entries move in this direction. Reads each
        range once.

        Raises:
            CorruptRecord, MissingFile, DamagedFile, ForeignFile: A record or file cannot be read.
        """
        prefix = str(namespace)
        return self._find_staged(repository, prefix) or self._find_committed(repository, prefix)

    def _find_staged(self, repository: Repository, prefix: str) -> ObjectReference | None:
        for branch in self._branches.list_referencing(repository):
            for token in branch.tokens:
                cells = self._store.scan(token.encode(), STAGED_PREFIX)
                while page := list(islice(cells, _RECORDS)):
                    rows = list(all_values(page))  # including proposals, which may become visible
                    for (key, _), message in zip(rows, parse_all(rows), strict=True):
                        # Undoing a write restores the replaced address.
                        addresses = message.entry.address, message.replaced_address
                        if any(address.startswith(prefix) for address in addresses):
                            return ObjectReference(path_of(key), f"branch {branch.id}")
        return None

    def _find_committed(self, repository: Repository, prefix: str) -> ObjectReference | None:
        expired = set(self._marks.expired(repository))
        first: dict[MetaRangeID, str] = {}
        for commit in self._commits.list(repository):
            if commit.id not in expired:
                first.setdefault(commit.metarange_id, f"commit {commit.id}")
        tables = self._committed_in(repository.files_root).scan_each(first)
        for metarange_id, table in tables:
            found = table.filter(pc.starts_with(table.column("address"), prefix))
            if found.num_rows:
                return ObjectReference(found.column("key")[0].as_py(), first[metarange_id])
        return None
