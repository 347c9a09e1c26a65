"""Copying objects, within a branch and elsewhere, and changing their metadata.

A copy gets an address of its own, and the storage copies the bytes there. Two kinds of objects
share their address with the copy instead, which costs nothing.

*An object that a commit of the repository names* is not collected, unless the commit has expired.
So a copy makes sure, after it is staged, that the commit it went by has not: garbage collection
reads first which commits have expired, and then what is staged, so it meets the copy. If the commit
has expired, the entry is taken back, and the bytes are copied, if they are still there. (While
somebody may hold a URL to write it, an object that was linked is copied, so that the copy does not
change with it.)

*A young object* shares its address on its branch. It must be young because garbage collection
leaves young objects alone: a look that finds neither the old entry (deleted meanwhile) nor the new
one (not there yet) does no harm. If the object has grown old by the time the copy is to be
acknowledged, the entry is taken back and the bytes are copied after all.

An external object (see `external`) is never collected: on its branch it is always shared. One that
was adopted from lakeFS is collected, and is like those that a commit names.

What was purged is not copied. A copy of bytes is acknowledged only if its source was not marked to
be purged by the time at which the copy was staged (see `purge.marks`); one that shares the address
shares the mark, whenever that comes.

Of an unverified object (see `pins`), the bytes are copied that a reader would get: copying is a
first read too. A copy that shares the address shares its pin, and looks at nothing.
"""

import logging
from collections.abc import Mapping
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
from lakebed.engine.staging.writer import Condition, IsFresh
from lakebed.formats import AddressType, Entry
from lakebed.formats.object_paths import ObjectPath
from lakebed.lake.entry_metadata import (
    OF_ONE_ADDRESS,
    REQUESTS,
    of_bytes,
    split,
)
from lakebed.lake.gone import missing
from lakebed.lake.model import (
    ObjectStats,
    check_metadata,
    check_path,
    new_entry,
    stats_of,
)
from lakebed.lake.pins import Pins, replaced, with_pin
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.repeats import Invocation
from lakebed.lake.uploads import Addresses, Freshness, Stager

_TRIES: Final = 10

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Copy:
    """What to copy, and where to."""

    source: Repository
    ref: str
    """Where the entry was found in it."""
    entry: Entry
    known: Reading
    """The branch to copy to, as it was read for that."""
    path: bytes
    content_type: str
    metadata: Mapping[str, str]
    condition: Condition | None
    digest: str | None = None
    """The digest of the request, if its client sent an id."""

    @property
    def repository(self) -> Repository:
        """The repository to copy to."""
        return self.known.repository


