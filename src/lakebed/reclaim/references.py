"""References to an object of a repository: uploads, staged entries, commits.

They are read in the order in which objects move, as in `prepare`. Commits stored before the object
was issued cannot reference the object, and are not read; each range is read once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import Address
from lakebed.engine.engine import Engine
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, Commit, Repository
from lakebed.engine.staging.cells import all_values, parse_all, path_of
from lakebed.formats import MetaRangeID
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv import Store
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.keys import LINKS, MULTIPARTS

_RECORDS: Final = 1024


@dataclass(frozen=True, slots=True)
class StagedReference:
    """A staged entry by which an object is kept."""

    branch: BranchID
    path: bytes
    is_replaced: bool
    """Whether the entry replaced the object, which may be restored."""


class References:
    """Search for the references to an object."""

    def __init__(
        self, engine: Engine, store: Store, repository: Repository, address: Address
    ) -> None:
        self._spellings = {str(address)}
        issued: ObjectPath | None = None
        if not repository.has_adopted(str(address)):
            path = repository.namespace.relative(address)
            issued = ObjectPath.parse(path)
            assert issued is not None, "not collected"
            self._spellings.add(path)
        self._engine = engine
        self._store = store
        self._repository = repository
        self._issued = issued
        """None if the object was adopted from lakeFS."""

    def upload(self) -> pb.Link | pb.MultipartUpload | None:
        """Return the upload record for which the object's address was issued, or None."""
        if self._issued is None:
            return None
        name, partition = self._issued.uid.encode(), self._repository.partition
        link = Records(self._store, LINKS, partition).find(name)
        if link is not None:
            return link.message
        upload = Records(self._store, MULTIPARTS, partition).find(name)
        return None if upload is None else upload.message

    def staged(self) -> Iterator[StagedReference]:
        """Yield the staged entries that reference the object, or may restore it."""
        for branch in self._engine.branches.list_referencing(self._repository):
            yield from self._staged_on(branch)

    def _staged_on(self, branch: Branch) -> Iterator[StagedReference]:
        for token in branch.tokens:
            items = self._store.scan(token.encode(), STAGED_PREFIX)
            while page := list(islice(items, _RECORDS)):
                # A proposal may become visible, so its object is kept as well.
                rows = list(all_values(page))
                for (name, _), message in zip(rows, parse_all(rows), strict=True):
                    path = path_of(name)
                    if message.entry.address in self._spellings:
                        yield StagedReference(branch.id, path, is_replaced=False)
                    elif message.replaced_address in self._spellings:
                        yield StagedReference(branch.id, path, is_replaced=True)

    def committed(self, commits: Iterable[Commit], *, skew_us: int) -> tuple[Commit, bytes] | None:
        """Return the first commit referencing the object, and its path in the commit, or None.

        Raises:
            MissingFile, DamagedFile, ForeignFile: A file of a commit is unreadable.
        """
        since_us = 0 if self._issued is None else self._issued.issued_us - skew_us
        first: dict[MetaRangeID, Commit] = {}
        for commit in commits:
            if not commit.stored_us or commit.stored_us >= since_us:
                first.setdefault(commit.metarange_id, commit)
        spellings = pa.array(self._spellings, pa.string())
        tables = self._engine.committed(self._repository).scan_each(first)
        for metarange_id, table in tables:
            found = table.filter(pc.is_in(table.column("address"), spellings))
            if found.num_rows:
                return first[metarange_id], found.column("key")[0].as_py()
        return None
