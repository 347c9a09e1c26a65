"""The catalog: what both doors (REST and S3) call about objects.

Paths are bytes here, refs are expressions, and what comes back are values that know where their
bytes are. The rules that keep objects and garbage collection out of each other's way are in the
parts: `uploads`, `links`, `copies`, `freshness`.
"""

from lakebed.block import BlockStore
from lakebed.catalog.addresses import Addresses
from lakebed.catalog.freshness import Freshness
from lakebed.catalog.objects import Objects
from lakebed.catalog.settings import CatalogSettings
from lakebed.catalog.uploads import Uploads
from lakebed.graveler.graveler import Graveler
from lakebed.kv import Store
from lakebed.runtime import Runtime


class Catalog:
    """The objects of all repositories. One for each process, used by its threads."""

    def __init__(
        self,
        graveler: Graveler,
        store: Store,  # noqa: ARG002 - for links and tasks
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings | None = None,
    ) -> None:
        settings = settings or CatalogSettings()
        addresses = Addresses(runtime, settings)
        freshness = Freshness(runtime, settings)
        self.objects = Objects(graveler, block, runtime, settings)
        self.uploads = Uploads(graveler, block, runtime, addresses, freshness)
