"""Completing a multipart upload: its parts become one object, exactly once, despite failures.

    1. read the record: same branch, same path
    2. check the listed parts: uploaded with these bytes, in order, large enough; and the object's
       checksum, derived from theirs
    3. write the record with the entry, only if unchanged since step 1: the decision
    4. have the storage join the parts
    5. stage the entry
    6. write the record, `staged`; then reply

*Invariants.* Step 3 decides, once, the parts of the object: a request joins them only after reading
the decision, and the storage joins only parts with the ETags in it. Until the object is staged, the
record protects it from garbage collection, whatever the age of the upload; the record exists before
the first byte.

*A request that dies, or whose reply is lost,* after

- 1, 2: has changed nothing.
- 3: has decided. A repeat with the same parts continues with 4; others are refused.
- 4: the storage no longer has the upload; a repeat finds the object at its address and continues.
- 5: the entry is visible, but not acknowledged. A repeat stages the same entry again, on a
  condition too: an equal existing entry counts as its own. (If the path was written in between, the
  repeat is the later write and, without a condition, wins.)
- 6: a repeat returns the same reply and stages nothing, even if the path has since changed.

If the storage refuses the parts in step 4 (one was sent again at that moment), nothing was joined,
and the decision is revoked. Another request may have read it before. So an entry is acknowledged
only if the decision still stands after staging the entry (for a condition: proposing it), and 6
succeeded. This also ensures that the record existed as long as nothing else protected the object:
an upload that is too old is dropped even during its completion. A record is kept for some time
after its object was staged, for repeats.

*Parts sent by presigned URLs* have no records: the storage lists them, and clients identify them by
its ETags. All else is equal. A part written by a URL after the decision makes the storage refuse
the parts in step 4, or comes too late.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.block import (
    Address,
    BlockStore,
    ETag,
    InvalidPart,
    ObjectNotFound,
    Part,
    UploadId,
    UploadNotFound,
)
from lakebed.engine.engine import Engine
from lakebed.engine.errors import Stale, TooManyTries
from lakebed.engine.model import Repository
from lakebed.engine.reading import Reading
from lakebed.engine.staging.writer import Condition
from lakebed.formats import Entry
from lakebed.kv import Store
from lakebed.lake import records_pb2 as pb
from lakebed.lake.checksums import SCHEMES, Checksum, ChecksumType, Scheme, of_parts
from lakebed.lake.entry_metadata import checksum_of, for_checksum, for_parts, split
from lakebed.lake.errors import (
    BadDigest,
    ChecksumUnknown,
    InvalidParts,
    MultipartNotFound,
    PartMissing,
    PartsOutOfOrder,
    PartTooSmall,
)
from lakebed.lake.model import ObjectStats, check_header, check_metadata, new_entry, stats_of
from lakebed.lake.multipart.records import (
    MultipartRecords,
    NamedPart,
    StoredPart,
    Target,
    UploadRecord,
    entry_of,
    etag_of,
    etag_of_storage_etags,
    id_of,
    scheme_of,
    stored_part,
)
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.uploads import Stager, or_same_entry

PART_BYTES_MIN: Final = 5 << 20
"""Minimum size of every part except the last, as in S3."""

_TRIES: Final = 10

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Request:
    target: Target
    named: Sequence[NamedPart]
    checksum: str
    size: int | None
    whole: Checksum | None
    whole_type: ChecksumType | None
    content_type: str | None
    metadata: Mapping[str, str]
    condition: Condition | None

    def matches(self, upload: pb.MultipartUpload, entry: Entry) -> bool:
        kind = self.content_type or upload.content_type
        user = {**upload.metadata, **self.metadata}
        return (entry.checksum, entry.content_type, split(entry.metadata).user) == (
            self.checksum,
            kind,
            split(user).user,
        )


class Completions:
    """Completes multipart uploads."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        stager: Stager,
        purge_marks: PurgeMarks,
    ) -> None:
        self._purge_marks = purge_marks
        self._engine = engine
        self._stager = stager
        self._store = store
        self._block = block
        self._runtime = runtime

    @traced("catalog.complete_multipart")
    def complete(
        self,
        target: Target,
        named: Sequence[NamedPart],
        *,
        size: int | None = None,
        whole: Checksum | None = None,
        whole_type: ChecksumType | None = None,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        condition: Condition | None = None,
    ) -> ObjectStats:
        """Join the listed parts into an object, and stage it; a repeat returns the same result.

        `size`, `whole` and `whole_type` are the expected size, checksum and type of checksum of the
        object. `content_type` defaults to the one given at creation; `metadata` is added to it.

        Raises:
            RepositoryNotFound, MultipartNotFound, WrongAddress: The upload does not exist.
            InvalidMetadata: The metadata is invalid.
            InvalidParts: The parts are invalid.
            BadDigest: The object would have a different checksum.
            ReadOnly, BranchNotFound, Protected: The branch is not writable.
            PreconditionFailed: The condition does not hold.
            Stale: The upload was dropped concurrently for its age, or its parts were replaced.
            Purged: A part was copied from an object that has since been purged.
            TooManyTries, OutcomeUnknown: The object may be visible; repeat the request to find out.
                With a condition, `TooManyTries` means that the object is not visible.
            BlockError: The storage refused or failed; repeating the request may help.
        """
        check_metadata(metadata or {})
        check_header("content type", content_type or "")
        checksum = etag_of(named) if target.address is None else etag_of_storage_etags(named)
        repository = self._engine.repositories.get(target.repository_id)
        _check_order(named)
        records = MultipartRecords(self._store, repository)
        request = _Request(
            target=target,
            named=named,
            checksum=checksum,
            size=size,
            whole=whole,
            whole_type=whole_type,
            content_type=content_type,
            metadata=metadata or {},
            condition=condition,
        )
        record = self._decide(repository, records, request)
        entry = entry_of(record.message)
        if entry is None or not request.matches(record.message, entry):
            raise MultipartNotFound(target.upload_id)  # completed as a different object
        _compare(request, checksum_of(entry.metadata))
        if not record.message.staged:
            self._join(repository, records, record, named)
            self._stage(repository, records, record, request)
            if not records.record_staged(record):
                raise PartMissing(
                    f"a part of {quoted(target.path)} was uploaded again during the completion,"
                    " and the object may be visible: upload the object again"
                )
        return stats_of(repository.namespace, entry)

    def _stage(
        self,
        repository: Repository,
        records: MultipartRecords,
        record: UploadRecord,
        request: _Request,
    ) -> None:
        """Stage the entry (step 5)."""
        address = repository.namespace.address(record.message.address)
        sources = map(Address.parse, record.message.copied_from)
        watch = self._purge_marks.watch(sources, address)
        entry = entry_of(record.message)
        assert entry is not None, "a decided upload has its entry"
        try:
            self._stager.put(
                self._read(repository, request.target),
                entry,
                condition=or_same_entry(request.condition, entry),
                # The record must protect the object until the entry does.
                is_recent=lambda: records.is_current(record) and watch(),
            )
        except Stale as error:
            if watch.mark is None:
                raise
            # Parts were copied from an object that is being purged.
            self._block.delete(address)
            raise self._purge_marks.why_missing(entry.key, address) from error

    def _read(self, repository: Repository, target: Target) -> Reading:
        return self._engine.readings.to_write(
            repository.id, target.branch, target.path, unique_id=repository.unique_id
        )

    # Steps 1 to 3

    def _decide(
        self, repository: Repository, records: MultipartRecords, request: _Request
    ) -> UploadRecord:
        """Return the decided record, written by this request or another (steps 1 to 3)."""
        upload_id = request.target.upload_id
        for _ in range(_TRIES):
            record = records.find(request.target)
            upload = record.message
            if upload.HasField("entry"):
                return record
            if request.condition is not None:  # the upload is still open
                known = self._read(repository, request.target)
                self._stager.check(known, request.target.path, request.condition)
            parts = _find_parts(self._stored(repository, records, record), request.named)
            sizes = [part.size for part in parts]
            if request.size not in {None, sum(sizes)}:
                raise InvalidParts(
                    f"the parts have {sum(sizes)} bytes, not {request.size}: upload the missing"
                    " parts"
                )
            whole = _check_whole(upload, parts, request)
            entry = new_entry(
                upload.path,
                upload.address,
                size=sum(sizes),
                checksum=request.checksum,
                modified=self._runtime.now(),
                content_type=request.content_type or upload.content_type,
                metadata={
                    **upload.metadata,
                    **request.metadata,
                    **for_parts(sizes),
                    **for_checksum(whole),
                },
            )
            copied_from = {part.copied_from for part in parts if part.copied_from}
            decided = records.decide(record, entry, copied_from)
            if decided is not None:
                return decided
        raise TooManyTries(f"completing the upload {upload_id}", _TRIES)

    def _stored(
        self, repository: Repository, records: MultipartRecords, record: UploadRecord
    ) -> Iterable[StoredPart]:
        upload = record.message
        if not upload.presigned:
            return records.parts(id_of(record))
        address = repository.namespace.address(upload.address)
        try:
            found = self._block.list_parts(address, UploadId(upload.storage_upload_id))
        except UploadNotFound as error:
            raise MultipartNotFound(id_of(record)) from error
        return map(stored_part, found)

    # Step 4

    def _join(
        self,
        repository: Repository,
        records: MultipartRecords,
        decided: UploadRecord,
        named: Sequence[NamedPart],
    ) -> None:
        upload = decided.message
        address = repository.namespace.address(upload.address)
        try:
            wanted = self._wanted(records, decided, named)
            self._block.complete_upload(address, UploadId(upload.storage_upload_id), wanted)
        except (InvalidParts, InvalidPart, UploadNotFound) as error:
            # Another request has joined the parts, or a part was sent again. If a decision was ever
            # revoked, the object may consist of other parts.
            if not upload.reopened and self._exists(address, upload.entry.entry.size):
                return
            if isinstance(error, UploadNotFound):
                raise MultipartNotFound(id_of(decided)) from error
            _LOGGER.warning(
                "upload %s is reopened: the storage refused its parts: %s", id_of(decided), error
            )
            records.reopen(decided)
            raise PartMissing(f"a part was uploaded again concurrently: {error}") from error

    @staticmethod
    def _wanted(
        records: MultipartRecords, decided: UploadRecord, named: Sequence[NamedPart]
    ) -> list[Part]:
        """Return the parts to join, with the storage's ETags."""
        if decided.message.presigned:
            return [Part(each.number, ETag(each.md5)) for each in named]
        parts = _find_parts(records.parts(id_of(decided)), named)
        return [Part(part.number, part.storage_etag) for part in parts]

    def _exists(self, address: Address, size: int) -> bool:
        """Whether the joined object exists: its address is not used for anything else."""
        try:
            return self._block.head(address).size == size
        except ObjectNotFound:
            return False


