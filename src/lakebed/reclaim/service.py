"""The parts of `lakebed.reclaim` with access to the record store.

`Reclaim` serves the API; `OwnServer` is the server's part of a run in the same process.
"""

from dataclasses import asdict

from lakebed.base.leases import LeaseState
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.block import BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.model import Repository
from lakebed.formats.gc_files import GCFile, GCRunID
from lakebed.kv import Store
from lakebed.lake.catalog import Catalog
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.backups import Backups
from lakebed.reclaim.expired_records import ExpiredRecords, UnfinishedUploads
from lakebed.reclaim.expirer import Clocks, Expirer, Retention
from lakebed.reclaim.explain import Explanations
from lakebed.reclaim.prepare import GCPreparation
from lakebed.reclaim.purges import Purges
from lakebed.reclaim.repository_purges import RepositoryPurges
from lakebed.reclaim.retention import RetentionRecords
from lakebed.reclaim.runs import GCLeases, GCMarkers, GCRuns


class CollectionParts:
    """The server's part in garbage collection runs; shared by the threads of a process.

    All processes of an installation must have the same `settings`.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings | None = None,
    ) -> None:
        settings = settings or CatalogSettings()
        self.block = block
        self.rules = RetentionRecords(store, runtime)
        self.expirer = Expirer(
            store, runtime, engine.marks, self.rules, expiring_seconds=engine.expiring_seconds
        )
        self.leases = GCLeases(engine, store, runtime, seconds=settings.task_heartbeat_seconds)
        self.clocks = Clocks(block, runtime, settings)
        self.retention = Retention(engine, self.rules, self.expirer, self.leases, self.clocks)
        self.purge_marks = PurgeMarks(store)
        self.backups = Backups(engine, self.expirer, store, block, runtime, self.purge_marks)
        self.preparation = GCPreparation(
            engine, self.expirer, store, block, runtime, settings, self.backups
        )


class Reclaim(CollectionParts):
    """Server functions for deleting data and explaining deletions."""

    def __init__(
        self,
        catalog: Catalog,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings | None = None,
    ) -> None:
        super().__init__(engine, store, block, runtime, settings)
        settings = settings or CatalogSettings()
        self.storage_markers = GCMarkers(engine, block, runtime, settings)
        self.runs = GCRuns(engine, block, runtime)
        self.explanations = Explanations(
            engine, self.expirer, store, block, runtime, settings, self.purge_marks, self.runs
        )
        self.purges = Purges(
            engine, store, block, runtime, settings, self.purge_marks, self.backups
        )
        self.repository_purges = RepositoryPurges(engine, store, block, runtime, settings)
        self.expired = ExpiredRecords(catalog, store, block, runtime, settings)
        self.unfinished = UnfinishedUploads(engine, catalog.links, catalog.multiparts)


class OwnServer:
    """In-process `ServerSide` for the runs of a repository."""

    def __init__(self, parts: CollectionParts, repository: Repository) -> None:
        self._parts = parts
        self._id = repository.id

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, object]:
        done = self._parts.retention.expire(
            self._id, unique_id=UniqueID(unique_id), max_share=max_share, dry_run=dry_run
        )
        return asdict(done)

    def prepare(self, unique_id: str) -> GCRunID:
        gc, meant = self._parts.preparation, UniqueID(unique_id)
        page = gc.prepare_uncommitted(self._id, unique_id=meant)
        while page.continuation_token is not None:
            page = gc.prepare_uncommitted(self._id, unique_id=meant, token=page.continuation_token)
        gc.prepare_commits(self._id, unique_id=meant, run_id=page.run_id)
        # A repository that still exists has existed while its commits were read.
        self.check_still_there(unique_id, page.run_id)
        return page.run_id

    def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
        self._parts.preparation.prepare_commits(
            self._id, unique_id=UniqueID(unique_id), run_id=run_id
        )

    def write_old_commits(
        self, unique_id: str, run_id: GCRunID, *, since_us: int, dry_run: bool
    ) -> tuple[GCFile, ...]:
        return self._parts.preparation.write_old_commits(
            self._id,
            unique_id=UniqueID(unique_id),
            run_id=run_id,
            since_us=since_us,
            dry_run=dry_run,
        )

    def take_lease(self, holder: str, over: str) -> LeaseState:
        return self._parts.leases.take(self._id, holder, over=over)

    def renew_lease(self, holder: str) -> LeaseState:
        return self._parts.leases.renew(self._id, holder)

    def end_run(self, holder: str, *, is_good: bool, next_us: int) -> None:
        self._parts.leases.end_run(self._id, holder, is_good=is_good, next_us=next_us)
