"""Completing a multipart upload: its parts become one object, once, whatever fails on the way.

    1. read the record: this branch, this path
    2. check the parts named: uploaded with these bytes, in order, large enough; and the checksum
       of the object, which follows from theirs
    3. the record, with the entry, only over the very record read in 1
    4. have the storage join the parts
    5. stage the entry
    6. the record, `staged`; then the answer

*What holds.* Step 3 decides, once, which parts the object is made of: whoever joins them has read
the decision, and the storage joins only parts with the ETags that it names. Until the object is
staged, the record protects it from garbage collection, however old the upload is; the record is
there before the first byte.

*A request that dies, or whose reply is lost,* after

- 1, 2: has changed nothing.
- 3: has decided. A repeat with the same parts goes on with 4; with others, it is refused.
- 4: the storage no longer knows the upload; a repeat finds the object at its address and goes on.
- 5: the entry is visible, and nobody was told so. A repeat stages the same entry once more, on a
  condition too: an equal entry that stands there already is its own. (If the path was written to in
  between, the repeat comes later: without a condition it wins, as any late write does.)
- 6: a repeat answers the same and stages nothing, whatever became of the path since.

If the storage refuses the parts in step 4 (one was sent again at that very moment), nothing was
joined, and the decision is taken back. Another request may have read it before; so an entry is
acknowledged only if the decision still stands after the entry was staged (on a condition: after it
was proposed), and 6 is certain. This
also makes sure that the record was there as long as nothing else protected the object: an upload
that is too old is dropped even while someone is completing it. A record stays for a while after its
object was staged, so that repeats find it.

*Parts that came by presigned URLs* have no records: the storage lists them, and clients name them
by its ETags. All else is the same. What a URL writes after the decision makes the storage refuse
the parts in step 4, or comes too late.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

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
from lakebed.lake.model import (
    ObjectStats,
    check_header,
    check_metadata,
    new_entry,
    stats_of,
)
from lakebed.lake.multipart.records import (
    MultipartRecords,
    NamedPart,
    StoredPart,
    Target,
    UploadRecord,
    entry_of,
    etag_of,
    etag_of_marks,
    id_of,
    scheme_of,
    stored_part,
)
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.uploads import Stager, or_done

PART_BYTES_MIN: Final = 5 << 20
"""The least size of every part but the last, as with S3."""

_TRIES: Final = 10

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for."""

    target: Target
    named: Sequence[NamedPart]
    checksum: str
    size: int | None
    whole: Checksum | None
    whole_type: ChecksumType | None
    content_type: str | None
    metadata: Mapping[str, str]
    condition: Condition | None

    def is_answered_by(self, upload: pb.MultipartUpload, entry: Entry) -> bool:
        """Whether an upload was decided as this request wants it."""
        kind = self.content_type or upload.content_type
        user = {**upload.metadata, **self.metadata}
        return (entry.checksum, entry.content_type, split(entry.metadata).user) == (
            self.checksum,
            kind,
            split(user).user,
        )


