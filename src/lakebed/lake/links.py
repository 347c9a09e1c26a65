"""Links: a client uploads straight to the storage, and then links its object to a path.

An address is given out for one branch and path, for a limited time. Its object uid is the token:
the record `links/<uid>` says what it was given out for. It can be linked once.

**Giving out**

    1. the record, `open`, with branch, path, address and expiry
    2. the address, and perhaps a presigned URL, to the client

**Linking**

    1. read the record: this branch, this path, not expired
    2. look at the object: it is there, and has the size that the client says
    3. the record, `consumed`, with the entry, only over the very record read in 1
    4. stage the entry; once it is staged, or proposed on a condition, read the record again: if it
       is gone or `aborted`, take the entry back
    5. the record, `staged`; then the answer

*What holds.* An address stands for one entry, for ever: whoever stages it has read `consumed` and
stages the entry in that record, whichever of several requests wrote it in step 3. The object is
protected from garbage collection before the client knows its address: by the record until that is
`staged`, by the entry from step 4 on, and by its age in any case (see `addresses.Freshness`). A
record that is `staged` protects nothing: what was staged and deleted since is garbage.

*Aborting* (`end`) makes a record `aborted`, if it is not `staged`. A collection that looks later
and ignores the age of objects is safe: either the entry was staged when step 4 read the record, and
so before the abort and before the look; or step 4 reads `aborted`, and nobody is told that it
worked.

*A request that dies, or whose reply is lost,* after

- 1, 2: has changed nothing.
- 3: has decided. A repeat with the same arguments goes on with 4; with others, it is refused.
- 4: the entry is visible, and nobody was told so. A repeat stages the same entry once more, on a
  condition too: an equal entry that stands there already is its own. (If the path was written to in
  between, the repeat comes later: without a condition it wins, as any late write does.)
- 5: a repeat answers the same and stages nothing, whatever became of the path since.

*The object that was linked stays the one.* A presigned URL outlives the link: until it expires, its
holder could write to the address again. Where the storage lets that replace the object, step 3
keeps the ETag that it saw in the entry, and every read asks for that content and no other.

*An object that is not there* is refused in step 2. An installation may allow it (`LinkSettings`):
then the entry has the size and the checksum that the client claims, and is marked as unverified.
What holds for it is in `pins`.

A record is removed a while after its link has expired, and one that is `consumed` not before its
object is too old to be staged: until then its client may repeat the request. An object that was
uploaded and never linked is garbage from then on.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, ObjectInfo, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.staging.cells import decode, encode
from lakebed.engine.staging.writer import Condition, IsFresh
from lakebed.formats import Entry
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.kv.store import applied_before
from lakebed.lake import records_pb2 as pb
from lakebed.lake.entry_metadata import for_content, for_unverified
from lakebed.lake.errors import InvalidLink, LinkExpired
from lakebed.lake.keys import LINKS, copy_of, remove_where
from lakebed.lake.model import (
    DEFAULT_CONTENT_TYPE,
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
from lakebed.lake.uploads import Addresses, Freshness, Stager, or_done

_TRIES: Final = 10
_OPEN: Final = pb.LINK_STATE_OPEN
_CONSUMED: Final = pb.LINK_STATE_CONSUMED
_STAGED: Final = pb.LINK_STATE_STAGED
_ABORTED: Final = pb.LINK_STATE_ABORTED

_LOGGER: Final = logging.getLogger(__name__)

_LinkRecord = Record[pb.Link]


@dataclass(frozen=True, slots=True)
class PhysicalAddress:
    """An address that was given out."""

    address: Address
    expires: datetime
    """Until when it can be linked."""
    upload: PresignedURL | None
    """Where to upload to, if that was asked for."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What a client asks to link."""

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
        """The name of the record."""
        return self.issued.uid.encode()

    def wants(self, entry: Entry) -> bool:
        """Whether it is a request for this entry."""
        identity = identity_of(entry.size, self.checksum, self.content_type, self.metadata)
        return entry.identity == identity and self.size in {None, entry.size}


