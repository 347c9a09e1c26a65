"""Purges: deletion of objects' bytes from all history, while commits, ids and diffs stay.

    1. search all history (`search`) for objects by path, prefix or checksum
    2. write a purge mark for each (`marks`)
    3. search again, until a search begun after the last mark finds nothing new
    4. write the record of the purge durably to the storage
    5. delete the bytes, with all versions kept by the storage
    6. note the deletion in the marks and in the record
    7. once no commit and no request can be in progress that began before step 3, repeat all steps
       (an undone write restores an entry that no search has seen meanwhile)

*Guarantee.* No acknowledged entry references bytes that the purge should have deleted: entries
staged before the last search are found; a copy staged later sees a mark (step 2), and is undone.
Uploads to a path after the purge of the path was requested are not selected; a checksum selects the
same bytes at any time.

*A purge that dies* has deleted some objects and marked others. Repeating it is safe, and finishes
it. Reading an object whose bytes are deleted fails with the purge's reason; an object with a mark
can be read until its bytes are deleted.

Objects outside the repository are never deleted: imported objects are counted and listed, and so
are objects of a migrated lake until the repository has adopted them.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import MOVED_NAMESPACE, Repository, RepositoryID
from lakebed.formats import AddressType
from lakebed.formats.layout import purge_folder, purge_path
from lakebed.formats.object_paths import ObjectPath
from lakebed.formats.purge_files import PURGE_SCHEMA, encode_purge
from lakebed.kv import Store
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import InvalidPurge
from lakebed.lake.model import location_of
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.backups import Backups
from lakebed.reclaim.references import PurgeQuery, PurgeSearch

OBJECTS_MAX: Final = 100_000
"""Maximum number of objects deleted by one request."""
REASON_MAX: Final = 1000

SHOWN: Final = 20
"""Number of paths and addresses of each kind listed in a report."""

NOT_REACHED: Final = (
    "backups, replicas, snapshots and soft-deleted objects of the storage",
    "copies downloaded by clients, and copies in other repositories",
    "unreferenced objects: garbage collection deletes these",
)

_ROUNDS_MAX: Final = 20
_AT_ONCE: Final = 16

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Object:
    """An object to be purged."""

    address: Address
    key: bytes
    size: int
    checksum: str
    versions: int = 0
    error: str = ""
    purged_us: int = 0


@dataclass(slots=True)
class Sample:
    """A count with the first few names."""

    count: int = 0
    first: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class PurgeReport:
    """Result of a purge."""

    purge_id: str
    dry_run: bool
    objects: int
    bytes: int
    paths: Sample
    also_at: Sample
    """Other paths sharing the same bytes: their bytes are deleted, too."""
    same_content: Sample
    """Paths of other objects with the same checksum, which stay."""
    elsewhere: Sample
    """Addresses found outside of the repository, which stay."""
    deleted: int = 0
    versions: int = 0
    failed: Sample = field(default_factory=Sample)
    """Objects that the storage refused to delete, with the reasons."""
    adoptable: str = ""
    """How to purge the objects of lakeFS that were found."""
    not_reached: tuple[str, ...] = NOT_REACHED


@dataclass(frozen=True, slots=True)
class PurgeProgress:
    """Progress of a running purge."""

    step: str
    """``searching`` (and deleting), ``waiting`` for commits in progress, or ``searching again``."""
    report: PurgeReport | None = None
    """Result of the first pass, or None during the first pass."""
    searches_again: str = ""
    """Start of the second search."""


@dataclass(slots=True)
class _SearchResult:
    """Result of one search."""

    new: dict[Address, _Object] = field(default_factory=dict)
    paths: set[bytes] = field(default_factory=set)
    also_at: set[bytes] = field(default_factory=set)
    same_content: set[bytes] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)


class Purges:
    """Purges of all repositories."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        marks: PurgeMarks,
        backups: Backups,
    ) -> None:
        longest = max(engine.scan_limit_seconds, settings.longest_request_seconds)
        self._settle_seconds = longest + settings.skew_seconds
        self._skew_us = to_us(settings.skew_seconds)
        self._engine = engine
        self._store = store
        self._block = block
        self._runtime = runtime
        self._marks = marks
        self._backups = backups

    @traced("catalog.plan_purge")
    def plan(self, repository_id: RepositoryID, query: PurgeQuery) -> PurgeReport:
        """Return the report of a purge without changing anything.

        Raises:
            RepositoryNotFound: The repository does not exist.
            InvalidPurge: Too many objects would be deleted at once.
            MissingFile, DamagedFile, ForeignFile: A commit is unreadable.
        """
        repository = self._engine.repositories.get(repository_id)
        found = self._search(repository, query, {}).new
        result = self._search(repository, query, found)
        return _report(repository, "", found.values(), result, dry_run=True)

    @traced("catalog.purge")
    def purge(
        self,
        repository_id: RepositoryID,
        query: PurgeQuery,
        *,
        reason: str,
        username: str,
        report_progress: Callable[[PurgeProgress], object] = lambda _progress: None,
    ) -> PurgeReport:
        """Delete objects from all history; see the module. `report_progress` gets the progress.

        Takes longer than a commit may take to be published.

        Raises:
            RepositoryNotFound: The repository does not exist.
            InvalidPurge: The reason is missing, or too many objects would be deleted at once.
            MissingFile, DamagedFile, ForeignFile: A commit is unreadable.
            TooManyTries, OutcomeUnknown, BlockError: The purge was interrupted: repeat it.
        """
        if not 0 < len(reason) <= REASON_MAX:
            raise InvalidPurge(f"a purge needs a reason of 1 to {REASON_MAX} characters")
        repository = self._engine.repositories.get(repository_id)
        requested_us = now_us(self._runtime)
        mark = pb.Purge(
            purge_id=f"{requested_us:016x}{self._runtime.random_bytes(4).hex()}",
            reason=reason,
            username=username,
            requested_us=requested_us,
        )
        self._backups.begin(repository, purge_id=mark.purge_id)
        _LOGGER.warning(
            "purge %s of %s %s in repository %s, requested by %s: %s",
            mark.purge_id, query.kind, quoted(query.value), repository.id, username, reason,
        )  # fmt: skip
        found: dict[Address, _Object] = {}
        report_progress(PurgeProgress("searching"))
        result = self._pass(repository, query, mark, found)
        report = _report(repository, mark.purge_id, found.values(), result, dry_run=False)
        again = to_datetime(now_us(self._runtime) + to_us(self._settle_seconds))
        report_progress(PurgeProgress("waiting", report, again.isoformat()))
        self._runtime.sleep(self._settle_seconds)
        report_progress(PurgeProgress("searching again", report))
        result = self._pass(repository, query, mark, found)
        return _report(repository, mark.purge_id, found.values(), result, dry_run=False)

    def _pass(
        self,
        repository: Repository,
        query: PurgeQuery,
        mark: pb.Purge,
        found: dict[Address, _Object],
    ) -> _SearchResult:
        """Do steps 1 to 6; add the newly found objects to `found`."""
        new: dict[Address, _Object] = {}
        # The clock of the issuing server may be ahead, so the first search allows for clock skew.
        # It finds all objects acknowledged before; later searches may meet new uploads.
        until_us = mark.requested_us + (0 if found else self._skew_us)
        for _ in range(_ROUNDS_MAX):
            result = self._search(repository, query, found | new, until_us=until_us)
            if not result.new:
                break
            until_us = mark.requested_us
            for address in result.new:
                self._marks.add(address, mark)
            new |= result.new
        else:
            raise TooManyTries(f"searching for objects to purge ({mark.purge_id})", _ROUNDS_MAX)
        found |= new
        if found:
            self._write(repository, mark, found.values())
            # All of them, each time: a recovery of the storage may have restored some.
            self._runtime.map_parallel(self._delete, list(found.values()), limit=_AT_ONCE)
            self._write(repository, mark, found.values())
        return result

    def _search(
        self,
        repository: Repository,
        query: PurgeQuery,
        known: dict[Address, _Object],
        *,
        until_us: int | None = None,
    ) -> _SearchResult:
        """Search once: for unknown objects, and for objects similar to known ones.

        Unless the query is a checksum, objects issued after `until_us` are not selected.
        """
        if query.kind == "checksum":
            until_us = None
        result = _SearchResult()
        namespace = repository.namespace
        texts = {str(address) for address in known}
        relative = (namespace.relative(each) for each in known if each in namespace)
        addresses = pa.array([*texts, *relative], pa.string())
        checksums = pa.array({each.checksum for each in known.values()} - {""}, pa.string())
        for table in PurgeSearch(self._engine, self._store, repository).tables():
            asked = query.matches(table)
            for row in table.filter(asked).to_pylist():
                self._classify(repository, row, known, result, until_us)
            rest = table.filter(pc.invert(asked))
            shares = pc.is_in(rest.column("address"), addresses)
            result.also_at.update(rest.filter(shares).column("key").to_pylist())
            alike = pc.and_not(pc.is_in(rest.column("checksum"), checksums), shares)
            result.same_content.update(rest.filter(alike).column("key").to_pylist())
            if len(known) + len(result.new) > OBJECTS_MAX:
                raise InvalidPurge(
                    f"more than {OBJECTS_MAX} objects would be purged at once: purge one prefix at"
                    " a time"
                )
        return result

    @staticmethod
    def _classify(
        repository: Repository,
        row: dict[str, Any],
        known: dict[Address, _Object],
        result: _SearchResult,
        until_us: int | None,
    ) -> None:
        namespace = repository.namespace
        address = location_of(namespace, row["address"], AddressType(row["address_type"]))
        if isinstance(address, str):
            result.elsewhere.add(address)
            return
        if not repository.has_adopted(str(address)):
            issued = ObjectPath.parse(namespace.relative(address)) if address in namespace else None
            if issued is None:
                result.elsewhere.add(str(address))
                return
            if until_us is not None and issued.issued_us > until_us:
                return
        result.paths.add(row["key"])
        if address not in known and address not in result.new:
            result.new[address] = _Object(address, row["key"], row["size"], row["checksum"])

    def _delete(self, found: _Object) -> None:
        """Do step 5, and update the mark as in step 6."""
        (result,) = self._block.delete_versions([found.address])
        found.versions += result.versions
        if result.error is not None:
            found.error = str(result.error)
            _LOGGER.warning("%s was not purged: %s", found.address, result.error)
            return
        found.error, found.purged_us = "", now_us(self._runtime)
        self._marks.record_purged(found.address, found.purged_us)

    def _write(self, repository: Repository, mark: pb.Purge, objects: Iterable[_Object]) -> None:
        """Write the current record of a purge, then remove the previous record."""
        rows = [
            {
                "purge_id": mark.purge_id,
                "address": str(each.address),
                "key": each.key,
                "size": each.size,
                "checksum": each.checksum,
                "versions": each.versions,
                "error": each.error,
                "reason": mark.reason,
                "username": mark.username,
                "requested_us": mark.requested_us,
                "purged_us": each.purged_us,
            }
            for each in objects
        ]
        data, content_id = encode_purge(pa.Table.from_pylist(rows, schema=PURGE_SCHEMA))
        written = repository.namespace.address(purge_path(mark.purge_id, content_id))
        self._block.put(written, [data])
        folder = repository.namespace.folder(purge_folder(mark.purge_id))
        for batch in self._block.list_objects(folder):
            for text in batch.column("address").to_pylist():
                if text != str(written):
                    self._block.delete(Address.parse(text))