def _is_external(copy: _Copy) -> bool:
    """Whether garbage collection never takes the object: it was imported, or is lakeFS's still."""
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
        pins: Pins,
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
        condition: Condition | None = None,
        invocation: Invocation | None = None,
        source_condition: Condition | None = None,
    ) -> ObjectStats:
        """Copy an object to a path of a branch.

        Args:
            repository_id: Where to.
            branch: To which branch.
            path: To which path.
            source_ref: The ref to copy from.
            source_path: The object to copy.
            source_repository_id: Its repository, if it is another one.
            content_type: Of the copy; None: as the object's.
            metadata: Of the copy; None: as the object's.
            condition: Whether to write, given what is there.
            invocation: The request, so that a repeat of a conditional one is recognised.
            source_condition: Whether to copy, given what is there to be copied.

        Raises:
            InvalidPath, InvalidMetadata: No object can have this path, or such metadata.
            EntryNotFound, RefNotFound, InvalidRef: There is nothing to copy.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            MissingBytes: The object to copy is gone from the storage, or (`Purged`) is to go.
            CommitExpired: It is gone because the commit of the ref has expired.
            ChangedBytes: The storage has another object by now.
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
            raise PreconditionFailed(source_path, "the source is another object")
        self._purge_marks.check(source_path, stats_of(source.namespace, entry).address)
        kept = {name: value for name, value in entry.metadata.items() if name != REQUESTS}
        copy = _Copy(
            source=source,
            ref=source_ref,
            entry=entry,
            known=known,
            path=path,
            content_type=entry.content_type if content_type is None else content_type,
            metadata=kept if metadata is None else {**metadata, **of_bytes(kept)},
            condition=condition,
            digest=None if invocation is None else invocation.digest(repository_id, branch, path),
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
        """Replace the user's metadata of an object; its content stays, even if it changes now.

        Raises:
            EntryNotFound: There is no such object.
            TooManyTries: Others kept changing the object; nothing was changed.
            Also what `copy` raises, except `PreconditionFailed`.
        """
        check_metadata(metadata)
        for _ in range(_TRIES):
            known = self._engine.readings.to_write(repository_id, branch, path)
            entry, _ = self._engine.reader.look(known, path)
            if entry is None:
                raise EntryNotFound(path)
            copy = _Copy(
                source=known.repository,
                ref=branch,
                entry=entry,
                known=known,
                path=path,
                content_type=entry.content_type,
                metadata={**metadata, **split(entry.metadata).reserved},
                condition=_still(entry),
            )
            try:
                return self._make(copy, may_share=True)
            except PreconditionFailed:
                continue  # another object is there by now: set its metadata
        raise TooManyTries(f"setting the metadata of {quoted(path)}", _TRIES)

    def _find(self, repository: Repository, ref: str, path: bytes) -> Entry:
        """Return an entry of a repository that was read before.

        Raises:
            EntryNotFound, RefNotFound, InvalidRef: There is none.
            RepositoryNotFound: The repository was deleted since.
        """
        found, entry = self._engine.reader.find(repository.id, ref, path)
        if found.unique_id != repository.unique_id:
            raise RepositoryNotFound(repository.id)
        return entry

    def _make(self, copy: _Copy, *, may_share: bool) -> ObjectStats:
        issued = ObjectPath.parse(copy.entry.address)
        if may_share and _is_external(copy):
            return self._share(copy, None)
        if may_share and issued is not None and self._freshness.may_share(issued):
            try:
                return self._share(copy, self._freshness.test(issued))
            except Stale:
                _LOGGER.debug("%s grew too old to be shared by its age", issued)
        holder = self._find_holder(copy) if self._is_settled(copy, issued) else None
        if holder is not None:
            try:
                return self._share(copy, self._has_not_expired(copy.source, holder))
            except Stale:
                _LOGGER.debug("%s belongs to a commit that has expired", issued)
        return self._copy_bytes(copy)

    def _has_not_expired(self, repository: Repository, commit_id: CommitID) -> IsFresh:
        """Return a test of whether a copy may use the address of an object that a commit names.

        It is made before the copy is staged, when there is nothing to look for, and then each time
        after it was.
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
        """Whether nobody holds a URL any more by which the object could be replaced."""
        if OF_ONE_ADDRESS.isdisjoint(copy.entry.metadata):
            return True
        return issued is not None and self._freshness.is_settled(issued)

    def _find_holder(self, copy: _Copy) -> CommitID | None:
        """Return the commit of the repository that is written to which names the object itself."""
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

    def _share(self, copy: _Copy, is_fresh: IsFresh | None) -> ObjectStats:
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
            is_fresh=is_fresh,
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
            raise missing(self._engine, self._purge_marks, found) from error
        except OtherContent as error:
            raise replaced(found) from error
        except BlockError:
            self._stager.discard(address)  # it may have been stored
            raise
        # Nobody else can write to the new address.
        metadata = {
            name: value for name, value in copy.metadata.items() if name not in OF_ONE_ADDRESS
        }
        watch = self._purge_marks.watch([source], address)
        try:
            return self._stager.stage(
                copy.known,
                copy.path,
                issued,
                size=copy.entry.size,
                # Of an imported object there may be none. Something must say which bytes these are,
                # or all objects of one size would be the same.
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
    """Return the condition that an entry is still the one that was read."""

    def is_still(found: Entry | None) -> bool:
        return (
            found is not None
            and found.address == entry.address
            and found.identity == entry.identity
        )

    return is_still
