"""Records of multipart uploads and their parts.

Parts need records of their own, because clients identify a part by the MD5 of its bytes, which not
every storage provides.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NewType

from lakebed.base.runtime import to_datetime, to_us
from lakebed.block import Address, ETag, PartInfo
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.staging.cells import decode, encode
from lakebed.formats import Entry
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.kv.store import applied_before
from lakebed.lake import records_pb2 as pb
from lakebed.lake.checksums import SCHEMES, Checksum, Scheme
from lakebed.lake.errors import MultipartNotFound, PartMissing, WrongAddress
from lakebed.lake.keys import MULTIPART_PARTS, MULTIPARTS, copy_of
from lakebed.lake.settings import CatalogSettings

_TRIES: Final = 10

MultipartID = NewType("MultipartID", str)
"""Id of an upload, as given to clients."""

UploadRecord = Record[pb.MultipartUpload]


@dataclass(frozen=True, slots=True)
class Target:
    """An upload, as identified by a request: clients give all fields with every request."""

    repository_id: RepositoryID
    branch: BranchID
    path: bytes
    upload_id: MultipartID
    address: Address | None = None
    """The upload's address; given only by clients that send parts by presigned URLs."""


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part as listed by its uploader."""

    number: int
    md5: str
    """Hexadecimal MD5; of a part sent by a presigned URL, the storage's ETag."""
    checksum: Checksum | None = None
    """The expected checksum, or None if not given."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """An uploaded part."""

    number: int
    md5: str
    size: int
    modified: datetime
    storage_etag: ETag
    """The storage's ETag of the part."""
    checksum: Checksum | None
    """The checksum, or None if unknown."""
    copied_from: str = ""
    """Address of the object that the part was copied from; empty for sent bytes."""

    def is_named_by(self, named: NamedPart) -> bool:
        """Whether the part matches a listed one; an unknown checksum is not compared."""
        if self.md5 != named.md5:
            return False
        return None in {self.checksum, named.checksum} or self.checksum == named.checksum


class MultipartRecords:
    """The records of one repository's multipart uploads.

    `find` and `find_open` raise `MultipartNotFound` if the upload does not exist or is for another
    path, and `WrongAddress` if it has another address.
    """

    def __init__(self, store: Store, repository: Repository) -> None:
        self._uploads = Records(store, MULTIPARTS, repository.partition)
        self._parts = Records(store, MULTIPART_PARTS, repository.partition)
        self._namespace = repository.namespace

    def scan(self, start: bytes = b"") -> Iterator[UploadRecord]:
        """Yield all uploads, including completed ones, in order of their ids, from `start` on."""
        return self._uploads.scan(start=start)

    def add(self, upload_id: MultipartID, upload: pb.MultipartUpload) -> None:
        self._uploads.set_if(upload_id.encode(), upload, ABSENT)

    def find(self, target: Target) -> UploadRecord:
        """Return an upload, open or recently completed."""
        record = self._uploads.find(target.upload_id.encode())
        if record is None or not _is_for(record.message, target):
            raise MultipartNotFound(target.upload_id)
        goes_to = self._namespace.address(record.message.address)
        if target.address not in {None, goes_to}:
            raise WrongAddress(target.upload_id, target.address)
        return record

    def find_open(self, target: Target) -> UploadRecord:
        """Return an upload without a decision."""
        record = self.find(target)
        if record.message.HasField("entry"):
            raise MultipartNotFound(target.upload_id)
        return record

    def decide(
        self, record: UploadRecord, entry: Entry, copied_from: Iterable[str]
    ) -> UploadRecord | None:
        """Record the entry of an upload; return None if that failed, or if the outcome is unknown.

        `copied_from` are the addresses of objects from which parts were copied. Raises
        `StoreUnavailable` if the decision was certainly not recorded.
        """
        decided = copy_of(record.message)
        decided.entry.ParseFromString(encode(entry))
        decided.copied_from[:] = sorted(copied_from)
        try:
            version = self._uploads.set_if(record.name, decided, record.predicate)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return None
        return Record(record.name, decided, version)

    def reopen(self, decided: UploadRecord) -> None:
        """Reopen an upload that could not be completed as decided."""
        open_again = copy_of(decided.message)
        open_again.ClearField("entry")
        open_again.ClearField("copied_from")
        open_again.reopened = True
        with suppress(PredicateFailed):
            self._uploads.set_if(decided.name, open_again, decided.predicate)

    def is_current(self, decided: UploadRecord) -> bool:
        """Whether the upload still exists with the same decision, `staged` or not."""
        record = self._uploads.find(decided.name)
        return record is not None and record.message.entry == decided.message.entry

    def record_staged(self, decided: UploadRecord) -> bool:
        """Record that an upload's entry is staged, and remove its parts.

        Returns False if the decision has changed. Raises `TooManyTries` or `OutcomeUnknown` if the
        outcome is unknown.
        """
        for _ in range(_TRIES):
            record = self._uploads.find(decided.name)
            if record is None or record.message.entry != decided.message.entry:
                return record is None  # removed a long time after completion
            if record.message.staged:
                return True
            staged = copy_of(record.message)
            staged.staged = True
            with applied_before(any_step=True):  # the entry is already staged
                try:
                    self._uploads.set_if(record.name, staged, record.predicate)
                    self.drop_parts(id_of(decided))
                except StoreUnavailable:
                    raise
                except (PredicateFailed, OutcomeUnknown):
                    continue
                return True
        raise TooManyTries(f"noting that the upload {id_of(decided)} is completed", _TRIES)

    def drop(self, record: UploadRecord) -> None:
        """Remove an upload and its parts; raise `MultipartNotFound` if the upload has changed."""
        upload_id = id_of(record)
        try:
            self._uploads.delete_if(record.name, record.predicate)
        except PredicateFailed as error:
            raise MultipartNotFound(upload_id) from error
        self.drop_parts(upload_id)

    # Parts

    def set_part(self, upload_id: MultipartID, number: int, part: pb.MultipartPart) -> StoredPart:
        """Write the record of a part, replacing any existing one."""
        self._parts.set(_prefix(upload_id) + f"{number:05d}".encode(), part)
        return _stored(number, part)

    def parts(self, upload_id: MultipartID) -> Iterator[StoredPart]:
        """Yield the parts of an upload by ascending number."""
        prefix = _prefix(upload_id)
        for record in self._parts.scan(prefix=prefix):
            yield _stored(int(record.name.removeprefix(prefix)), record.message)

    def drop_parts(self, upload_id: MultipartID) -> None:
        for name in self._parts.names(_prefix(upload_id)):  # damaged records, too
            self._parts.delete(name)


