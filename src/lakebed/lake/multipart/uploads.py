"""Multipart uploads: parts arrive in any order, over days; `complete` joins them.

The record `multiparts/<upload id>` is the upload: its branch and path, its address, and its id in
the storage. The record protects the bytes from garbage collection, and outlives server processes.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.base.runtime import Runtime, now_us, to_datetime
from lakebed.base.tracing import traced
from lakebed.block import (
    PART_BYTES_MAX,
    PART_NUMBER_MAX,
    Address,
    BlockStore,
    ETag,
    UploadId,
    UploadNotFound,
    WrittenPart,
)
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.kv import Store
from lakebed.lake import records_pb2 as pb
from lakebed.lake.checksums import ALGORITHMS, Checksum, Digest, Proof, Scheme, hashed_by, tee
from lakebed.lake.entry_metadata import for_encryption
from lakebed.lake.errors import InvalidParts, MultipartNotFound
from lakebed.lake.model import PresignedURL, check_metadata, check_path
from lakebed.lake.multipart.records import (
    MultipartID,
    MultipartRecords,
    StoredPart,
    Target,
    UploadRecord,
    may_finish,
    scheme_of,
)
from lakebed.lake.presign import Presigning
from lakebed.lake.settings import CatalogSettings
from lakebed.lake.uploads import Addresses

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewUpload:
    """A created upload."""

    id: MultipartID
    address: Address
    """The address of the object."""
    storage_id: UploadId
    """The storage's id of the upload, never shown to clients."""


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """An upload neither completed nor aborted."""

    id: MultipartID
    branch: BranchID
    path: bytes
    created: datetime
    scheme: Scheme | None
    """Scheme of the object's checksum, or None."""


@dataclass(frozen=True, slots=True)
class UploadedParts:
    """The parts of an upload so far."""

    scheme: Scheme | None
    """See `OpenUpload`."""
    parts: list[StoredPart]
    """By ascending number."""


