"""Azure Blob Storage; see `lakebed.block.drivers.azure.store`."""

from lakebed.base.runtime import Runtime
from lakebed.block.drivers.azure.store import AzureBlockStore
from lakebed.block.settings import AzureSettings


def open_driver(settings: AzureSettings, runtime: Runtime) -> AzureBlockStore:
    """Open the storage without sending a request. See `lakebed.block.open_block`."""
    return AzureBlockStore(settings, runtime)
