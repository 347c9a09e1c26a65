"""Uploads: write bytes to a new address, then stage an entry that references it.

1. Check that the write is allowed, before accepting any byte.
2. Stream the bytes to a unique address. The existing object of the path stays unchanged, so readers
   never see a partial object, and commits never change.
3. Stage the entry, using the records read in 1, or if the bytes took long, current ones. Only now
   is the object visible. The write reads the same records again and is undone if it is no longer
   allowed.

A process that dies after 2 leaves an unreferenced object, deleted by garbage collection once old
enough. So does an error after 2, unless the entry was certainly never visible: then the object is
deleted at once. This is certain for every refused conditional write. An unconditional write that is
undone may have been visible for a while, and may be in a commit: its object is kept.

**Addresses** of new objects have the form described in `lakebed.formats.object_paths`. A process
begins a new partition after a number of objects or a time, so that garbage collection can skip
partitions that receive no more objects.

`Stager` stages stored objects: the last step of uploads and copies.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, now_us, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockError, BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.errors import PreconditionFailed, Stale, TooManyTries
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.reading import REFUSALS, Reading
from lakebed.engine.staging.writer import Condition, IsRecent, check_condition
from lakebed.formats import Entry
from lakebed.formats.object_paths import (
    OBJECT_RANDOM_BYTES,
    PARTITION_RANDOM_BYTES,
    ObjectPath,
    PartitionID,
    new_object_uid,
    new_partition,
)
from lakebed.lake.checksums import Proof, hashed_by
from lakebed.lake.entry_metadata import for_checksum, for_encryption
from lakebed.lake.model import (
    ObjectStats,
    check_metadata,
    check_path,
    new_entry,
    stats_at,
    stats_of,
)
from lakebed.lake.repeats import Attempt, Invocation, unless_repeated
from lakebed.lake.settings import CatalogSettings


@dataclass(slots=True)
class _Partition:
    id: PartitionID
    made: float
    process_id: int
    objects: int = 0


class Issued(NamedTuple):
    """The address issued for a new object."""

    path: ObjectPath
    text: str
    """The path as stored in the entry."""
    address: Address


class Addresses:
    """Issues the paths of new objects, for one process."""

    def __init__(
        self,
        runtime: Runtime,
        settings: CatalogSettings,
        *,
        process_id: Callable[[], int] = os.getpid,
    ) -> None:
        self._runtime = runtime
        self._life_seconds = settings.partition_life_seconds
        self._objects_max = settings.partition_objects_max
        self._process_id = process_id
        self._lock = runtime.lock()
        self._current: _Partition | None = None

    def issue(self, repository: Repository, branch: BranchID) -> Issued:
        """Return a path that is unique for all time."""
        now = self._runtime.now()
        uid = new_object_uid(to_us(now), self._runtime.random_bytes(OBJECT_RANDOM_BYTES))
        path = ObjectPath(repository.unique_id, branch, self._partition(now), uid)
        text = str(path)
        return Issued(path, text, repository.namespace.address(text))

    def _partition(self, now: float) -> PartitionID:
        with self._lock:
            current = self._current
            if (
                current is None
                or current.objects >= self._objects_max
                # If the clock was set back, the partition's name would be in the future.
                or not 0 <= now - current.made < self._life_seconds
                # A forked process needs a partition of its own.
                or current.process_id != self._process_id()
            ):
                current = self._current = self._new(now)
            current.objects += 1
            return current.id

    def _new(self, now: float) -> _Partition:
        random_bytes = self._runtime.random_bytes(PARTITION_RANDOM_BYTES)
        return _Partition(new_partition(to_us(now), random_bytes), now, self._process_id())


class Freshness:
    """Judges the age of objects by the clock of this process.

    This rule keeps writers and garbage collection from interfering. Collection skips objects
    younger than `min_age_seconds`. A writer stages an object only while it is younger than half of
    that, and checks the age again before acknowledging. So if a collection did not see the entry,
    the object was within the grace period when the collection set its cutoff.
    """

    def __init__(self, runtime: Runtime, settings: CatalogSettings) -> None:
        self._runtime = runtime
        self._hold_us = to_us(settings.longest_hold_seconds)
        self._window_us = to_us(settings.copy_window_seconds)
        self._url_us = to_us(settings.presign_life_seconds + settings.skew_seconds)

    def test(self, path: ObjectPath) -> IsRecent:
        """Return a test of whether an object can still be staged."""
        issued_us = path.issued_us
        return lambda: now_us(self._runtime) - issued_us < self._hold_us

    def may_share(self, path: ObjectPath) -> bool:
        """Whether an object is young enough for a copy to share its address."""
        return now_us(self._runtime) - path.issued_us < self._window_us

    def is_settled(self, path: ObjectPath) -> bool:
        """Whether all URLs to write an object have expired."""
        return now_us(self._runtime) - path.issued_us > self._url_us


_LOGGER: Final = logging.getLogger(__name__)

_NEVER_VISIBLE: Final = (*REFUSALS, PreconditionFailed, Stale, TooManyTries)
"""Errors of a conditional write whose entry was never visible. After any error of another write the
entry may have been visible for a moment, and so may have been committed: its object is left to
garbage collection."""


class Stager:
    """Makes stored objects visible."""

    def __init__(
        self, engine: Engine, block: BlockStore, runtime: Runtime, freshness: Freshness
    ) -> None:
        self._readings = engine.readings
        self._reader = engine.reader
        self._writer = engine.writer
        self._block = block
        self._runtime = runtime
        self._freshness = freshness

    def check(self, known: Reading, path: bytes, condition: Condition) -> None:
        """Raise `PreconditionFailed` early if the condition of a write does not hold now."""
        check_condition(condition, path, self._reader.effective_entry(known, path)[0])

    def put(
        self,
        known: Reading,
        entry: Entry,
        *,
        condition: Condition | None,
        digest: str | None = None,
        is_recent: IsRecent | None = None,
    ) -> Entry | None:
        """Stage an entry, optionally on a condition.

        - `known`: the branch, as read for this write.
        - `entry`: the entry to stage.
        - `condition`: whether to write, given the existing entry.
        - `digest`: digest of a conditional request, if its client sent an id: stage nothing if
          another attempt of the request took effect.
        - `is_recent`: whether the entry can be acknowledged, tested after staging or proposing it.

        Returns:
            The entry staged by this or another attempt, or None if another attempt's has since
            been replaced.

        Raises:
            As `Writer.put` and `Writer.put_if`.
        """
        if condition is None:
            self._writer.put(known, entry, is_recent)
            return entry
        attempt = Attempt(entry, condition, digest)
        self._writer.put_if(known, entry.key, attempt, is_recent)
        return attempt.staged

    def stage(
        self,
        known: Reading,
        path: bytes,
        issued: Issued,
        *,
        size: int,
        checksum: str,
        content_type: str,
        metadata: Mapping[str, str],
        condition: Condition | None,
        digest: str | None = None,
        watch: IsRecent | None = None,
    ) -> ObjectStats:
        """Stage the entry of an object at a unique address; arguments as for `put`.

        The object is deleted if its entry was certainly never visible. `watch` is an additional
        test, as `is_recent` of `put`.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: The branch is not writable.
            PreconditionFailed: The condition does not hold.
            Stale: The object is too old to be staged, or `watch` does not hold.
            TooManyTries, OutcomeUnknown: The object may be visible.
            Without a condition, the object may have been visible for a while after any of these,
            and may be in a commit. With a condition, only after `OutcomeUnknown`.
        """
        entry = new_entry(
            path,
            issued.text,
            size=size,
            checksum=checksum,
            modified=self._runtime.now(),
            content_type=content_type,
            metadata=metadata,
        )
        is_new = self._freshness.test(issued.path)
        is_recent = is_new if watch is None else lambda: is_new() and watch()
        try:
            known = self._readings.renewed(known, path)
        except LakebedError:
            self.discard(issued.address)
            raise
        try:
            staged = self.put(known, entry, condition=condition, digest=digest, is_recent=is_recent)
        except _NEVER_VISIBLE:
            if condition is not None:
                self.discard(issued.address)
            raise
        if staged is not None and staged.address == issued.text:
            return stats_at(issued.address, staged)
        self.discard(issued.address)
        return stats_of(known.repository.namespace, staged or entry)

    def discard(self, address: Address) -> None:
        """Delete an object that was never visible; on failure, leave it to garbage collection."""
        try:
            self._block.delete(address)
        except BlockError as error:
            _LOGGER.warning("%s was not deleted and is now garbage: %s", address, error)


def or_same_entry(condition: Condition | None, entry: Entry) -> Condition | None:
    """Return a condition that also holds if this very entry is already staged.

    For an entry stored in a record and staged at an address of its own: an equal existing entry was
    staged by an earlier request for the same record, whose repeat must succeed.
    """
    return condition and (lambda found: found == entry or condition(found))


class Uploads:
    """Uploads objects."""

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
        """Store an object and stage it; once this returns, all reads see it or a newer one.

        If iterating `chunks` raises, nothing is written and the exception propagates. `condition`
        decides, given the existing entry, whether to write; `invocation` identifies the request, to
        detect a repeat. The checksum verified by `proof` is stored with the object.

        Raises:
            InvalidPath, InvalidMetadata: The path or the metadata is invalid.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: The branch is not writable.
            PreconditionFailed: The condition does not hold.
            Stale: The upload took too long. Without a condition, the object may have been visible
                for a while and may be in a commit; likewise if one of the errors above arose during
                the upload.
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
            stored = self._block.put_unreferenced(
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
            metadata={
                **(metadata or {}),
                **for_encryption(issued.address, self._block.encryption),
                **(for_checksum(proof.verified()) if proof else {}),
            },
            condition=condition,
            digest=digest,
        )
