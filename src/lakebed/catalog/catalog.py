"""The catalog: what both doors (REST and S3) call about objects.

Paths are bytes here, refs are expressions, and what comes back are values that know where their
bytes are. The rules that keep objects and garbage collection out of each other's way are in the
parts: `uploads`, `links`, `copies`, `freshness`.
"""

from lakebed.block import BlockStore
from lakebed.catalog.addresses import Addresses
from lakebed.catalog.completions import Completions
from lakebed.catalog.copies import Copies
from lakebed.catalog.foreign import ForeignObjects
from lakebed.catalog.freshness import Freshness
from lakebed.catalog.gc_marks import GCMarks
from lakebed.catalog.gc_prepare import GCPreparation
from lakebed.catalog.links import Links
from lakebed.catalog.multiparts import Multiparts
from lakebed.catalog.objects import Objects
from lakebed.catalog.presigning import Presigning, Sign
from lakebed.catalog.settings import CatalogSettings
from lakebed.catalog.stager import Stager
from lakebed.catalog.symlinks import Symlinks
from lakebed.catalog.tasks import RunInBackground, Tasks, run_inline
from lakebed.catalog.uploads import Uploads
from lakebed.graveler.graveler import Graveler
from lakebed.kv import Store
from lakebed.runtime import Runtime


class Catalog:
    """The objects of all repositories. One for each process, used by its threads."""

    def __init__(
        self,
        graveler: Graveler,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings | None = None,
        *,
        run_in_background: RunInBackground = run_inline,
        sign: Sign | None = None,
    ) -> None:
        """Put a catalog on an engine, and on the store and the storage that the engine is on.

        Args:
            graveler: The engine.
            store: Links and tasks go there too.
            block: The objects are there.
            runtime: Clock, chance and concurrency.
            settings: Times and bounds; whoever sets them calls their `check` first.
            run_in_background: Runs dumps and restores.
            sign: Signs URLs where the storage does not.
        """
        settings = settings or CatalogSettings()
        addresses = Addresses(runtime, settings)
        freshness = Freshness(runtime, settings)
        stager = Stager(graveler, block, runtime, freshness)
        self.graveler = graveler
        self.presigning = Presigning(
            block, runtime, life_seconds=settings.presign_life_seconds, sign=sign
        )
        self.objects = Objects(graveler, block, runtime, self.presigning)
        self.uploads = Uploads(graveler, block, addresses, stager)
        self.copies = Copies(graveler, block, runtime, addresses, freshness, stager)
        self.foreign = ForeignObjects(graveler, block, runtime)
        self.links = Links(
            graveler, store, block, runtime, settings, addresses, freshness, self.presigning
        )
        self.symlinks = Symlinks(graveler, block)
        self.multiparts = Multiparts(graveler, store, block, runtime, settings, addresses)
        self.completions = Completions(graveler, store, block, runtime)
        self.tasks = Tasks(graveler, store, runtime, settings, run_in_background)
        self.gc = GCPreparation(graveler, store, block, runtime, settings)
        self.gc_marks = GCMarks(graveler, block, runtime)