def id_of(record: UploadRecord) -> MultipartID:
    """Return the id of an upload, as given to clients."""
    return MultipartID(record.name.decode())


def is_over(upload: pb.MultipartUpload, settings: CatalogSettings, now: float) -> bool:
    """Whether an upload expired, or was completed so long ago that no client repeats it."""
    if upload.staged:
        begin_us, life = upload.entry.entry.modified_us, settings.link_life_seconds
    else:
        begin_us, life = upload.created_us, settings.multipart_life_seconds
    return begin_us + to_us(life + settings.skew_seconds) < to_us(now)


def may_finish(upload: pb.MultipartUpload, settings: CatalogSettings, now: float) -> bool:
    """Whether an upload can still become an object, or is becoming one."""
    # A request to complete the upload may have begun in time.
    return not upload.staged and not is_over(
        upload, settings, now - settings.longest_request_seconds
    )


def entry_of(upload: pb.MultipartUpload) -> Entry | None:
    """Return the decided entry of an upload, or None if it is open."""
    if not upload.HasField("entry"):
        return None
    return decode(upload.path, upload.entry.SerializeToString())


def scheme_of(upload: pb.MultipartUpload) -> Scheme | None:
    """Return the checksum scheme of an upload, or None if it has none."""
    wanted = (upload.checksum_algorithm, upload.checksum_type)
    return next((each for each in SCHEMES if each == wanted), None)


def stored_part(part: PartInfo) -> StoredPart:
    """Convert a part that the storage listed, without a record."""
    return StoredPart(part.number, part.etag, part.size, part.mtime, part.etag, None)


def etag_of(named: Sequence[NamedPart]) -> str:
    """Return the ETag of an object uploaded in parts, computed as S3 does.

    Raises `PartMissing` if the ETag of a part is malformed.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for part in named:
        try:
            digest.update(bytes.fromhex(part.md5))
        except ValueError as error:
            raise PartMissing(
                f"part {part.number} has the invalid ETag '{part.md5}': not an MD5"
            ) from error
    return f"{digest.hexdigest()}-{len(named)}"


def etag_of_storage_etags(named: Sequence[NamedPart]) -> str:
    """Return the ETag of an object whose parts are identified by the storage's ETags.

    If these are MD5s, as at Amazon, the result equals `etag_of`. Otherwise it is a hash of their
    text.
    """
    try:
        return etag_of(named)
    except PartMissing:
        digest = hashlib.md5("\0".join(part.md5 for part in named).encode(), usedforsecurity=False)
        return f"{digest.hexdigest()}-{len(named)}"


def _is_for(upload: pb.MultipartUpload, target: Target) -> bool:
    """Whether a request matches an upload. An upload receives parts by S3 or by URLs, not both."""
    is_presigned = target.address is not None
    wanted = (target.branch, target.path, is_presigned)
    return (upload.branch, upload.path, upload.presigned) == wanted


def _prefix(upload_id: MultipartID) -> bytes:
    return f"{upload_id}/".encode()


def _stored(number: int, part: pb.MultipartPart) -> StoredPart:
    return StoredPart(
        number,
        part.md5,
        part.size,
        to_datetime(part.modified_us),
        ETag(part.storage_etag),
        Checksum.parse(part.checksum),
        part.copied_from,
    )
