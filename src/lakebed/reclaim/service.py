"""The parts of `lakebed.reclaim` that work on the record store, put together."""

from lakebed.block import BlockStore
from lakebed.catalog.catalog import Catalog
from lakebed.catalog.purge_marks import PurgeMarks
from lakebed.catalog.settings import CatalogSettings
from lakebed.engine.engine import Engine
from lakebed.kv import Store
from lakebed.reclaim.backups import Backups
from lakebed.reclaim.clocks import Clocks
from lakebed.reclaim.expirer import Expirer
from lakebed.reclaim.explain import Explanations
from lakebed.reclaim.leases import GCLeases
from lakebed.reclaim.prepare import GCPreparation
from lakebed.reclaim.purges import Purges
from lakebed.reclaim.repository_purges import RepositoryPurges
from lakebed.reclaim.retention import Retention
from lakebed.reclaim.retention_rules import RuleBook
from lakebed.reclaim.runs import GCRuns
from lakebed.reclaim.storage_marks import GCMarks
from lakebed.reclaim.unfinished import UnfinishedUploads
from lakebed.runtime import Runtime


class Reclaim:
    """What a server or the library does to delete data; one for a process and all its threads."""

    def __init__(
        self,
        catalog: Catalog,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            catalog: Its unfinished uploads can be ended.
            engine: The engine of the catalog.
            store: Leases and marks go there.
            block: The objects are there.
            runtime: Clock, chance and concurrency.
            settings: Times and bounds, the same for all processes of an installation.
        """
        settings = settings or CatalogSettings()
        marks = PurgeMarks(store)
        self.rules = RuleBook(store, runtime)
        self.expirer = Expirer(
            store, runtime, engine.marks, self.rules, expiring_seconds=engine.expiring_seconds
        )
        self.leases = GCLeases(engine, store, runtime, seconds=settings.task_heartbeat_seconds)
        self.clocks = Clocks(block, runtime, settings)
        self.retention = Retention(engine, self.rules, self.expirer, self.leases, self.clocks)
        self.backups = Backups(engine, self.expirer, store, block, runtime, marks)
        self.preparation = GCPreparation(
            engine, self.expirer, store, block, runtime, settings, self.backups
        )
        self.storage_marks = GCMarks(engine, block, runtime, settings)
        self.runs = GCRuns(engine, block, runtime)
        self.explanations = Explanations(
            engine, self.expirer, store, block, runtime, settings, marks, self.runs
        )
        self.purges = Purges(engine, store, block, runtime, settings, marks, self.backups)
        self.repository_purges = RepositoryPurges(engine, store, block, runtime, settings)
        self.unfinished = UnfinishedUploads(engine, catalog.links, catalog.multiparts)