def _check_order(named: Sequence[NamedPart]) -> None:
    if not named:
        raise InvalidParts("the list of parts is empty: list at least one uploaded part")
    for before, after in pairwise(named):
        if before.number >= after.number:
            raise PartsOutOfOrder(
                f"part {after.number} is listed after part {before.number}: list the parts in"
                " ascending order, each once"
            )


def _find_parts(found: Iterable[StoredPart], named: Sequence[NamedPart]) -> list[StoredPart]:
    """Return the stored parts that match the listed ones; reject missing and too small parts."""
    # Some storages also list overwritten parts of the same number.
    stored: dict[int, list[StoredPart]] = {}
    for part in found:
        stored.setdefault(part.number, []).append(part)
    parts = []
    for each in named:
        fitting = [part for part in stored.get(each.number, ()) if part.is_named_by(each)]
        if not fitting:
            also = f" and {each.checksum}" if each.checksum else ""
            raise PartMissing(f"part {each.number} was not uploaded with ETag {each.md5}{also}")
        parts.append(fitting[0])
    for part in parts[:-1]:
        if part.size < PART_BYTES_MIN:
            raise PartTooSmall(
                f"part {part.number} has {part.size} bytes: all parts except the last must have"
                f" at least {PART_BYTES_MIN}"
            )
    return parts


