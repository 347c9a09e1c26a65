"""Comparing the clock of this process with that of the storage.

Commits expire, and objects grow old, by the clock of one server. A clock that is days ahead would
take young commits for old ones. So each run begins with a file that is written, looked at and
deleted: the storage says when it was written.
"""

from typing import Final

from lakebed.block import BlockStore
from lakebed.catalog.errors import ClocksDiffer
from lakebed.catalog.settings import CatalogSettings
from lakebed.engine.model import Repository
from lakebed.formats.layout import gc_check_path
from lakebed.runtime import Runtime

_TICK_SECONDS: Final = 1.0
"""Clouds tell times of objects in whole seconds."""


class Clocks:
    """Compares clocks, in the namespaces of repositories."""

    def __init__(self, block: BlockStore, runtime: Runtime, settings: CatalogSettings) -> None:
        self._block = block
        self._runtime = runtime
        self._skew_seconds = settings.skew_seconds

    def check(self, repository: Repository) -> None:
        """Make sure that this process and the storage agree within `skew_seconds`.

        Raises:
            ClocksDiffer: They do not.
            BlockError: The storage refused or failed.
        """
        nonce = self._runtime.random_bytes(8).hex()
        address = repository.namespace.address(gc_check_path(repository.unique_id, nonce))
        begun = self._runtime.now()
        self._block.put(address, [b"Written to compare clocks; delete it if you find it.\n"])
        try:
            written = self._block.head(address).mtime.timestamp()
        finally:
            self._block.delete(address)
        # The file was written between the two readings of this clock.
        ahead = begun - (written + _TICK_SECONDS)
        behind = written - self._runtime.now()
        for seconds, how in ((ahead, "ahead of"), (behind, "behind")):
            if seconds > self._skew_seconds:
                raise ClocksDiffer(seconds, how, self._skew_seconds)
