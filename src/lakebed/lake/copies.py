"""Copying objects within and between branches, and changing their metadata and tags.

A copy normally gets an address of its own, to which the storage copies the bytes. Two kinds of
objects share their address with the copy instead, at no cost:

*Objects referenced by a commit of the repository.* Garbage collection does not delete them unless
the commit has expired. After staging, the copy checks that the commit has not: garbage collection
reads the expired commits first and staged entries second, so its scan finds the copy. If the commit
has expired, the entry is removed again and the bytes are copied, if they still exist. (A linked
object is copied while an upload URL for it may be valid, so that the copy cannot change with it.)

*Recently created objects*, on their own branch. Garbage collection skips objects within the grace
period, so a scan that finds neither the old entry (just deleted) nor the new one (not yet staged)
does no harm. If the grace period has ended when the copy is to be acknowledged, the entry is
removed again and the bytes are copied.

External objects (see `external`) are never collected and are always shared on their branch. Objects
adopted from lakeFS are collected, and are handled like objects referenced by a commit.

Purged objects are not copied. A byte copy is acknowledged only if its source had no purge mark when
the copy was staged (see `purge_marks`); a copy that shares the address shares the mark.

Copying an unverified object (see `etag_pins`) counts as its first read and copies the bytes that a
reader would get. A copy that shares the address shares the pin and reads nothing.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.block import BlockError, BlockStore, ObjectNotFound
from lakebed.block import PreconditionFailed as OtherContent
from lakebed.engine.engine import Engine
from lakebed.engine.errors import (
    EntryNotFound,
    InvalidRef,
    PreconditionFailed,
    RepositoryNotFound,
    Stale,
    TooManyTries,
)
from lakebed.engine.model import BranchID, CommitID, Repository, RepositoryID
from lakebed.engine.reading import Reading
from lakebed.engine.staging.writer import Condition, IsRecent
from lakebed.formats import AddressType, Entry
from lakebed.formats.object_paths import ObjectPath
from lakebed.lake.entry_metadata import (
    OF_ONE_ADDRESS,
    REPLACEABLE,
    REQUESTS,
    TAGS,
    for_encryption,
    for_tags,
    has_encryption,
    of_bytes,
    split,
)
from lakebed.lake.etag_pins import ETagPins, replaced, with_pin
from lakebed.lake.model import ObjectStats, check_metadata, check_path, new_entry, stats_of
from lakebed.lake.purge_marks import PurgeMarks, missing_error
from lakebed.lake.repeats import Invocation
from lakebed.lake.uploads import Addresses, Freshness, Stager

_TRIES: Final = 10

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The source and the destination of a copy."""

    source: Repository
    ref: str
    """The ref of the source repository that has the entry."""
    entry: Entry
    known: Reading
    """The destination branch, as read for this write."""
    path: bytes
    content_type: str
    metadata: Mapping[str, str]
    condition: Condition | None
    digest: str | None = None
    """Digest of the request, or None if its client sent no id."""
    encrypted: bool = False
    """Whether the copy must have the configured encryption."""

    @property
    def repository(self) -> Repository:
        return self.known.repository


def _is_external(copy: _Copy) -> bool:
    """Whether garbage collection never deletes the object: imported, or owned by lakeFS."""
    entry = copy.entry
    return entry.address_type is AddressType.FULL and not copy.source.has_adopted(entry.address)