def _check_whole(
    upload: pb.MultipartUpload, parts: Sequence[StoredPart], request: _Request
) -> Checksum | None:
    """Return the checksum of the joined object, or None; reject a mismatch with the request."""
    scheme = scheme_of(upload)
    if scheme is not None and request.whole_type not in {None, scheme.type}:
        raise BadDigest(str(request.whole_type), scheme.type, what="checksum type")
    if scheme is None and request.whole is not None:
        scheme = Scheme(request.whole.algorithm, request.whole_type or request.whole.type)
    whole = None if scheme is None else _combined(scheme, parts)
    _compare(request, whole)
    return whole


def _combined(scheme: Scheme, parts: Sequence[StoredPart]) -> Checksum | None:
    """Combine the checksums of parts; return None if a part lacks one of this algorithm."""
    known = [
        (part.checksum, part.size)
        for part in parts
        if part.checksum is not None and part.checksum.algorithm == scheme.algorithm
    ]
    if scheme not in SCHEMES or len(known) < len(parts):
        return None
    return of_parts(scheme, known)


def _compare(request: _Request, whole: Checksum | None) -> None:
    """Reject a checksum that differs from the requested one."""
    if request.whole is None:
        return
    if whole is None or whole.algorithm != request.whole.algorithm:
        raise ChecksumUnknown(request.whole.algorithm)
    if not whole.is_announced_by(request.whole):
        raise BadDigest(request.whole.value, whole.value, what=whole.algorithm)
