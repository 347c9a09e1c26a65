"""Azure Blob Storage; see `lakebed.block.drivers.azure.store`."""

from lakebed.block.drivers.azure.store import AzureBlockStore
from lakebed.block.settings import AzureSettings
from lakebed.runtime import Runtime


def open_driver(settings: AzureSettings, runtime: Runtime) -> AzureBlockStore:
    """Open the storage; nothing is sent yet. See `lakebed.block.open_block`."""
    return AzureBlockStore(settings, runtime)
