"""Marks, by which a job of garbage collection proves that it looks at the server's own storage.

The server writes something that nobody can foresee; a job that finds it in what it has opened sees
what the server writes, and as it is now. Another machine's folder of the same name does not have
it, nor has a copy that was made before.
"""

from lakebed.block import BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.model import RepositoryID
from lakebed.formats.gc_files import GCMark
from lakebed.formats.layout import mark_path
from lakebed.runtime import Runtime


class GCMarks:
    """Leaves marks in the storage of repositories."""

    def __init__(self, engine: Engine, block: BlockStore, runtime: Runtime) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime

    def leave(self, repository_id: RepositoryID) -> GCMark:
        """Write a mark, and say what it is.

        Raises:
            RepositoryNotFound: There is none.
            BlockError: The storage refused or failed.
        """
        repository = self._engine.repositories.get(repository_id)
        nonce = self._runtime.random_bytes(16).hex()
        mark = GCMark(str(repository.namespace), repository.unique_id, nonce)
        self._block.put(repository.namespace.address(mark_path(mark)), [nonce.encode()])
        return mark
