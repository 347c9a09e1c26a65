"""Composition of the catalog.

`uploads`, `links` and `copies` keep objects safe from garbage collection. Data is deleted in
`lakebed.reclaim`.
"""

from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore
from lakebed.engine.engine import Engine
from lakebed.kv import Store
from lakebed.lake.commits import HeadChanges
from lakebed.lake.copies import Copies
from lakebed.lake.diff import Differences
from lakebed.lake.etag_pins import ETagPins
from lakebed.lake.external import ExternalObjects
from lakebed.lake.imports.imports import Imports, OutsideImports
from lakebed.lake.imports.runner import ImportRunner
from lakebed.lake.links import Links
from lakebed.lake.metadata_files import MetadataFiles, Symlinks
from lakebed.lake.multipart.complete import Completions
from lakebed.lake.multipart.uploads import MultipartUploads, PresignedUploads
from lakebed.lake.objects import Objects
from lakebed.lake.presign import Presigning, Signer
from lakebed.lake.preview.previews import Previews
from lakebed.lake.pulls.pulls import Pulls
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.refs import Refs
from lakebed.lake.search import ObjectSearch
from lakebed.lake.settings import CatalogSettings, LinkSettings
from lakebed.lake.tasks import RunInBackground, Tasks, run_inline
from lakebed.lake.uploads import Addresses, Freshness, Stager, Uploads
from lakebed.lake.usage import Usage
from lakebed.lake.versions import Versions


class Catalog:
    """The operations shared by all APIs. One instance per process, used by all threads."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings | None = None,
        *,
        links: LinkSettings | None = None,
        run_in_background: RunInBackground = run_inline,
        signer: Signer | None = None,
        runs_imports: bool = True,
    ) -> None:
        """Build the catalog on an engine and the engine's stores.

        `settings` must have passed `CatalogSettings.check`. `signer` signs URLs if the storage does
        not. `run_in_background` runs dumps and restores. Without `runs_imports`, another process
        calls `import_runner` regularly.
        """
        settings = settings or CatalogSettings()
        addresses = Addresses(runtime, settings)
        freshness = Freshness(runtime, settings)
        stager = Stager(engine, block, runtime, freshness)
        purge_marks = PurgeMarks(store)
        self.storage_scheme = block.scheme
        """URL scheme of storage namespaces."""
        self.encryption = block.encryption
        """Encryption requested from the storage, or None."""
        self.repositories = engine.repositories
        self.refs = Refs(engine, store, block, runtime, purge_marks)
        self.ref_changes = engine.refs
        self.commits = HeadChanges(engine)
        self.diff = Differences(engine)
        self.presigning = Presigning(
            block, runtime, life_seconds=settings.presign_life_seconds, signer=signer
        )
        self.pins = ETagPins(store, block)
        self.objects = Objects(engine, block, runtime, self.presigning, self.pins, purge_marks)
        self.versions = Versions(engine, runtime)
        self.previews = Previews(self.objects, runtime)
        self.search = ObjectSearch(self.objects, runtime)
        self.uploads = Uploads(engine, block, addresses, stager)
        self.copies = Copies(
            engine, block, runtime, addresses, freshness, stager, self.pins, purge_marks
        )
        self.external = ExternalObjects(engine, block, runtime, stager)
        self.links = Links(
            engine,
            store,
            block,
            runtime,
            settings,
            addresses,
            freshness,
            stager,
            self.presigning,
            require_object=(links or LinkSettings()).require_object,
        )
        self.metadata_files = MetadataFiles(engine, block)
        self.symlinks = Symlinks(engine, block)
        self.multiparts = MultipartUploads(engine, store, block, runtime, settings, addresses)
        self.presigned_uploads = PresignedUploads(self.multiparts, self.presigning)
        self.completions = Completions(engine, store, block, runtime, stager, purge_marks)
        self.tasks = Tasks(engine, store, runtime, settings, run_in_background, self.refs)

        def run_imports() -> None:
            if runs_imports:
                run_in_background(self._run_waiting)

        self.imports = Imports(engine, store, block, runtime, settings, on_start=run_imports)
        self.outside_imports = OutsideImports(self.imports, runtime, on_handed=run_imports)
        self.import_runner = ImportRunner(engine, store, block, runtime, settings, self.imports)
        self.pulls = Pulls(engine, store, runtime, settings)
        self.usage = Usage(store, runtime)

    def _run_waiting(self) -> None:
        self.import_runner.run_waiting()