class MultipartUploads:
    """Creates, lists and aborts multipart uploads, and stores their parts.

    Methods raise `RepositoryNotFound`, `MultipartNotFound` or `WrongAddress` if an upload does not
    exist or has another address, and `BlockError` if the storage refuses or fails.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        addresses: Addresses,
    ) -> None:
        self._engine = engine
        self._store = store
        self._block = block
        self._runtime = runtime
        self._settings = settings
        self._addresses = addresses

    @traced("catalog.create_multipart")
    def create(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        scheme: Scheme | None = None,
        presigned_parts: int | None = None,
    ) -> NewUpload:
        """Create an upload.

        `presigned_parts` is the number of URLs requested for parts, or None if the parts are not
        sent directly to the storage.

        Raises:
            InvalidPath, InvalidMetadata: The path or the metadata is invalid.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: The branch is not writable.
            InvalidParts: Too many parts.
            OutcomeUnknown, BlockError: No usable upload was created.
        """
        check_path(path)
        check_metadata(metadata or {})
        repository = self._engine.readings.to_write(repository_id, branch).repository
        if not 0 <= (presigned_parts or 0) <= PART_NUMBER_MAX:
            raise InvalidParts(
                f"an upload has up to {PART_NUMBER_MAX} parts, not {presigned_parts}"
            )
        issued = self._addresses.issue(repository, branch)
        address = issued.address
        storage_id = self._block.create_upload(address)
        upload = pb.MultipartUpload(
            branch=branch,
            path=path,
            address=issued.text,
            created_us=now_us(self._runtime),
            storage_upload_id=storage_id,
            content_type=content_type,
            metadata={**(metadata or {}), **for_encryption(address, self._block.encryption)},
            checksum_algorithm=scheme.algorithm if scheme else "",
            checksum_type=scheme.type if scheme else "",
            presigned=presigned_parts is not None,
        )
        upload_id = MultipartID(issued.path.uid)
        self._records(repository).add(upload_id, upload)
        return NewUpload(upload_id, address, storage_id)

    @traced("catalog.put_part")
    def put_part(
        self,
        target: Target,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
        proof: Proof | None = None,
        copied_from: Address | None = None,
    ) -> StoredPart:
        """Store one part of `size` bytes, replacing an earlier one of the same number.

        If `chunks` raises, the exception propagates and an existing part is unchanged. The part's
        checksum is recorded: the proof's or, if the upload needs another algorithm, one of the
        bytes as received. `copied_from` is the address of the bytes' source object, if any. Raises
        `InvalidParts` for an invalid part number, `OutcomeUnknown` if the part may be stored.
        """
        check_part(number)
        repository = self._engine.repositories.get(target.repository_id)
        records = self._records(repository)
        upload = records.find_open(target).message
        digest = _extra_digest(upload, proof)
        sent = chunks if digest is None else tee(chunks, [digest])
        part = self._send(repository, target, upload, number, hashed_by(proof, sent), size)
        stored = pb.MultipartPart(
            md5=part.md5,
            storage_etag=part.etag,
            size=size,
            modified_us=now_us(self._runtime),
            checksum=_checksum_text(upload, digest, proof),
            copied_from="" if copied_from is None else str(copied_from),
        )
        return records.set_part(target.upload_id, number, stored)

    @traced("catalog.put_presigned_part")
    def put_presigned_part(
        self, target: Target, number: int, chunks: Iterable[bytes], *, size: int
    ) -> ETag:
        """Store a part of an upload with presigned URLs; return its ETag; raises as `put_part`."""
        check_part(number, size)
        repository = self._engine.repositories.get(target.repository_id)
        upload = self._records(repository).find_open(target).message
        return self._send(repository, target, upload, number, chunks, size).etag

    def find_open(self, target: Target) -> NewUpload:
        """Return an upload without a decision."""
        repository = self._engine.repositories.get(target.repository_id)
        upload = self._records(repository).find_open(target).message
        address = repository.namespace.address(upload.address)
        return NewUpload(target.upload_id, address, UploadId(upload.storage_upload_id))

    @traced("catalog.list_parts")
    def list_parts(self, target: Target) -> UploadedParts:
        records = self._records(self._engine.repositories.get(target.repository_id))
        upload = records.find_open(target).message
        return UploadedParts(scheme_of(upload), list(records.parts(target.upload_id)))

    def list_open(self, repository_id: RepositoryID) -> Iterator[OpenUpload]:
        """Yield the open uploads of a repository, in order of their ids.

        Omits uploads by presigned URLs: S3 has no calls for them.
        """
        repository = self._engine.repositories.get(repository_id)
        for record in self._records(repository).scan():
            if not record.message.HasField("entry") and not record.message.presigned:
                yield OpenUpload(
                    MultipartID(record.name.decode()),
                    BranchID(record.message.branch),
                    record.message.path,
                    to_datetime(record.message.created_us),
                    scheme_of(record.message),
                )

    @traced("catalog.abort_multipart")
    def abort(self, target: Target) -> None:
        """Drop an upload and its parts, unless it was completed.

        Raises `OutcomeUnknown` or `BlockError` if the upload may still exist.
        """
        repository = self._engine.repositories.get(target.repository_id)
        self.drop(repository, self._records(repository).find_open(target))

    def unfinished(self, repository: Repository, start: bytes = b"") -> Iterator[UploadRecord]:
        """Yield the uploads that can still become objects, by id, from `start` on.

        Unlike `list_open`, includes uploads whose completion is in progress or was interrupted.
        """
        found = self._records(repository).scan(start)
        now = self._runtime.now()
        return (each for each in found if may_finish(each.message, self._settings, now))

    def end(self, repository: Repository, name: bytes) -> bool:
        """Drop an unfinished upload; return False if it does not exist.

        Raises `OutcomeUnknown` or `BlockError` if the upload may still exist.
        """
        record = next(self.unfinished(repository, name), None)
        if record is None or record.name != name:
            return False
        try:
            self.drop(repository, record)
        except MultipartNotFound:
            return False  # concurrently finished or ended
        return True

    def _send(
        self,
        repository: Repository,
        target: Target,
        upload: pb.MultipartUpload,
        number: int,
        chunks: Iterable[bytes],
        size: int,
    ) -> WrittenPart:
        address = repository.namespace.address(upload.address)
        storage_id = UploadId(upload.storage_upload_id)
        try:
            return self._block.put_part(address, storage_id, number, chunks, size=size)
        except UploadNotFound as error:
            raise MultipartNotFound(target.upload_id) from error

    def drop(self, repository: Repository, record: UploadRecord) -> None:
        """Remove an upload, its record last: an interrupted removal is repeated."""
        address = repository.namespace.address(record.message.address)
        self._block.abort_upload(address, UploadId(record.message.storage_upload_id))
        self._records(repository).drop(record)

    def _records(self, repository: Repository) -> MultipartRecords:
        return MultipartRecords(self._store, repository)


def check_part(number: int, size: int = 0) -> None:
    """Raise `InvalidParts` if the number or the size of a part is invalid."""
    if not 1 <= number <= PART_NUMBER_MAX:
        raise InvalidParts(f"parts are numbered from 1 to {PART_NUMBER_MAX}, not {number}")
    if size > PART_BYTES_MAX:
        raise InvalidParts(f"a part has at most {PART_BYTES_MAX} bytes, not {size}")


def _extra_digest(upload: pb.MultipartUpload, proof: Proof | None) -> Digest | None:
    """Return the digest to compute for a part, or None if its proof provides the checksum."""
    scheme = scheme_of(upload)
    if scheme is None or (proof is not None and proof.algorithm == scheme.algorithm):
        return None
    return ALGORITHMS[scheme.algorithm]()


def _checksum_text(upload: pb.MultipartUpload, digest: Digest | None, proof: Proof | None) -> str:
    """Return the checksum of a part, as stored in its record."""
    if digest is not None:
        return str(Checksum.of(upload.checksum_algorithm, digest.digest()))
    checksum = proof.verified() if proof is not None else None
    return "" if checksum is None else str(checksum)


@dataclass(frozen=True, slots=True)
class PresignedUpload:
    """A new upload, with URLs for its first parts."""

    id: MultipartID
    address: Address
    urls: Sequence[PresignedURL]


class PresignedUploads:
    """Creates uploads whose parts are sent directly to the storage, by presigned URLs.

    These are ordinary uploads: one record, decided once (see `complete`). A URL writes one part of
    one upload. A URL outlives its upload; then the storage refuses its requests.
    """

    def __init__(self, multiparts: MultipartUploads, presigning: Presigning) -> None:
        self._multiparts = multiparts
        self._presigning = presigning

    @traced("catalog.create_presigned_multipart")
    def create(
        self, repository_id: RepositoryID, branch: BranchID, path: bytes, *, parts: int
    ) -> PresignedUpload:
        """Create an upload; return URLs for the parts from 1 to `parts`.

        Raises `NotSupported` if neither the storage nor the server signs URLs for parts; otherwise
        as `MultipartUploads.create`.
        """
        self._presigning.check_parts_supported()
        begun = self._multiparts.create(repository_id, branch, path, presigned_parts=parts)
        urls = [
            self._presigning.to_send_part(begun.address, begun.storage_id, number)
            for number in range(1, parts + 1)
        ]
        return PresignedUpload(begun.id, begun.address, urls)

    @traced("catalog.presign_part")
    def presign_part(self, target: Target, number: int) -> PresignedURL:
        """Return a URL for sending one part, which replaces an earlier one; raises as `create`."""
        check_part(number)
        upload = self._multiparts.find_open(target)
        return self._presigning.to_send_part(upload.address, upload.storage_id, number)
