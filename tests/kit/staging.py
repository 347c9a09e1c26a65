"""Single entries by the parts of an engine: what the catalog does with objects, without objects."""

from collections.abc import Callable
from typing import Protocol

from lakebed.base.runtime import UniqueID
from lakebed.engine.committed import EntryPage, EntryQuery
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.reading import Reading, Readings
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.writer import Condition, IsRecent, Writer, check_condition
from lakebed.formats import Entry


class Staging(Protocol):
    """An engine, or its parts."""

    @property
    def readings(self) -> Readings: ...

    @property
    def reader(self) -> Reader: ...

    @property
    def writer(self) -> Writer: ...


def get(engine: Staging, repository: RepositoryID, ref: str, key: bytes) -> Entry:
    return engine.reader.find(repository, ref, key)[1]


def list_entries(
    engine: Staging, repository: RepositoryID, ref: str, query: EntryQuery
) -> EntryPage[Entry]:
    return engine.reader.list_entries(repository, ref, query)[1]


def open_to_put(
    engine: Staging,
    repository: RepositoryID,
    branch: BranchID,
    key: bytes,
    condition: Condition | None = None,
) -> Reading:
    """Return the branch, if a write that begins now would not be refused, as uploads ask it."""
    known = engine.readings.to_write(repository, branch, key)
    if condition is not None:
        check_condition(condition, key, engine.reader.effective_entry(known, key)[0])
    return known


def put(
    engine: Staging,
    repository: RepositoryID,
    branch: BranchID,
    entry: Entry,
    *,
    condition: Condition | None = None,
    is_recent: IsRecent | None = None,
    unique_id: UniqueID | None = None,
) -> None:
    known = engine.readings.to_write(repository, branch, entry.key, unique_id=unique_id)
    if condition is None:
        engine.writer.put(known, entry, is_recent)
    else:
        engine.writer.put_if(known, entry.key, when(condition, entry), is_recent)


def delete(
    engine: Staging,
    repository: RepositoryID,
    branch: BranchID,
    key: bytes,
    *,
    condition: Condition | None = None,
) -> None:
    if condition is None:
        engine.writer.delete(engine.readings.to_write(repository, branch), key)
    else:
        known = engine.readings.to_write(repository, branch, key)
        engine.writer.delete_if(known, key, condition)


def when(condition: Condition, entry: Entry) -> Callable[[Entry | None], Entry]:
    """Return what a conditional write stages: an entry, if the condition holds."""

    def entry_for(found: Entry | None) -> Entry:
        check_condition(condition, entry.key, found)
        return entry

    return entry_for
