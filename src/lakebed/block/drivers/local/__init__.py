"""Storage in a local folder; see `lakebed.block.drivers.local.store`."""

from lakebed.base.runtime import Runtime
from lakebed.block.drivers.local.store import LocalBlockStore
from lakebed.block.settings import LocalSettings


def open_driver(settings: LocalSettings, runtime: Runtime) -> LocalBlockStore:
    """Open the folder, creating it if necessary; see `lakebed.block.open_block`."""
    return LocalBlockStore(settings.root, runtime, sync=settings.sync)
