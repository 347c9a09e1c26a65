"""Marks, by which a job of garbage collection proves that it reads the server's own storage.

The server writes random bytes. A job that finds them in the storage that it has opened sees what
the server writes, as it is now. A folder of the same name on another machine does not have them,
nor has an older copy.
"""

from lakebed.block import BlockStore
from lakebed.catalog.settings import CatalogSettings
from lakebed.engine.engine import Engine
from lakebed.engine.model import RepositoryID
from lakebed.formats.gc_files import GCMark
from lakebed.formats.layout import mark_path
from lakebed.runtime import Runtime
from lakebed.tracing import traced


class GCMarks:
    """Leaves marks in the storage of repositories."""

    def __init__(
        self, engine: Engine, block: BlockStore, runtime: Runtime, settings: CatalogSettings
    ) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._versions = settings.versions

    @traced("catalog.leave_gc_mark")
    def leave(self, repository_id: RepositoryID) -> GCMark:
        """Write a mark, and return it.

        Raises:
            RepositoryNotFound: There is none.
            BlockError: The storage refused or failed.
        """
        repository = self._engine.repositories.get(repository_id)
        nonce = self._runtime.random_bytes(16).hex()
        namespace = str(repository.namespace)
        mark = GCMark(namespace, repository.unique_id, nonce, self._versions)
        self._block.put(repository.namespace.address(mark_path(mark)), [nonce.encode()])
        return mark
