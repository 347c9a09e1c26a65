"""The records of multipart uploads and of their parts.

A part has a record of its own, since clients name a part by the MD5 of its bytes, which not every
storage keeps.
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
"""The id by which a client names an upload."""

UploadRecord = Record[pb.MultipartUpload]


@dataclass(frozen=True, slots=True)
class Target:
    """An upload and what it is for: a client names all of it with every request."""

    repository_id: RepositoryID
    branch: BranchID
    path: bytes
    upload_id: MultipartID
    address: Address | None = None
    """Where its bytes go. Whoever sends parts by presigned URLs names it too, and nobody else."""


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part as its uploader names it."""

    number: int
    md5: str
    """In hexadecimal; of a part that was sent by a presigned URL, its ETag in the storage."""
    checksum: Checksum | None = None
    """The checksum that the uploader expects; None: it does not say."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that was uploaded."""

    number: int
    md5: str
    size: int
    modified: datetime
    storage_etag: ETag
    """By which the storage names it."""
    checksum: Checksum | None
    """None: it is not known."""
    copied_from: str = ""
    """The address of the object that its bytes are from; empty: they were sent."""

    def is_named_by(self, named: NamedPart) -> bool:
        """Whether it is what an uploader means; a checksum that is not known is not compared."""
        if self.md5 != named.md5:
            return False
        return None in {self.checksum, named.checksum} or self.checksum == named.checksum


