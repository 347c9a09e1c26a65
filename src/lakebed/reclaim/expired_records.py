"""Removal of expired records (links, multipart uploads, tasks, imports, pins) and open uploads.

Merges of pull requests whose process died are finished here, too.

The Cleaner deletes these records only with their whole repository. Each record has an expiry time,
except pins, which end with their objects (see `lakebed.lake.etag_pins`). So this may run anywhere,
at any time, and several times at once.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from operator import attrgetter
from typing import Final, Literal, TypeVar

from google.protobuf.message import Message

from lakebed.base.runtime import Runtime, UniqueID, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockError, BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.formats.layout import import_folder
from lakebed.formats.object_paths import ObjectUID, issued_us
from lakebed.kv import CorruptRecord, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.catalog import Catalog
from lakebed.lake.errors import MultipartNotFound, UploadNotUnfinished
from lakebed.lake.keys import IMPORTS, LINKS, MULTIPARTS, PINS, TASKS
from lakebed.lake.links import Links
from lakebed.lake.links import is_over as is_link_over
from lakebed.lake.multipart.records import is_over as is_upload_over
from lakebed.lake.multipart.uploads import MultipartUploads
from lakebed.lake.settings import CatalogSettings
from lakebed.lake.tasks import has_died

PAUSE_SECONDS: Final = 0.05
"""Pause between two repositories, to yield to other threads."""

CHECKED_MAX: Final = 100
"""Pins checked per repository in one run; the next run continues from there."""

MessageT = TypeVar("MessageT", bound=Message)

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class ExpiredCounts:
    """Counts of one run."""

    repositories: int = 0
    """Repositories scanned."""
    links: int = 0
    multiparts: int = 0
    tasks: int = 0
    imports: int = 0
    pins: int = 0
    pulls: int = 0
    """Interrupted merges of pull requests that were finished."""
    uncertain: int = 0
    """Kinds of records in a repository that were skipped, because of an unknown outcome or a
    damaged record. The next run retries them."""


class ExpiredRecords:
    """Removes expired records; each method of one kind returns the number removed."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._block = block
        self._runtime = runtime
        self._settings = settings
        self._positions: dict[UniqueID, bytes] = {}
        """Where the next run begins to check pins; by default at the first."""

    def run_once(self) -> ExpiredCounts:
        """Remove the expired records of all repositories.

        Raises:
            StoreUnavailable: The store did not answer; the next run continues.
        """
        counts = ExpiredCounts()
        kinds: dict[str, Callable[[Repository], int]] = {
            "links": self.links,
            "multiparts": self.multiparts,
            "tasks": self.tasks,
            "imports": self.imports,
            "pins": self.pins,
            "pulls": self._catalog.pulls.merger.recover_all,
        }
        for repository in self._catalog.repositories.list_readable():
            counts.repositories += 1
            for kind, remove in kinds.items():
                try:
                    setattr(counts, kind, getattr(counts, kind) + remove(repository))
                except StoreUnavailable:
                    raise
                except (OutcomeUnknown, CorruptRecord) as error:
                    _LOGGER.warning(
                        "skipped the %s of repository %s: %s", kind, repository.id, error
                    )
                    counts.uncertain += 1
            self._runtime.sleep(PAUSE_SECONDS)
        return counts

    def links(self, repository: Repository) -> int:
        links, now = Records(self._store, LINKS, repository.partition), self._runtime.now()
        return _remove_where(
            links, lambda record: is_link_over(record.message, self._settings, now)
        )

    def multiparts(self, repository: Repository) -> int:
        """Remove expired uploads and old records of completed ones."""
        removed = 0
        for record in Records(self._store, MULTIPARTS, repository.partition).scan_readable():
            if is_upload_over(record.message, self._settings, self._runtime.now()):
                try:
                    self._catalog.multiparts.drop(repository, record)
                    removed += 1
                except MultipartNotFound:
                    pass  # concurrently completed or dropped
                except BlockError as error:
                    _LOGGER.warning(
                        "upload %s has expired, but the storage refused to drop it: %s; the next"
                        " run retries",
                        record.name.decode(),
                        error,
                    )
        return removed

    def tasks(self, repository: Repository) -> int:
        settings, now = self._settings, self._runtime.now()
        overdue_us = to_us(now - settings.task_life_seconds)

        def is_over(record: Record[pb.Task]) -> bool:
            task = record.message
            ended = task.state != pb.TASK_STATE_RUNNING or has_died(task, settings, now)
            return ended and task.updated_us < overdue_us

        return _remove_where(Records(self._store, TASKS, repository.partition), is_over)

    def imports(self, repository: Repository) -> int:
        """Remove the records of ended imports, and the listings left by dead jobs."""
        overdue_us = to_us(self._runtime.now() - self._settings.task_life_seconds)
        forgotten_us = overdue_us - to_us(self._settings.task_life_seconds)

        def is_over(record: Record[pb.Import]) -> bool:
            running = record.message.state == pb.IMPORT_STATE_RUNNING
            if record.message.updated_us >= (forgotten_us if running else overdue_us):
                return False
            if record.message.outside:
                folder = repository.namespace.folder(import_folder(record.name.decode()))
                for batch in self._block.list_objects(folder):
                    for address in batch.column("address").to_pylist():
                        self._block.delete(Address.parse(address))
            return True

        return _remove_where(Records(self._store, IMPORTS, repository.partition), is_over)

    def pins(self, repository: Repository) -> int:
        """Remove pins of deleted objects; check at most `CHECKED_MAX`."""
        pins = Records(self._store, PINS, repository.partition)
        start = self._positions.pop(repository.unique_id, b"")
        broken: list[bytes] = []
        records = list(pins.scan_readable(broken.append, start=start, limit=CHECKED_MAX))
        removed = 0
        for record in records:
            try:
                if self._is_pin_over(repository, record):
                    pins.delete_if(record.name, record.predicate)
                    removed += 1
            except PredicateFailed:
                continue
            except BlockError as error:
                _LOGGER.warning(
                    "pins of repository %s were not cleaned up: %s", repository.id, error
                )
                break
        names = [*broken, *(record.name for record in records)]
        if len(names) == CHECKED_MAX:
            self._positions[repository.unique_id] = max(names) + b"\0"
        return removed

    def _is_pin_over(self, repository: Repository, record: Record[pb.Pin]) -> bool:
        # Presigned URLs to write objects of this age have expired: see `CatalogSettings.check`.
        age = self._settings.min_age_seconds + self._settings.skew_seconds
        is_old = issued_us(ObjectUID(record.name.decode())) < to_us(self._runtime.now() - age)
        return is_old and not self._block.exists(
            repository.namespace.address(record.message.address)
        )


