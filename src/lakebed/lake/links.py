"""Links: a client uploads directly to the storage, then links the object to a path.

An address is issued for one branch and path, for a limited time, and can be linked once. Its object
uid is the token: the record `links/<uid>` stores branch, path and expiry.

**Issuing an address**

    1. write the record, `open`, with branch, path, address and expiry
    2. return the address, and optionally a presigned URL, to the client

**Linking**

    1. read the record: same branch, same path, not expired
    2. stat the object: it exists, and has the size given by the client
    3. write the record, `consumed`, with the entry, only if unchanged since step 1
    4. stage the entry; once staged (for a condition: proposed), read the record again; if it is
       missing or `aborted`, remove the entry again
    5. write the record, `staged`; then reply

*Invariants.* An address belongs to one entry forever: a request stages an entry only after reading
it from a `consumed` record, whichever request wrote that in step 3. The object is safe from
garbage collection before the client knows its address: the record protects it until `staged`, the
entry from step 4 on, and the grace period in any case (see `uploads.Freshness`). A `staged` record
protects nothing: an object staged and since deleted is garbage.

*Aborting* (`end`) sets a record to `aborted` unless it is `staged`. A later collection that ignores
the age of objects is safe: either the entry was staged when step 4 read the record, so before the
abort and the collection's scan; or step 4 reads `aborted`, and the link is not acknowledged.

*A request that dies, or whose reply is lost,* after

- 1, 2: has changed nothing.
- 3: is decided. A repeat with equal arguments continues with 4; others are refused.
- 4: has left a visible entry without acknowledgment. A repeat stages the same entry again, on a
  condition too: an equal existing entry counts as its own. (If the path was written in between,
  the repeat is the later write and, without a condition, wins.)
- 5: a repeat returns the same reply and stages nothing, even if the path has since changed.

*The linked object cannot be replaced.* A presigned URL stays valid after linking, so a client could
write to the address again. If the storage lets such a write replace the object, step 3 stores the
ETag in the entry, and every read requires it.

*A missing object* is refused in step 2. `LinkSettings` can allow it: then the entry has the size
and the checksum given by the client and is marked as unverified; see `etag_pins`.

A record is removed some time after its link has expired; a `consumed` one not before its object is
too old to be staged, so that the client can repeat the request until then. An object uploaded and
never linked is garbage from then on.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, ObjectInfo, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.staging.cells import decode, encode
from lakebed.engine.staging.writer import Condition, IsRecent
from lakebed.formats import Entry
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.kv.store import applied_before
from lakebed.lake import records_pb2 as pb
from lakebed.lake.entry_metadata import for_content, for_unverified
from lakebed.lake.errors import InvalidLink, LinkExpired
from lakebed.lake.keys import LINKS, copy_of
from lakebed.lake.model import (
    ObjectStats,
    PresignedURL,
    check_header,
    check_metadata,
    check_path,
    identity_of,
    new_entry,
    stats_of,
)
from lakebed.lake.presign import Presigning
from lakebed.lake.settings import CatalogSettings
from lakebed.lake.uploads import Addresses, Freshness, Stager, or_same_entry

_TRIES: Final = 10
_OPEN: Final = pb.LINK_STATE_OPEN
_CONSUMED: Final = pb.LINK_STATE_CONSUMED
_STAGED: Final = pb.LINK_STATE_STAGED
_ABORTED: Final = pb.LINK_STATE_ABORTED

_LOGGER: Final = logging.getLogger(__name__)

_LinkRecord = Record[pb.Link]


@dataclass(frozen=True, slots=True)
class PhysicalAddress:
    """An issued address."""

    address: Address
    expires: datetime
    """End of the time in which the address can be linked."""
    upload: PresignedURL | None
    """Upload URL, or None if none was requested."""


@dataclass(frozen=True, slots=True)
class _Request:
    repository: Repository
    branch: BranchID
    path: bytes
    issued: ObjectPath
    checksum: str
    size: int | None
    content_type: str
    metadata: Mapping[str, str]

    @property
    def name(self) -> bytes:
        return self.issued.uid.encode()

    def matches(self, entry: Entry) -> bool:
        """Whether `entry` is the entry requested."""
        identity = identity_of(entry.size, self.checksum, self.content_type, self.metadata)
        return entry.identity == identity and self.size in {None, entry.size}


class Links:
    """Issues addresses and links their objects."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        addresses: Addresses,
        freshness: Freshness,
        stager: Stager,
        presigning: Presigning,
        *,
        require_object: bool,
    ) -> None:
        self._require_object = require_object
        self._presigning = presigning
        self._engine = engine
        self._stager = stager
        self._store = store
        self._block = block
        self._runtime = runtime
        self._settings = settings
        self._addresses = addresses
        self._freshness = freshness

    @traced("catalog.get_physical_address")
    def get_physical_address(
        self, repository_id: RepositoryID, branch: BranchID, path: bytes, *, presign: bool = False
    ) -> PhysicalAddress:
        """Issue an address that can be linked once to a path of a branch, for a limited time.

        Raises as `MultipartUploads.create`, and `NotSupported` if neither storage nor server signs
        URLs for `presign`.
        """
        check_path(path)
        repository = self._engine.readings.to_write(repository_id, branch).repository
        issued = self._addresses.issue(repository, branch)
        link = pb.Link(
            branch=branch,
            path=path,
            address=issued.text,
            expires_us=issued.path.issued_us + to_us(self._settings.link_life_seconds),
            state=_OPEN,
        )
        self._links(repository).set_if(issued.path.uid.encode(), link, ABSENT)
        upload = self._presigning.to_create(issued.address) if presign else None
        return PhysicalAddress(issued.address, to_datetime(link.expires_us), upload)

    @traced("catalog.link")
    def link(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        address: Address,
        *,
        checksum: str,
        size: int | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        condition: Condition | None = None,
    ) -> ObjectStats:
        """Link the object uploaded to an address; a repeat returns the same result.

        The address must have been issued for `branch` and `path`. `size` defaults to the size of
        the stored object. `condition` decides, given the existing entry, whether to write.

        Raises:
            InvalidMetadata: The metadata is invalid.
            InvalidLink: The address was issued for another path, was linked with other arguments,
                or has no such object.
            LinkExpired: The address was issued too long ago.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: The branch is not writable.
            PreconditionFailed: The condition does not hold.
            Stale: Linking took too long, or the link was ended concurrently.
            TooManyTries, OutcomeUnknown: The object may be visible; repeat the request to find out.
                With a condition, `TooManyTries` means that the object is not visible.
            BlockError: The storage refused or failed.
        """
        check_path(path)
        check_metadata(metadata or {})
        check_header("checksum", checksum)
        check_header("content type", content_type)
        known = self._engine.readings.to_write(repository_id, branch, path)
        repository = known.repository
        issued = _issued(repository, address)
        request = _Request(
            repository=repository,
            branch=branch,
            path=path,
            issued=issued,
            checksum=checksum,
            size=size,
            content_type=content_type,
            metadata=metadata or {},
        )
        try:
            link = self._consume(request)
        except InvalidLink as error:
            _LOGGER.info("link refused in repository %s: %s", repository.id, error)
            raise
        entry = _entry_of(link)
        if link.message.state == _CONSUMED:
            is_valid = _LinkIsValid(self._links(repository), link, self._freshness.test(issued))
            known = self._engine.readings.renewed(known, path)
            self._stager.put(
                known, entry, condition=or_same_entry(condition, entry), is_recent=is_valid
            )
            self._record_staged(request, is_valid.record)
        return stats_of(repository.namespace, entry)

    def unfinished(self, repository: Repository, start: bytes = b"") -> Iterator[_LinkRecord]:
        """Yield the unfinished links in order of their keys, from `start` on."""
        found = self._links(repository).scan(start=start)
        now = self._runtime.now()
        return (each for each in found if may_finish(each.message, self._settings, now))

    def end(self, repository: Repository, name: bytes) -> bool:
        """Abort an unfinished link; return False if there is none.

        Raises `OutcomeUnknown` if the link may be aborted.
        """
        links = self._links(repository)
        for _ in range(_TRIES):
            record = links.find(name)
            if record is None or not is_unfinished(record.message):
                return False
            aborted = copy_of(record.message)
            aborted.state = _ABORTED
            try:
                links.set_if(record.name, aborted, record.predicate)
            except PredicateFailed:
                continue  # linked concurrently: read the record again
            return True
        raise TooManyTries(f"ending the link {name.decode()}", _TRIES)

    # Steps 1 to 3

    def _consume(self, request: _Request) -> _LinkRecord:
        """Return the `consumed` or `staged` record, written by this request or an equal one."""
        links = self._links(request.repository)
        for _ in range(_TRIES):
            record = links.find(request.name)
            if record is None:
                raise InvalidLink(
                    f"{request.issued} was not issued for linking, or expired long ago: request"
                    " another address and upload again"
                )
            self._check(record.message, request)
            if record.message.state == _ABORTED:
                raise InvalidLink(
                    f"{request.issued} was ended by an operator: request another address and"
                    " upload again"
                )
            if record.message.state != _OPEN:
                if not request.matches(_entry_of(record)):
                    raise InvalidLink(
                        f"{request.issued} was already linked with other arguments: request another"
                        " address and upload again"
                    )
                return record
            consumed = self._consumed_record(record.message, request)
            try:
                version = links.set_if(record.name, consumed, record.predicate)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                continue  # read the record to learn whose write succeeded
            return Record(record.name, consumed, version)
        raise TooManyTries(f"linking {request.issued}", _TRIES)

    def _check(self, link: pb.Link, request: _Request) -> None:
        given_out_for = (link.address, link.branch, link.path)
        if given_out_for != (str(request.issued), request.branch, request.path):
            raise InvalidLink(
                f"{request.issued} was issued for {quoted(link.path)} on branch {link.branch}, not"
                f" for {quoted(request.path)} on {request.branch}"
            )
        if link.state == _OPEN and now_us(self._runtime) >= link.expires_us:
            raise LinkExpired(
                f"{request.issued} expired at {to_datetime(link.expires_us)}: request another"
                " address and upload again"
            )

    def _consumed_record(self, link: pb.Link, request: _Request) -> pb.Link:
        """Build the record for step 3."""
        address = request.repository.namespace.address(str(request.issued))
        try:
            found = self._stat(request, address)
        except ObjectNotFound as error:
            entry, etag = self._unverified(request, address, error), ""
        else:
            modified, etag = found.mtime.timestamp(), found.etag
            entry = _new_entry(request, found.size, modified, self._kept(found))
        consumed = copy_of(link)
        consumed.state = _CONSUMED
        consumed.entry.ParseFromString(encode(entry))
        consumed.etag = etag
        return consumed

    def _stat(self, request: _Request, address: Address) -> ObjectInfo:
        """Check existence and size of the object (step 2)."""
        info = self._block.head(address)
        if request.size not in {None, info.size}:
            raise InvalidLink(
                f"the object at {address} has {info.size} bytes, not {request.size} as requested"
            )
        return info

    def _unverified(self, request: _Request, address: Address, error: ObjectNotFound) -> Entry:
        """Build the entry of a missing object from the client's arguments."""
        if self._require_object:
            raise InvalidLink(
                f"no object at {address}: upload the object before linking it"
            ) from error
        if request.size is None:
            raise InvalidLink(
                f"no object at {address}, and the request has no size for it: add size_bytes"
            ) from error
        return _new_entry(request, request.size, self._runtime.now(), for_unverified(address))

    def _kept(self, found: ObjectInfo) -> dict[str, str]:
        """Return the entry metadata that identifies the object, if it could be replaced."""
        if self._block.presigned_put_creates_only:
            return {}
        return for_content(found.address, found.etag)

    # Step 5

    def _record_staged(self, request: _Request, read: _LinkRecord) -> None:
        links = self._links(request.repository)
        record: _LinkRecord | None = read
        with applied_before(any_step=True):  # the entry is already staged
            for _ in range(_TRIES):
                # Removed as expired, or written by a repeat of this request. An abort found here
                # came after the entry was staged.
                if record is None or record.message.state == _STAGED:
                    return
                staged = copy_of(record.message)
                staged.state = _STAGED
                try:
                    links.set_if(record.name, staged, record.predicate)
                except StoreUnavailable:
                    raise
                except (PredicateFailed, OutcomeUnknown):
                    record = links.find(request.name)
                    continue
                return
        raise TooManyTries(f"linking {request.issued}", _TRIES)

    def _links(self, repository: Repository) -> Records[pb.Link]:
        return Records(self._store, LINKS, repository.partition)