class Copies:
    """Copies objects."""

    def __init__(
        self,
        engine: Engine,
        block: BlockStore,
        runtime: Runtime,
        addresses: Addresses,
        freshness: Freshness,
        stager: Stager,
        pins: ETagPins,
        purge_marks: PurgeMarks,
    ) -> None:
        self._pins = pins
        self._purge_marks = purge_marks
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._addresses = addresses
        self._freshness = freshness
        self._stager = stager

    @traced("catalog.copy")
    def copy(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        *,
        source_ref: str,
        source_path: bytes,
        source_repository_id: RepositoryID | None = None,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        condition: Condition | None = None,
        invocation: Invocation | None = None,
        source_condition: Condition | None = None,
        encrypted: bool = False,
    ) -> ObjectStats:
        """Copy an object to a path of a branch.

        `source_repository_id` defaults to the destination; `content_type`, `metadata` and `tags`
        default to the source's. `condition` and `source_condition` decide, given the existing and
        the source entry, whether to copy. `invocation` identifies the request, to detect a repeat
        of a conditional copy. `encrypted` copies the bytes if they lack the configured encryption.

        Raises:
            InvalidPath, InvalidMetadata: The path or the metadata is invalid.
            EntryNotFound, RefNotFound, InvalidRef: The source does not exist.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: The branch is not writable.
            MissingBytes: The storage lost the source, or (`Purged`) it is purged.
            CommitExpired: The source is deleted because the commit of the ref has expired.
            ChangedBytes: The storage has a different object at the source address.
            PreconditionFailed: A condition does not hold.
            Stale: Copying took too long.
            TooManyTries: Without a condition, the copy may be visible.
            OutcomeUnknown: The copy may be visible.
            BlockError: The storage refused or failed.
        """
        check_path(path)
        check_metadata(metadata or {})
        known = self._engine.readings.to_write(repository_id, branch, path)
        repository = source = known.repository
        if source_repository_id not in {None, repository_id}:
            source = self._engine.repositories.get(source_repository_id or repository_id)
        entry = self._find(source, source_ref, source_path)
        if source_condition is not None and not source_condition(entry):
            raise PreconditionFailed(
                source_path, "the source object does not meet the conditions of the copy"
            )
        self._purge_marks.check(source_path, stats_of(source.namespace, entry).address)
        kept = {name: value for name, value in entry.metadata.items() if name != REQUESTS}
        kept_tags = {name: kept.pop(name) for name in (TAGS,) if name in kept}
        copy = _Copy(
            source=source,
            ref=source_ref,
            entry=entry,
            known=known,
            path=path,
            content_type=entry.content_type if content_type is None else content_type,
            metadata={
                **(kept if metadata is None else {**metadata, **of_bytes(kept)}),
                **(kept_tags if tags is None else for_tags(tags)),
            },
            condition=condition,
            digest=None if invocation is None else invocation.digest(repository_id, branch, path),
            encrypted=encrypted,
        )
        on_one_branch = source.unique_id == repository.unique_id and source_ref == branch
        return self._make(copy, may_share=on_one_branch)

    @traced("catalog.set_metadata")
    def set_metadata(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        metadata: Mapping[str, str],
    ) -> ObjectStats:
        """Replace the user metadata of an object, keeping its content even under races.

        Raises:
            EntryNotFound: The object does not exist.
            TooManyTries: Concurrent writers kept changing the object; nothing was changed.
            Also the errors of `copy`, except `PreconditionFailed`.
        """

        def change(before: Mapping[str, str]) -> dict[str, str]:
            return {**metadata, **split(before).reserved}

        check_metadata(metadata)
        return self._change_metadata(repository_id, branch, path, change)

    @traced("catalog.set_tags")
    def set_tags(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        tags: Mapping[str, str],
    ) -> None:
        """Replace the tags of an object; raises as `set_metadata`."""

        def change(before: Mapping[str, str]) -> dict[str, str]:
            kept = {name: value for name, value in before.items() if name != TAGS}
            return {**kept, **for_tags(tags)}

        self._change_metadata(repository_id, branch, path, change)

    def _change_metadata(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
    ) -> ObjectStats:
        for _ in range(_TRIES):
            known = self._engine.readings.to_write(repository_id, branch, path)
            entry, _ = self._engine.reader.effective_entry(known, path)
            if entry is None:
                raise EntryNotFound(path)
            copy = _Copy(
                source=known.repository,
                ref=branch,
                entry=entry,
                known=known,
                path=path,
                content_type=entry.content_type,
                metadata=change(entry.metadata),
                condition=_still(entry),
            )
            try:
                return self._make(copy, may_share=True)
            except PreconditionFailed:
                continue  # overwritten meanwhile: change the metadata of the new object
        raise TooManyTries(f"setting the metadata of {quoted(path)}", _TRIES)

    def _find(self, repository: Repository, ref: str, path: bytes) -> Entry:
        """Return an entry of a repository; fails if the repository was since deleted."""
        found, entry = self._engine.reader.find(repository.id, ref, path)
        if found.unique_id != repository.unique_id:
            raise RepositoryNotFound(repository.id)
        return entry

    def _make(self, copy: _Copy, *, may_share: bool) -> ObjectStats:
        encryption = self._block.encryption if copy.encrypted else None
        if encryption is not None:
            address = stats_of(copy.source.namespace, copy.entry).address
            if not has_encryption(copy.entry.metadata, address, encryption):
                return self._copy_bytes(copy)
        issued = ObjectPath.parse(copy.entry.address)
        if may_share and _is_external(copy):
            return self._share(copy, None)
        if may_share and issued is not None and self._freshness.may_share(issued):
            try:
                return self._share(copy, self._freshness.test(issued))
            except Stale:
                _LOGGER.debug("%s is too old to be shared as recently created", issued)
        holder = self._find_holder(copy) if self._is_settled(copy, issued) else None
        if holder is not None:
            try:
                return self._share(copy, self._has_not_expired(copy.source, holder))
            except Stale:
                _LOGGER.debug("%s belongs to an expired commit", issued)
        return self._copy_bytes(copy)

    def _has_not_expired(self, repository: Repository, commit_id: CommitID) -> IsRecent:
        """Return a test of whether a copy can use the address of an object in a commit.

        `Stager` calls it once before staging, when there is nothing to check, and again after.
        """
        is_staged = False

        def test() -> bool:
            nonlocal is_staged
            if is_staged:
                return not self._engine.marks.is_expired(repository, commit_id)
            is_staged = True
            return True

        return test

    def _is_settled(self, copy: _Copy, issued: ObjectPath | None) -> bool:
        """Whether every URL by which the object could be replaced has expired."""
        if REPLACEABLE.isdisjoint(copy.entry.metadata):
            return True
        return issued is not None and self._freshness.is_settled(issued)

    def _find_holder(self, copy: _Copy) -> CommitID | None:
        """Return the commit of the destination repository that references the object, if any."""
        entry = copy.entry
        if copy.source.unique_id != copy.repository.unique_id:
            return None
        if _is_external(copy):
            return None
        try:
            commit = self._engine.resolver.commit(copy.source, copy.ref)
            found = self._find(copy.source, commit.id, entry.key)
        except (EntryNotFound, InvalidRef):
            return None
        is_same = (found.address, found.address_type) == (entry.address, entry.address_type)
        return commit.id if is_same else None

    def _share(self, copy: _Copy, is_recent: IsRecent | None) -> ObjectStats:
        entry = new_entry(
            copy.path,
            copy.entry.address,
            address_type=copy.entry.address_type,
            size=copy.entry.size,
            checksum=copy.entry.checksum,
            modified=self._runtime.now(),
            content_type=copy.content_type,
            metadata=copy.metadata,
        )
        staged = self._stager.put(
            self._engine.readings.renewed(copy.known, copy.path),
            entry,
            condition=copy.condition,
            digest=copy.digest,
            is_recent=is_recent,
        )
        return stats_of(copy.repository.namespace, staged or entry)

    def _copy_bytes(self, copy: _Copy) -> ObjectStats:
        found = with_pin(copy.source, copy.entry, copy.ref)
        source, etag = found.address, self._pins.content_of(found)
        issued = self._addresses.issue(copy.repository, copy.known.branch.id)
        address = issued.address
        try:
            self._block.copy(source, address, etag=etag)
        except ObjectNotFound as error:
            raise missing_error(self._engine, self._purge_marks, found) from error
        except OtherContent as error:
            raise replaced(found) from error
        except BlockError:
            self._stager.discard(address)  # it may have been stored
            raise
        # The new address was issued to no one else, so its content cannot change.
        metadata = {
            name: value for name, value in copy.metadata.items() if name not in OF_ONE_ADDRESS
        } | for_encryption(address, self._block.encryption)
        watch = self._purge_marks.watch([source], address)
        try:
            return self._stager.stage(
                copy.known,
                copy.path,
                issued,
                size=copy.entry.size,
                # Imported objects may lack a checksum. An empty one would make all objects of one
                # size equal.
                checksum=copy.entry.checksum or etag or "",
                content_type=copy.content_type,
                metadata=metadata,
                condition=copy.condition,
                digest=copy.digest,
                watch=watch,
            )
        except Stale as error:
            if watch.mark is None:
                raise
            self._stager.discard(address)
            raise self._purge_marks.why_missing(copy.entry.key, source) from error


def _still(entry: Entry) -> Condition:
    def is_still(found: Entry | None) -> bool:
        return (
            found is not None
            and found.address == entry.address
            and found.identity == entry.identity
        )

    return is_still