def _remove_where(records: Records[MessageT], is_over: Callable[[Record[MessageT]], bool]) -> int:
    """Remove records that are over, except concurrently changed ones; return their number."""
    removed = 0
    for record in records.scan_readable():
        if is_over(record):
            with suppress(PredicateFailed):
                records.delete_if(record.name, record.predicate)
                removed += 1
    return removed


@dataclass(frozen=True, slots=True)
class IncompleteUpload:
    """An upload neither finished nor ended."""

    id: str
    kind: Literal["multipart", "link"]
    branch: BranchID
    path: bytes
    address: Address
    begun: datetime


class UnfinishedUploads:
    """The unfinished uploads of all repositories; methods raise `RepositoryNotFound`.

    They block a collection that assumes no concurrent writers. *Multipart uploads* were not
    completed, or the completing request died. *Links* are issued addresses that were not linked
    since, or whose linking request died. Both expire, some after days, and can be ended before.

    The bytes of an ended upload are garbage. A concurrent request to finish the upload succeeds if
    its entry exists already, and keeps the object; otherwise the request is undone (see
    `lakebed.lake.links` and `lakebed.lake.multipart.complete`).
    """

    def __init__(self, engine: Engine, links: Links, multiparts: MultipartUploads) -> None:
        self._engine = engine
        self._links = links
        self._multiparts = multiparts

    def list(self, repository_id: RepositoryID, *, after: str = "") -> Iterator[IncompleteUpload]:
        """Yield the unfinished uploads of a repository by id, oldest first."""
        repository = self._engine.repositories.get(repository_id)
        start = after.encode() + b"\0" if after else b""
        links = (
            _unfinished(repository, "link", record)
            for record in self._links.unfinished(repository, start)
        )
        multiparts = (
            _unfinished(repository, "multipart", record)
            for record in self._multiparts.unfinished(repository, start)
        )
        return merge(links, multiparts, key=attrgetter("id"))

    @traced("catalog.end_upload")
    def end(self, repository_id: RepositoryID, upload_id: str) -> None:
        """End an upload: it can no longer be finished, and its bytes are garbage.

        Raises:
            RepositoryNotFound: The repository does not exist.
            UploadNotUnfinished: The upload does not exist, or was finished or ended meanwhile.
            OutcomeUnknown, BlockError: The upload may still exist.
        """
        repository = self._engine.repositories.get(repository_id)
        name = upload_id.encode()
        if not (self._links.end(repository, name) or self._multiparts.end(repository, name)):
            raise UploadNotUnfinished(upload_id)


def _unfinished(
    repository: Repository,
    kind: Literal["multipart", "link"],
    record: Record[pb.Link] | Record[pb.MultipartUpload],
) -> IncompleteUpload:
    upload_id, message = record.name.decode(), record.message
    return IncompleteUpload(
        id=upload_id,
        kind=kind,
        branch=BranchID(message.branch),
        path=message.path,
        address=repository.namespace.address(message.address),
        begun=to_datetime(issued_us(ObjectUID(upload_id))),
    )