class _LinkIsValid:
    """Whether a link can be acknowledged: its object is recent, its record not aborted.

    The caller read the record just before the first call; later calls read it again.
    """

    def __init__(self, links: Records[pb.Link], record: _LinkRecord, is_recent: IsRecent) -> None:
        self.record = record
        self._links = links
        self._is_recent = is_recent
        self._is_first = True

    def __call__(self) -> bool:
        if not self._is_recent():
            return False
        if self._is_first:
            self._is_first = False
            return True
        found = self._links.find(self.record.name)
        if found is None or found.message.state == _ABORTED:
            return False
        self.record = found
        return True


def is_unfinished(link: pb.Link) -> bool:
    """Whether an issued address was neither linked nor ended."""
    return link.state in {_OPEN, _CONSUMED}


def is_over(link: pb.Link, settings: CatalogSettings, now: float) -> bool:
    """Whether an address can no longer be linked, not even by a request begun before its expiry."""
    margin = settings.longest_request_seconds + settings.skew_seconds
    # A consumed link can be repeated while its object can be staged.
    longer = max(0, settings.longest_hold_seconds - settings.link_life_seconds)
    kept_us = to_us(longer) if link.state == _CONSUMED else 0
    return link.expires_us + kept_us < to_us(now - margin)


def may_finish(link: pb.Link, settings: CatalogSettings, now: float) -> bool:
    """Whether an issued address can still be linked, or is being linked."""
    return is_unfinished(link) and not is_over(link, settings, now)


def _issued(repository: Repository, address: Address) -> ObjectPath:
    if address in repository.namespace:
        issued = ObjectPath.parse(repository.namespace.relative(address))
        if issued is not None and issued.repository_uid == repository.unique_id:
            return issued
    raise InvalidLink(
        f"repository {repository.id} did not issue the address {address}: request an address first"
    )


def _entry_of(link: _LinkRecord) -> Entry:
    entry = decode(link.message.path, link.message.entry.SerializeToString())
    assert entry is not None, "a consumed link has its entry"
    return entry


def _new_entry(request: _Request, size: int, modified: float, kept: Mapping[str, str]) -> Entry:
    """Build the requested entry, adding `kept` to its metadata."""
    return new_entry(
        request.path,
        str(request.issued),
        size=size,
        checksum=request.checksum,
        modified=modified,
        content_type=request.content_type,
        metadata={**request.metadata, **kept},
    )