def _report(
    repository: Repository,
    purge_id: str,
    objects: Iterable[_Object],
    result: _SearchResult,
    *,
    dry_run: bool,
) -> PurgeReport:
    found = list(objects)
    purged = [each for each in found if each.purged_us]
    failed = [f"{each.address}: {each.error}" for each in found if each.error]
    return PurgeReport(
        purge_id=purge_id,
        dry_run=dry_run,
        objects=len(found),
        bytes=sum(each.size for each in found),
        paths=_sample(map(_text, result.paths)),
        also_at=_sample(map(_text, result.also_at)),
        same_content=_sample(map(_text, result.same_content)),
        elsewhere=_sample(result.elsewhere),
        deleted=len(purged),
        versions=sum(each.versions for each in purged),
        failed=_sample(failed),
        adoptable=_adoptable(repository, result),
    )


def _adoptable(repository: Repository, result: _SearchResult) -> str:
    """Return how to purge the objects of a migrated lake, if any were found."""
    moved = repository.metadata.get(MOVED_NAMESPACE)
    count = sum(moved is not None and each.startswith(moved) for each in result.elsewhere)
    if not count or repository.adopted:
        return ""
    return (
        f"{count:,} objects of lakeFS below {moved} were kept: once lakeFS is off, adopt them with"
        f" `lakebed migrate adopt lakefs://{repository.id}`, then repeat the purge"
    )


def _sample(texts: Iterable[str]) -> Sample:
    found = sorted(texts)
    return Sample(len(found), found[:SHOWN])


def _text(key: bytes) -> str:
    return key.decode(errors="replace")