class Completions:
    """Makes objects of multipart uploads."""

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
        """Make an object of the parts named, and stage it; repeating it answers the same.

        Args:
            target: The upload.
            named: Its parts, in order.
            size: How large the object must be, if the caller knows.
            whole: The checksum that the object must have, if the caller knows.
            whole_type: What the checksum of the object must be made of, if the caller says.
            content_type: What kind of data it is; None: as it was said when the upload began.
            metadata: The user's own, besides what was said when the upload began.
            condition: Whether to write, given what is there.

        Raises:
            RepositoryNotFound, MultipartNotFound, WrongAddress: There is no such upload.
            InvalidMetadata: No object can have such metadata.
            InvalidParts: It cannot be made of these parts.
            BadDigest: It would have another checksum.
            ReadOnly, BranchNotFound, Protected: The branch cannot be written to.
            PreconditionFailed: The condition does not hold.
            Stale: Meanwhile the upload was dropped, for its age, or its parts were replaced.
            Purged: A part was copied from an object that was purged since.
            TooManyTries, OutcomeUnknown: The object may be visible; repeat the request to find out.
                With a condition, `TooManyTries` says that it is not.
            BlockError: The storage refused or failed; repeating it may help.
        """
        _check_order(named)
        check_metadata(metadata or {})
        check_header("content type", content_type or "")
        checksum = etag_of(named) if target.address is None else etag_of_marks(named)
        repository = self._engine.repositories.get(target.repository_id)
        records = MultipartRecords(self._store, repository)
        asked = _Asked(
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
        record = self._decide(repository, records, asked)
        entry = entry_of(record.message)
        if entry is None or not asked.is_answered_by(record.message, entry):
            raise MultipartNotFound(target.upload_id)  # it is over, and was made something else
        _compare(asked, checksum_of(entry.metadata))
        if not record.message.staged:
            self._join(repository, records, record, named)
            self._stage(repository, records, record, asked)
            if not records.note_staged(record):
                raise PartMissing(
                    "a part was uploaded again meanwhile, and the object may be there"
                )
        return stats_of(repository.namespace, entry)

    def _stage(
        self,
        repository: Repository,
        records: MultipartRecords,
        record: UploadRecord,
        asked: _Asked,
    ) -> None:
        """Step 5."""
        address = repository.namespace.address(record.message.address)
        sources = map(Address.parse, record.message.copied_from)
        watch = self._purge_marks.watch(sources, address)
        entry = entry_of(record.message)
        assert entry is not None, "a decided upload has its entry"
        try:
            self._stager.put(
                self._read(repository, asked.target),
                entry,
                condition=or_done(asked.condition, entry),
                # The record protects the object until the entry does, and not one moment less.
                is_fresh=lambda: records.stands(record) and watch(),
            )
        except Stale as error:
            if watch.mark is None:
                raise
            # Parts of it were copied from an object that is being purged.
            self._block.delete(address)
            raise self._purge_marks.why_missing(entry.key, address) from error

    def _read(self, repository: Repository, target: Target) -> Reading:
        """Return the branch of an upload, to write to its path."""
        return self._engine.readings.to_write(
            repository.id, target.branch, target.path, unique_id=repository.unique_id
        )

    # Steps 1 to 3

    def _decide(
        self, repository: Repository, records: MultipartRecords, asked: _Asked
    ) -> UploadRecord:
        """Return the record of an upload that is decided, by this request or by another."""
        upload_id = asked.target.upload_id
        for _ in range(_TRIES):
            record = records.find(asked.target)
            upload = record.message
            if upload.HasField("entry"):
                return record
            if asked.condition is not None:  # while the upload is still open
                known = self._read(repository, asked.target)
                self._stager.check(known, asked.target.path, asked.condition)
            parts = _find_parts(self._stored(repository, records, record), asked.named)
            sizes = [part.size for part in parts]
            if asked.size not in {None, sum(sizes)}:
                raise InvalidParts(f"the parts have {sum(sizes)} bytes, not {asked.size}")
            whole = _check_whole(upload, parts, asked)
            entry = new_entry(
                upload.path,
                upload.address,
                size=sum(sizes),
                checksum=asked.checksum,
                modified=self._runtime.now(),
                content_type=asked.content_type or upload.content_type,
                metadata={
                    **upload.metadata,
                    **asked.metadata,
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
        """Return the parts that an upload has."""
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
            # Another request has joined the parts already; or one was sent again meanwhile. If a
            # decision was ever taken back, the object may be made of other parts than these.
            if not upload.reopened and self._is_there(address, upload.entry.entry.size):
                return
            if isinstance(error, UploadNotFound):
                raise MultipartNotFound(id_of(decided)) from error
            _LOGGER.warning(
                "upload %s is open again: the storage refused its parts: %s", id_of(decided), error
            )
            records.take_back(decided)
            raise PartMissing(f"a part was uploaded again meanwhile: {error}") from error

    @staticmethod
    def _wanted(
        records: MultipartRecords, decided: UploadRecord, named: Sequence[NamedPart]
    ) -> list[Part]:
        """Return the parts to join, as the storage names them."""
        if decided.message.presigned:
            return [Part(each.number, ETag(each.md5)) for each in named]
        parts = _find_parts(records.parts(id_of(decided)), named)
        return [Part(part.number, part.storage_etag) for part in parts]

    def _is_there(self, address: Address, size: int) -> bool:
        """Whether the object is there: nothing else is ever written to its address."""
        try:
            return self._block.head(address).size == size
        except ObjectNotFound:
            return False


def _check_order(named: Sequence[NamedPart]) -> None:
    if not named:
        raise InvalidParts("an upload is completed with at least one part")
    for before, after in pairwise(named):
        if before.number >= after.number:
            raise PartsOutOfOrder(f"part {after.number} is named after part {before.number}")


def _find_parts(found: Iterable[StoredPart], named: Sequence[NamedPart]) -> list[StoredPart]:
    """Return the parts named, as they are stored; refuse those that are not, or are too small."""
    # Some storages also list what was sent before under the same number.
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
                f"part {part.number} has {part.size} bytes: all but the last must have"
                f" {PART_BYTES_MIN}"
            )
    return parts


def _check_whole(
    upload: pb.MultipartUpload, parts: Sequence[StoredPart], asked: _Asked
) -> Checksum | None:
    """Return the checksum of the object that parts make, if it has one: the one asked for."""
    scheme = scheme_of(upload)
    if scheme is not None and asked.whole_type not in {None, scheme.type}:
        raise BadDigest(str(asked.whole_type), scheme.type, what="type of the checksum")
    if scheme is None and asked.whole is not None:
        scheme = Scheme(asked.whole.algorithm, asked.whole_type or asked.whole.type)
    whole = None if scheme is None else _combined(scheme, parts)
    _compare(asked, whole)
    return whole


def _combined(scheme: Scheme, parts: Sequence[StoredPart]) -> Checksum | None:
    """Return the checksum of an object; None: not all of its parts have such a checksum."""
    known = [
        (part.checksum, part.size)
        for part in parts
        if part.checksum is not None and part.checksum.algorithm == scheme.algorithm
    ]
    if scheme not in SCHEMES or len(known) < len(parts):
        return None
    return of_parts(scheme, known)


def _compare(asked: _Asked, whole: Checksum | None) -> None:
    """Refuse to make an object that has another checksum than the one asked for, or none."""
    if asked.whole is None or asked.whole == whole:
        return
    if whole is None or whole.algorithm != asked.whole.algorithm:
        raise ChecksumUnknown(asked.whole.algorithm)
    raise BadDigest(asked.whole.value, whole.value, what=whole.algorithm)