class Links:
    """Addresses given out to clients."""

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
        """Give out an address that can be linked to a path of a branch, once, for a while.

        Raises:
            InvalidPath: No object can have this path.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            NotSupported: It is to be presigned, and nobody signs URLs.
            OutcomeUnknown: Nothing was given out.
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
        """Link the object that was uploaded to an address; repeating it answers the same.

        Args:
            repository_id: Where.
            branch: The branch that the address was given out for.
            path: The path that it was given out for.
            address: The address.
            checksum: Of the object's content.
            size: In bytes; None: as it is found, if it is there.
            content_type: What kind of data it is.
            metadata: The user's own.
            condition: Whether to write, given what is there.

        Raises:
            InvalidMetadata: No object can have such metadata.
            InvalidLink: The address was not given out for this, was linked with other arguments, or
                holds no such object.
            LinkExpired: It was given out too long ago.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            PreconditionFailed: The condition does not hold.
            Stale: Linking took too long, or somebody ended the link meanwhile.
            TooManyTries, OutcomeUnknown: The object may be visible; repeat the request to find out.
                With a condition, `TooManyTries` says that it is not.
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
            _LOGGER.info("a link was refused in repository %s: %s", repository.id, error)
            raise
        entry = _entry_of(link)
        if link.message.state == _CONSUMED:
            standing = _Standing(self._links(repository), link, self._freshness.test(issued))
            known = self._engine.readings.renewed(known, path)
            self._stager.put(known, entry, condition=or_done(condition, entry), is_fresh=standing)
            self._note_staged(request, standing.record)
        return stats_of(repository.namespace, entry)

    def clean(self, repository: Repository, times: CatalogSettings | None = None) -> int:
        """Remove the records of links that expired a while ago; return how many."""
        settings = times or self._settings
        now = self._runtime.now()
        return remove_where(self._links(repository), lambda link: is_over(link, settings, now))

    def unfinished(self, repository: Repository, start: bytes = b"") -> Iterator[_LinkRecord]:
        """Iterate over the links that were not staged yet, by name, from `start` on."""
        found = self._links(repository).scan(start=start)
        now = self._runtime.now()
        return (each for each in found if may_finish(each.message, self._settings, now))

    def end(self, repository: Repository, name: bytes) -> bool:
        """Abort a link that was not staged yet; return whether there was one.

        Raises:
            OutcomeUnknown: It may be aborted by now.
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
                continue  # somebody links it just now
            return True
        raise TooManyTries(f"ending the link {name.decode()}", _TRIES)

    # Steps 1 to 3

    def _consume(self, request: _Request) -> _LinkRecord:
        """Return the record of a link that is consumed, by this request or by one like it."""
        links = self._links(request.repository)
        for _ in range(_TRIES):
            record = links.find(request.name)
            if record is None:
                raise InvalidLink(
                    f"{request.issued} was not given out to be linked, or expired long ago"
                )
            self._check(record.message, request)
            if record.message.state == _ABORTED:
                raise InvalidLink(
                    f"{request.issued} was ended by an operator: ask for another address, and"
                    " upload again"
                )
            if record.message.state != _OPEN:
                if not request.wants(_entry_of(record)):
                    raise InvalidLink(f"{request.issued} was linked already, to something else")
                return record
            consumed = self._consumed_record(record.message, request)
            try:
                version = links.set_if(record.name, consumed, record.predicate)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                continue  # the next look shows who it was
            return Record(record.name, consumed, version)
        raise TooManyTries(f"linking {request.issued}", _TRIES)

    def _check(self, link: pb.Link, request: _Request) -> None:
        given_out_for = (link.address, link.branch, link.path)
        if given_out_for != (str(request.issued), request.branch, request.path):
            raise InvalidLink(
                f"{request.issued} was given out for {quoted(link.path)} on branch {link.branch}"
            )
        if link.state == _OPEN and now_us(self._runtime) >= link.expires_us:
            raise LinkExpired(
                f"{request.issued} expired at {to_datetime(link.expires_us)}: ask for another"
                " address, and upload again"
            )

    def _consumed_record(self, link: pb.Link, request: _Request) -> pb.Link:
        """Return the record that step 3 writes."""
        address = request.repository.namespace.address(str(request.issued))
        try:
            found = self._look(request, address)
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

    def _look(self, request: _Request, address: Address) -> ObjectInfo:
        """Step 2."""
        info = self._block.head(address)
        if request.size not in {None, info.size}:
            raise InvalidLink(
                f"the object at {address} has {info.size} bytes, and the request says"
                f" {request.size}"
            )
        return info

    def _unverified(self, request: _Request, address: Address, error: ObjectNotFound) -> Entry:
        """Return the entry of an object that is not there, from what the client says."""
        if self._require_object:
            raise InvalidLink(
                f"there is no object at {address}: upload it first, and link it then"
            ) from error
        if request.size is None:
            raise InvalidLink(
                f"there is no object at {address}, and the request does not say how large it will"
                " be: add size_bytes"
            ) from error
        return _new_entry(request, request.size, self._runtime.now(), for_unverified(address))

    def _kept(self, found: ObjectInfo) -> dict[str, str]:
        """Return what the entry keeps of the object, so that no other is taken for it."""
        if self._block.presigned_put_creates_only:
            return {}
        return for_content(found.address, found.etag)

    # Step 5

    def _note_staged(self, request: _Request, read: _LinkRecord) -> None:
        links = self._links(request.repository)
        record: _LinkRecord | None = read
        with applied_before(any_step=True):  # the entry is staged
            for _ in range(_TRIES):
                # Expired by now, or noted by a repeat of this request. If somebody has aborted it,
                # that was after the entry was staged.
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


class _Standing:
    """Whether a link may be acknowledged: its object is fresh, and its record still stands.

    The record was read just before the first call; each later one reads it again.
    """

    def __init__(self, links: Records[pb.Link], record: _LinkRecord, is_fresh: IsFresh) -> None:
        self.record = record
        self._links = links
        self._is_fresh = is_fresh
        self._is_first = True

    def __call__(self) -> bool:
        if not self._is_fresh():
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
    """Whether an address that was given out was neither linked nor ended."""
    return link.state in {_OPEN, _CONSUMED}


def is_over(link: pb.Link, settings: CatalogSettings, now: float) -> bool:
    """Whether no request can link an address any more, and none is at it that began in time."""
    margin = settings.longest_request_seconds + settings.skew_seconds
    # A link that was decided can be repeated for as long as its object may be staged.
    longer = max(0, settings.longest_hold_seconds - settings.link_life_seconds)
    kept_us = to_us(longer) if link.state == _CONSUMED else 0
    return link.expires_us + kept_us < to_us(now - margin)


def may_finish(link: pb.Link, settings: CatalogSettings, now: float) -> bool:
    """Whether an address that was given out may still be linked, or is being linked."""
    return is_unfinished(link) and not is_over(link, settings, now)


def _issued(repository: Repository, address: Address) -> ObjectPath:
    if address in repository.namespace:
        issued = ObjectPath.parse(repository.namespace.relative(address))
        if issued is not None and issued.repository_uid == repository.unique_id:
            return issued
    raise InvalidLink(f"repository {repository.id} did not give out the address {address}")


def _entry_of(link: _LinkRecord) -> Entry:
    entry = decode(link.message.path, link.message.entry.SerializeToString())
    assert entry is not None, "a consumed link has its entry"
    return entry


def _new_entry(request: _Request, size: int, modified: float, kept: Mapping[str, str]) -> Entry:
    """Return the entry that a request asks for; `kept` goes into its metadata."""
    return new_entry(
        request.path,
        str(request.issued),
        size=size,
        checksum=request.checksum,
        modified=modified,
        content_type=request.content_type,
        metadata={**request.metadata, **kept},
    )
