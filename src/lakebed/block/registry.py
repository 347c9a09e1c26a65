"""Open a storage from its settings: the driver and its wrapper.

Other packages register drivers as entry points in the group `GROUP`.
"""

import logging
from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from lakebed.base.errors import MissingExtraError
from lakebed.base.plugins import find_driver
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.block.address import GROUP
from lakebed.block.errors import InvalidArgument
from lakebed.block.settings import (
    AzureSettings,
    BlockSettings,
    GCSSettings,
    LocalSettings,
    MemorySettings,
    S3Settings,
    URLSettings,
)
from lakebed.block.store import BlockStore
from lakebed.block.wrappers.metrics import MeteredBlockStore

_LOGGER: Final = logging.getLogger(__name__)

OpenDriver = Callable[[Any, Runtime], BlockStore]
"""Opens a storage from its settings; from its URL for `URLSettings`."""

# Settings -> module with a function `open_driver(settings, runtime)`, and the required extra. By
# name, so that a vendor's library is imported only where needed.
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
    """Open the storage described by the settings, with metrics.

    Raises:
        InvalidArgument: The settings are not of a storage or contradict each other, or the file
            system of a local root is unsuitable, or no installed package has a driver for a URL.
        BrokenDriver: The driver of another package cannot be used.
        MissingExtraError: The driver needs an extra that is not installed, named in the message.
        Forbidden: This user cannot create or use the local root.
    """
    runtime = runtime or ThreadRuntime()
    if isinstance(settings, URLSettings):
        driver = settings.url.partition(":")[0]
        store = _open_registered(driver)(settings.url, runtime)
        return MeteredBlockStore(store, driver, runtime)
    if type(settings) not in _DRIVERS:
        raise InvalidArgument(
            f"cannot open a storage with {type(settings).__name__}: use the settings of a driver"
        )
    module, extra = _DRIVERS[type(settings)]
    try:
        open_driver: OpenDriver = import_module(module).open_driver
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("lakebed"):
            raise
        raise MissingExtraError(f"block storage by {type(settings).__name__}", extra) from error
    driver = module.rpartition(".")[2]
    store = MeteredBlockStore(open_driver(settings, runtime), driver, runtime)
    _LOGGER.debug("opened block storage: %s", settings)
    return store


def _open_registered(scheme: str) -> OpenDriver:
    module = find_driver(GROUP, scheme)
    if module is None:
        raise InvalidArgument(
            f"no driver for {scheme}:// storage: install a package with one (an entry point in"
            f" the group {GROUP})"
        )
    open_driver: OpenDriver = module.open_driver
    return open_driver
