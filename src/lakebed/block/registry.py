"""From settings to a storage ready to use: the driver, and the wrapper around it."""

import logging
from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import Final

from lakebed.base.errors import MissingExtraError
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.block.errors import InvalidArgument
from lakebed.block.settings import (
    AzureSettings,
    BlockSettings,
    GCSSettings,
    LocalSettings,
    MemorySettings,
    S3Settings,
)
from lakebed.block.store import BlockStore
from lakebed.block.wrappers.metrics import MeteredBlockStore

_LOGGER: Final = logging.getLogger(__name__)

OpenDriver = Callable[[BlockSettings, Runtime], BlockStore]

# Settings -> module with a function `open_driver(settings, runtime)`, and the extra that it needs.
# By name, so that a vendor's library loads only where it is used.
_DRIVERS: Final = MappingProxyType(
    {
        LocalSettings: ("lakebed.block.drivers.local", None),
        MemorySettings: ("lakebed.block.drivers.memory", None),
        S3Settings: ("lakebed.block.drivers.s3", "s3"),
        GCSSettings: ("lakebed.block.drivers.gcs", "gcs"),
        AzureSettings: ("lakebed.block.drivers.azure", "azure"),
    }
)


def open_block(settings: BlockSettings, *, runtime: Runtime | None = None) -> BlockStore:
    """Open the storage that the settings describe; its calls are measured.

    Raises:
        InvalidArgument: These are not settings of a storage, they contradict each other, or a
            local root lies on a file system that cannot keep objects apart.
        MissingExtraError: The driver needs an extra that is not installed; the message says which.
        Forbidden: The local root cannot be made or used by this user.
    """
    if type(settings) not in _DRIVERS:
        raise InvalidArgument(
            f"cannot open a storage by {type(settings).__name__}: use the settings of a driver"
        )
    module, extra = _DRIVERS[type(settings)]
    try:
        open_driver: OpenDriver = import_module(module).open_driver
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("lakebed"):
            raise
        raise MissingExtraError(f"block storage by {type(settings).__name__}", extra) from error
    runtime = runtime or ThreadRuntime()
    driver = module.rpartition(".")[2]
    store = MeteredBlockStore(open_driver(settings, runtime), driver, runtime)
    _LOGGER.debug("opened block storage: %s", settings)
    return store
