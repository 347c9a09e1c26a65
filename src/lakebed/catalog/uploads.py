"""Uploading: bytes to a fresh address, then an entry that names it.

1. Look whether a write would be refused, before any byte is taken.
2. Stream the bytes to an address that nobody else has. What was there under the path stays as it
   is, so no reader ever sees half of an object, and no commit changes after it was made.
3. Stage the entry, checked once more. Now, and not before, the object is visible.

Dying after 2 leaves an object that nothing names: garbage, which is collected when it is old
enough. So does an error after 2, but where it is certain that the entry was never visible: then the
object is removed at once. (A conditional write that lost a race may have been visible for a moment,
and so have been committed: its object stays.)
"""

from collections.abc import Iterable, Mapping

from lakebed.block import Address, BlockError, BlockStore, PutResult
from lakebed.catalog.addresses import Addresses
from lakebed.catalog.checksums import Proof
from lakebed.catalog.entry_metadata import for_checksum
from lakebed.catalog.model import DEFAULT_CONTENT_TYPE, ObjectStats, check_path
from lakebed.catalog.stager import Stager
from lakebed.engine.engine import Engine
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.staging.writer import Condition, check_condition


class Uploads:
    """Takes objects in."""

    def __init__(
        self, engine: Engine, block: BlockStore, addresses: Addresses, stager: Stager
    ) -> None:
        self._engine = engine
        self._block = block
        self._addresses = addresses
        self._stager = stager

    def upload(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        chunks: Iterable[bytes],
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        condition: Condition | None = None,
        proof: Proof | None = None,
    ) -> ObjectStats:
        """Store an object and stage it; when this returns, every later read sees it or newer.

        Args:
            repository_id: Where.
            branch: On which branch.
            path: Under which path.
            chunks: Its bytes. If this raises, nothing is written, and the exception goes through.
            content_type: What kind of data it is.
            metadata: The user's own.
            condition: Whether to write, given what is there.
            proof: Of the bytes; the checksum that it finds is kept with them.

        Raises:
            InvalidPath: No object can have this path.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            PreconditionFailed: The condition does not hold.
            Stale: The bytes took too long to come.
            TooManyTries, OutcomeUnknown: The object may be visible.
            BlockError: The storage refused or failed; nothing is visible.
        """
        check_path(path)
        repository = self._engine.check_writable(repository_id, branch)
        if condition is not None:
            self._check_condition(repository, branch, path, condition)
        issued = self._addresses.issue(repository, branch)
        address = repository.namespace.address(str(issued))
        stored = self._store(address, chunks)
        return self._stager.stage(
            repository,
            branch,
            path,
            issued,
            size=stored.size,
            checksum=stored.md5,
            content_type=content_type,
            metadata={**(metadata or {}), **for_checksum(proof.proved() if proof else None)},
            condition=condition,
        )

    def _check_condition(
        self, repository: Repository, branch: BranchID, path: bytes, condition: Condition
    ) -> None:
        """Refuse what would be refused in the end, before taking the bytes."""
        try:
            found = self._engine.get_entry(repository, branch, path)
        except EntryNotFound:
            found = None
        check_condition(condition, path, found)

    def _store(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        try:
            return self._block.put(address, chunks)
        except BlockError:
            self._stager.discard(address)  # it may have been stored
            raise