class MultipartRecords:
    """The records of the uploads of one repository."""

    def __init__(self, store: Store, repository: Repository) -> None:
        self._uploads = Records(store, MULTIPARTS, repository.partition)
        self._parts = Records(store, MULTIPART_PARTS, repository.partition)
        self._namespace = repository.namespace

    def scan(self, start: bytes = b"") -> Iterator[UploadRecord]:
        """Iterate over all uploads, completed ones too, by their ids, from `start` on."""
        return self._uploads.scan(start=start)

    def scan_readable(self) -> Iterator[UploadRecord]:
        """Iterate over all uploads whose records are not damaged."""
        return self._uploads.scan_readable()

    def add(self, upload_id: MultipartID, upload: pb.MultipartUpload) -> None:
        """Write the record of a new upload."""
        self._uploads.set_if(upload_id.encode(), upload, ABSENT)

    def find(self, target: Target) -> UploadRecord:
        """Return an upload, open or completed lately.

        Raises:
            MultipartNotFound: There is none, or it is for something else.
            WrongAddress: Its bytes go elsewhere.
        """
        record = self._uploads.find(target.upload_id.encode())
        if record is None or not _is_for(record.message, target):
            raise MultipartNotFound(target.upload_id)
        goes_to = self._namespace.address(record.message.address)
        if target.address not in {None, goes_to}:
            raise WrongAddress(target.upload_id, target.address)
        return record

    def find_open(self, target: Target) -> UploadRecord:
        """Return an upload that nobody has decided to complete.

        Raises:
            MultipartNotFound: There is none, or it is for something else.
            WrongAddress: Its bytes go elsewhere.
        """
        record = self.find(target)
        if record.message.HasField("entry"):
            raise MultipartNotFound(target.upload_id)
        return record

    def decide(
        self, record: UploadRecord, entry: Entry, copied_from: Iterable[str]
    ) -> UploadRecord | None:
        """Note what an upload is completed to, if it is still as it was read.

        `copied_from` are the addresses of objects that its parts were copied from.

        None: it is not, or nobody knows whether it was noted.

        Raises:
            StoreUnavailable: It was certainly not.
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

    def take_back(self, decided: UploadRecord) -> None:
        """Open an upload again that could not be completed as decided."""
        open_again = copy_of(decided.message)
        open_again.ClearField("entry")
        open_again.ClearField("copied_from")
        open_again.reopened = True
        with suppress(PredicateFailed):
            self._uploads.set_if(decided.name, open_again, decided.predicate)

    def stands(self, decided: UploadRecord) -> bool:
        """Whether an upload is still there and decided as it was, noted as staged or not."""
        record = self._uploads.find(decided.name)
        return record is not None and record.message.entry == decided.message.entry

    def note_staged(self, decided: UploadRecord) -> bool:
        """Note that the entry of an upload is staged; its parts are of no use then.

        False: it could not be noted, since the decision is another by now.

        Raises:
            TooManyTries, OutcomeUnknown: Nobody knows whether it was noted.
        """
        for _ in range(_TRIES):
            record = self._uploads.find(decided.name)
            if record is None or record.message.entry != decided.message.entry:
                return record is None  # it was all over, so long ago that nobody asks any more
            if record.message.staged:
                return True
            staged = copy_of(record.message)
            staged.staged = True
            with applied_before(any_step=True):  # the entry is staged
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
        """Remove an upload and its parts, if it is still as it was read.

        Raises:
            MultipartNotFound: It is not.
        """
        upload_id = id_of(record)
        try:
            self._uploads.delete_if(record.name, record.predicate)
        except PredicateFailed as error:
            raise MultipartNotFound(upload_id) from error
        self.drop_parts(upload_id)

    # Parts

    def set_part(self, upload_id: MultipartID, number: int, part: pb.MultipartPart) -> StoredPart:
        """Write the record of a part, whatever was there."""
        self._parts.set(_prefix(upload_id) + f"{number:05d}".encode(), part)
        return _stored(number, part)

    def parts(self, upload_id: MultipartID) -> Iterator[StoredPart]:
        """Iterate over the parts of an upload by ascending number."""
        prefix = _prefix(upload_id)
        for record in self._parts.scan(prefix=prefix):
            yield _stored(int(record.name.removeprefix(prefix)), record.message)

    def drop_parts(self, upload_id: MultipartID) -> None:
        """Remove the records of all parts of an upload."""
        for record in self._parts.scan(prefix=_prefix(upload_id)):
            self._parts.delete(record.name)


def id_of(record: UploadRecord) -> MultipartID:
    """Return the id by which a client names an upload."""
    return MultipartID(record.name.decode())


def is_over(upload: pb.MultipartUpload, settings: CatalogSettings, now: float) -> bool:
    """Whether an upload was not completed in time, or was so long ago that no client repeats it."""
    if upload.staged:
        begin_us, life = upload.entry.entry.modified_us, settings.link_life_seconds
    else:
        begin_us, life = upload.created_us, settings.multipart_life_seconds
    return begin_us + to_us(life + settings.skew_seconds) < to_us(now)


def may_finish(upload: pb.MultipartUpload, settings: CatalogSettings, now: float) -> bool:
    """Whether an upload may still become an object, or is just becoming one."""
    # A request to complete it may have begun in time.
    return not upload.staged and not is_over(
        upload, settings, now - settings.longest_request_seconds
    )


def entry_of(upload: pb.MultipartUpload) -> Entry | None:
    """Return what an upload is completed to; None, if it is open."""
    if not upload.HasField("entry"):
        return None
    return decode(upload.path, upload.entry.SerializeToString())


def scheme_of(upload: pb.MultipartUpload) -> Scheme | None:
    """Return how the checksum of an upload's object is to be made; None: it has none."""
    wanted = (upload.checksum_algorithm, upload.checksum_type)
    return next((each for each in SCHEMES if each == wanted), None)


def stored_part(part: PartInfo) -> StoredPart:
    """Return a part that the storage has, and that no record was written of."""
    return StoredPart(part.number, part.etag, part.size, part.mtime, part.etag, None)


def etag_of(named: Sequence[NamedPart]) -> str:
    """Return the ETag of an object that was uploaded in parts, as S3 makes it.

    Raises:
        PartMissing: No part can have such an ETag.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for part in named:
        try:
            digest.update(bytes.fromhex(part.md5))
        except ValueError as error:
            raise PartMissing(
                f"part {part.number} cannot have the ETag '{part.md5}': it is not an MD5"
            ) from error
    return f"{digest.hexdigest()}-{len(named)}"


def etag_of_marks(named: Sequence[NamedPart]) -> str:
    """Return the ETag of an object whose parts are named by ETags of the storage.

    Where these are MD5s, as with Amazon, it is the same as `etag_of`. Elsewhere they may be
    anything; then it is made of their text.
    """
    try:
        return etag_of(named)
    except PartMissing:
        digest = hashlib.md5("\0".join(part.md5 for part in named).encode(), usedforsecurity=False)
        return f"{digest.hexdigest()}-{len(named)}"


def _is_for(upload: pb.MultipartUpload, target: Target) -> bool:
    """Whether an upload is what a request means. Its parts come by one way only: S3, or URLs."""
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
