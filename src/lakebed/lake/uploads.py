"""Uploading: bytes to a fresh address, then an entry that names it.

1. Find out whether the write would be refused, before any byte is taken.
2. Stream the bytes to an address that nobody else has. The object that was under the path stays as
   it is, so no reader ever sees half of an object, and no commit changes after it was made.
3. Stage the entry, by what 1 has read, or if the bytes took their time, by what is there now. Only
   now is the object visible. The same records are read again with that write: it is taken back if
   it would be refused by then.

A process that dies after 2 leaves an object that nothing names: garbage, which is collected when it
is old enough. So does an error after 2, unless it is certain that the entry was never visible: then
the object is removed at once. That is certain of each conditional write that is refused. A plain
write that is taken back may have been visible for a while, and may be in a commit: its object
stays.
"""

from collections.abc import Iterable, Mapping

from lakebed.base.tracing import traced
from lakebed.block import BlockError, BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.staging.writer import Condition
from lakebed.lake.addresses import Addresses
from lakebed.lake.checksums import Proof, hashed_by
from lakebed.lake.entry_metadata import for_checksum
from lakebed.lake.model import DEFAULT_CONTENT_TYPE, ObjectStats, check_metadata, check_path
from lakebed.lake.repeats import Invocation, unless_repeated
from lakebed.lake.stager import Stager


class Uploads:
    """Stores objects and stages them."""

    def __init__(
        self, engine: Engine, block: BlockStore, addresses: Addresses, stager: Stager
    ) -> None:
        self._readings = engine.readings
        self._block = block
        self._addresses = addresses
        self._stager = stager

    @traced("catalog.upload")
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
        invocation: Invocation | None = None,
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
            invocation: The request, so that a repeat of a conditional one is recognised.
            proof: Of the bytes; the checksum that it finds is kept with them.

        Raises:
            InvalidPath, InvalidMetadata: No object can have this path, or such metadata.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            PreconditionFailed: The condition does not hold.
            Stale: The bytes took too long to come. Without a condition, the object may have been
                visible for a while, and may be in a commit; so if one of those before came up while
                the bytes came.
            TooManyTries: Without a condition, the object may be visible.
            OutcomeUnknown: The object may be visible.
            BlockError: The storage refused or failed; nothing is visible.
        """
        check_path(path)
        if metadata:
            check_metadata(metadata)
        digest = None if invocation is None else invocation.digest(repository_id, branch, path)
        known = self._readings.to_write(repository_id, branch, path)
        if condition is not None:
            self._stager.check(known, path, unless_repeated(condition, digest))
        issued = self._addresses.issue(known.repository, branch)
        try:
            stored = self._block.put_unnamed(
                issued.address, hashed_by(proof, chunks) if proof else chunks
            )
        except BlockError:
            self._stager.discard(issued.address)  # it may have been stored
            raise
        return self._stager.stage(
            known,
            path,
            issued,
            size=stored.size,
            checksum=stored.md5,
            content_type=content_type,
            metadata={**(metadata or {}), **(for_checksum(proof.proved()) if proof else {})},
            condition=condition,
            digest=digest,
        )
