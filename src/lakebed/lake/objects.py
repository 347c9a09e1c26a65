"""Reading, listing and deleting objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.block import (
    BlockStore,
    ByteRange,
    ByteStream,
    ObjectNotFound,
    PreconditionFailed,
    RangeNotSatisfiable,
)
from lakebed.block.ranges import resolve
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.staging.writer import Condition
from lakebed.lake.errors import MissingBytes
from lakebed.lake.etag_pins import ETagPins, changed, replaced, resized, with_pin
from lakebed.lake.model import ObjectStats, PresignedURL, check_path
from lakebed.lake.object_pages import ObjectPage
from lakebed.lake.presign import Presigning
from lakebed.lake.purge_marks import PurgeMarks, missing_error


@dataclass(frozen=True, slots=True)
class NotDeleted:
    """A path of a bulk deletion that failed."""

    path: bytes
    error: LakebedError


class Objects:
    """Reads, lists and deletes the objects of all repositories.

    Methods raise `RepositoryNotFound`, `RefNotFound` or `InvalidRef` if a repository or ref does
    not exist.
    """

    def __init__(
        self,
        engine: Engine,
        block: BlockStore,
        runtime: Runtime,
        presigning: Presigning,
        pins: ETagPins,
        purge_marks: PurgeMarks,
    ) -> None:
        self._purge_marks = purge_marks
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._presigning = presigning
        self._pins = pins

    @traced("catalog.stat")
    def stat(self, repository_id: RepositoryID, ref: str, path: bytes) -> ObjectStats:
        """Return the properties of an object; raise `EntryNotFound` if it does not exist."""
        repository, entry = self._engine.reader.find(repository_id, ref, path)
        return with_pin(repository, entry, ref)

    @traced("catalog.read")
    def read(self, stats: ObjectStats, *, byte_range: ByteRange | None = None) -> ByteStream:
        """Return the bytes of an object, or a range of them; fails unless the size matches `stats`.

        Raises:
            MissingBytes: The object is missing from the storage; `Purged` if it was purged.
            CommitExpired: The object was deleted because the commit of the ref has expired.
            ChangedBytes: The storage has a different object.
            RangeNotSatisfiable: The range lies outside the object.
            BlockError: The storage refused or failed.
        """
        resolve(byte_range, stats.size)
        try:
            etag = self._pins.content_of(stats)
            stream = self._block.get(stats.address, byte_range=byte_range, etag=etag)
        except (ObjectNotFound, MissingBytes) as error:
            raise missing_error(self._engine, self._purge_marks, stats) from error
        except PreconditionFailed as error:
            raise replaced(stats) from error
        except RangeNotSatisfiable as error:
            raise changed(stats, f"has fewer than its {stats.size} bytes") from error
        if stream.object_size != stats.size:
            stream.close()
            raise resized(stats, stream.object_size)
        return stream

    def check_bytes(self, stats: ObjectStats) -> None:
        """Check that the storage has the object described by `stats`.

        Called before a presigned read URL is issued. Reads the storage only for objects that could
        have been replaced. For an unverified object this counts as the first read. Raises as
        `read`.
        """
        try:
            etag = self._pins.content_of(stats)
            if etag is None:
                return
            found = self._block.head(stats.address)
        except (ObjectNotFound, MissingBytes) as error:
            raise missing_error(self._engine, self._purge_marks, stats) from error
        if found.etag != etag:
            raise replaced(stats)
        if found.size != stats.size:
            raise resized(stats, found.size)

    def presign(self, stats: ObjectStats) -> PresignedURL:
        """Return a URL for reading an object for a limited time; see also `check_bytes`.

        Raises `NotSupported` if neither the storage nor the server signs URLs.
        """
        return self._presigning.to_read(stats.address, stats.size)

    @traced("catalog.list_objects")
    def list_objects(self, repository_id: RepositoryID, ref: str, query: EntryQuery) -> ObjectPage:
        """Return a page of objects and common prefixes of a ref, in order of their paths."""
        return ObjectPage(*self._engine.reader.list_entries(repository_id, ref, query))

    @traced("catalog.check_writable")
    def check_writable(self, repository_id: RepositoryID, branch: BranchID) -> None:
        """Raise `ReadOnly`, `BranchNotFound` or `Protected` if the branch is not writable."""
        self._engine.readings.to_write(repository_id, branch)

    @traced("catalog.delete")
    def delete(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        condition: Condition | None = None,
    ) -> None:
        """Stage the deletion of an object, whether or not it exists.

        `condition` decides, given the existing entry, whether to delete.

        Raises:
            InvalidPath: The path is invalid.
            ReadOnly, BranchNotFound, Protected: The branch is not writable.
            PreconditionFailed: The condition does not hold.
            TooManyTries: Without a condition, the deletion may have been staged.
            OutcomeUnknown: The deletion may have been staged.
        """
        check_path(path)
        if condition is None:
            self._engine.writer.delete(self._engine.readings.to_write(repository_id, branch), path)
        else:
            known = self._engine.readings.to_write(repository_id, branch, path)
            self._engine.writer.delete_if(known, path, condition)

    @traced("catalog.delete_many")
    def delete_many(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        paths: Sequence[bytes],
        conditions: Mapping[bytes, Condition] = MappingProxyType({}),
    ) -> list[NotDeleted]:
        """Delete many objects as `delete` does; return the failures.

        `conditions` are those of single paths. Raises `ReadOnly`, `BranchNotFound` or `Protected`
        if the branch is not writable.
        """
        self._engine.readings.to_write(repository_id, branch)

        def delete(path: bytes) -> NotDeleted | None:
            try:
                self.delete(repository_id, branch, path, conditions.get(path))
            except LakebedError as error:
                return NotDeleted(path, error)
            return None

        results = self._runtime.map_parallel(delete, paths)
        return [result for result in results if result is not None]
