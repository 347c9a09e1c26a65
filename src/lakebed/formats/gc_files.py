"""Files of garbage collection: a server's snapshot of all references, and a run's findings.

    _lakebed/gc/<repository uid>/runs/<run id>/run.json                `GCRun`
    _lakebed/gc/<repository uid>/runs/<run id>/page-00000.json         `GCPage`
    _lakebed/gc/<repository uid>/runs/<run id>/uploads-….parquet       `GC_SCHEMAS[UPLOADS]`
    _lakebed/gc/<repository uid>/runs/<run id>/staged-….parquet        `GC_SCHEMAS[STAGED]`
    _lakebed/gc/<repository uid>/runs/<run id>/commits-….parquet       `GC_SCHEMAS[COMMITS]`
    _lakebed/gc/<repository uid>/runs/<run id>/manifest.json           `GCManifest`
    _lakebed/gc/<repository uid>/runs/<run id>/old-….parquet           `GC_SCHEMAS[OLD]`
    _lakebed/gc/<repository uid>/expired/<content id>.parquet          `GC_SCHEMAS[EXPIRED]`
    _lakebed/gc/<repository uid>/marks/..                              `GCMarker`

    _lakebed/gc/<repository uid>/state.json                            `GCState`
    _lakebed/gc/<repository uid>/runs/<run id>/objects-….parquet       `GC_RESULT_SCHEMAS[OBJECTS]`
    _lakebed/gc/<repository uid>/runs/<run id>/…                       and so on, each kind
    _lakebed/gc/<repository uid>/runs/<run id>/summary.json            the figures
    _lakebed/gc/<repository uid>/runs/<run id>/refused.json            why the run ended early

A run begins with its `GCRun`. Open uploads and staged entries follow, page by page: a `GCPage` is
written after its files, and lists them. The manifest comes last, and lists all files of the run. A
run without a manifest is incomplete.

The state references its run, and the files read by the next run: it is replaced atomically when a
run is complete, so a run that dies has only deleted garbage.

Addresses are in the canonical form of `lakebed.block.Address`. Each JSON file contains its digest,
each Parquet file is referenced with its content id: a reader gets the content written, or an error.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NewType, TypeVar

import pyarrow as pa

from lakebed.formats.errors import ForeignFile
from lakebed.formats.files import FileType, decode_document, encode_document, read_record, required

GCRunID = NewType("GCRunID", str)
"""Id of a run within its repository."""

RUN_NAME: Final = "run.json"
MANIFEST_NAME: Final = "manifest.json"


class GCFileKind(StrEnum):
    """Content of a file."""

    UPLOADS = "uploads"
    """Issued addresses and multipart uploads that may be staged later."""
    STAGED = "staged"
    """Objects referenced by staged entries, hidden by newer entries or not."""
    COMMITS = "commits"
    """All commit records not expired when the run began."""
    EXPIRED = "expired"
    """Expired commits. Such a file is kept forever: a restore reads it."""
    OLD = "old"
    """Commits expired since the last run. Objects referenced only by them can be deleted."""


GC_SCHEMAS: Final[Mapping[GCFileKind, pa.Schema]] = MappingProxyType(
    {
        GCFileKind.UPLOADS: pa.schema(
            [
                required("address", pa.string()),
                required("kind", pa.string()),  # link, multipart, or unreadable: a damaged record
                required("open", pa.bool_()),  # whether the upload may still become an entry
            ]
        ),
        GCFileKind.STAGED: pa.schema([required("address", pa.string())]),
        GCFileKind.COMMITS: pa.schema(
            [required("id", pa.string()), required("metarange_id", pa.string())]
        ),
        GCFileKind.EXPIRED: pa.schema([required("id", pa.string())]),
        GCFileKind.OLD: pa.schema(
            [required("id", pa.string()), required("metarange_id", pa.string())]
        ),
    }
)
"""Columns of each kind."""

_FILE_TYPES: Final = {kind: FileType(f"gc_{kind}", schema) for kind, schema in GC_SCHEMAS.items()}


@dataclass(frozen=True, slots=True)
class GCFile:
    """A Parquet file of a run."""

    name: str
    kind: GCFileKind
    rows: int
    content_id: str


@dataclass(frozen=True, slots=True)
class GCAdopted:
    """Location of lakeFS objects adopted by a repository; they count as its own."""

    storage_namespace: str
    """Prefix of their full addresses, which are their paths."""
    adopted_us: int
    """Minimum time of writing for their age: requests with earlier addresses have ended by the time
    the objects are old enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCRun:
    """Parameters of a run, fixed by the server before reading anything."""

    run_id: GCRunID
    installation_id: str
    repository: str
    unique_id: str
    adopted_unique_ids: tuple[str, ...]
    """Other repositories whose object paths occur in this repository's commits."""
    storage_namespace: str
    began_us: int
    """By the clock of the server, as all times here."""
    cutoff_us: int
    """Objects written later are too young to be garbage."""
    gap_us: int
    """Minimum time from the end of an earlier run to the start of this run, for its observation to
    count."""
    partition_open_us: int
    """Time from the creation of a partition until it gets no more objects."""
    with_uploads: bool
    """Whether open uploads and staged entries are included: without them, nothing is garbage."""
    adopted: tuple[GCAdopted, ...] = ()
    """At most one."""
    left_alone: str = ""
    """Namespace in lakeFS with objects of the commits, if not adopted."""
    expired: tuple[GCFile, ...] = ()
    """The expired commits, read before anything else: their references do not count."""

    @property
    def expired_ids(self) -> tuple[str, ...]:
        """Identity of the set of expired commits: equal for equal sets."""
        return tuple(file.content_id for file in self.expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class GCPage:
    """A page of the open uploads and staged entries of a run."""

    run_id: GCRunID
    number: int
    files: tuple[GCFile, ...]
    following: dict[str, object] | None
    """Position of the next page, in the server's encoding, or None for the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCManifest:
    """List of all files of a run."""

    run: GCRun
    ended_us: int
    files: tuple[GCFile, ...]

    def of_kind(self, kind: GCFileKind) -> list[GCFile]:
        return [file for file in self.files if file.kind is kind]


@dataclass(frozen=True, slots=True)
class GCMarker:
    """A storage marker just written by a server, to identify the storage."""

    storage_namespace: str
    unique_id: str
    nonce: str
    """Random content of the marker."""
    versions: str = "keep"
    """The server's setting `gc.versions`: ``keep`` or ``delete``."""


def page_name(number: int) -> str:
    """Return the file name of a page."""
    return f"page-{number:05}.json"


def encode_gc_table(
    kind: GCFileKind, table: pa.Table, name: str | None = None
) -> tuple[bytes, GCFile]:
    """Return the file of a table, and its description; the default name is its content id."""
    file_type = _FILE_TYPES[kind]
    content_id = file_type.content_id(table)
    file = GCFile(name or f"{content_id}.parquet", kind, table.num_rows, content_id)
    return file_type.encode(table), file


def decode_gc_table(data: bytes, described: GCFile, *, file: str) -> pa.Table:
    """Return the table in a file after verifying its content id."""
    return _FILE_TYPES[described.kind].decode(data, content_id=described.content_id, file=file)


RecordT = TypeVar("RecordT", GCRun, GCPage, GCManifest)

_RECORD_TYPES: Final = {GCRun: "gc_run", GCPage: "gc_page", GCManifest: "gc_manifest"}


def encode_gc_record(record: GCRun | GCPage | GCManifest) -> bytes:
    """Return the file of a run, page or manifest."""
    run_id = record.run.run_id if isinstance(record, GCManifest) else record.run_id
    return encode_document(_RECORD_TYPES[type(record)], asdict(record) | {"run_id": run_id})


def decode_gc_record(of: type[RecordT], data: bytes, run_id: GCRunID, *, file: str) -> RecordT:
    """Return the run, page or manifest in a file; `ForeignFile` if it is another run's."""
    content = decode_document(data, _RECORD_TYPES[of], file=file)
    if content.get("run_id") != run_id:
        raise ForeignFile(file, f"belongs to run {content.get('run_id')}")
    return read_record(of, content, file=file)


SUMMARY_NAME: Final = "summary.json"
REFUSAL_NAME: Final = "refused.json"


class GCResultKind(StrEnum):
    """Content of a file."""

    OBJECTS = "objects"
    """Objects with verdicts, for the next run."""
    RANGES = "ranges"
    """All ranges of commits ever read."""
    DUE = "due"
    """Candidates deleted by the run."""
    SWEPT = "swept"
    """Results of the deletions."""
    VERSIONS = "versions"
    """Deleted and kept versions of objects, in a bucket with versions."""
    COUNTS = "counts"
    """Number of objects by branch and verdict."""


_OBJECT_FIELDS: Final = (
    required("path", pa.string()),
    required("size", pa.int64()),
    required("born_us", pa.int64()),
    required("made_us", pa.int64()),
    required("verdict", pa.string()),
    required("found_us", pa.int64()),  # 0 except for candidates
)

GC_RESULT_SCHEMAS: Final[Mapping[GCResultKind, pa.Schema]] = MappingProxyType(
    {
        GCResultKind.OBJECTS: pa.schema(_OBJECT_FIELDS),
        GCResultKind.RANGES: pa.schema([required("range_id", pa.string())]),
        GCResultKind.DUE: pa.schema(_OBJECT_FIELDS),
        GCResultKind.SWEPT: pa.schema(
            [*_OBJECT_FIELDS, required("error", pa.string())]  # empty if deleted
        ),
        GCResultKind.VERSIONS: pa.schema(
            [
                required("path", pa.string()),
                required("versions", pa.int64()),  # number of deleted versions
                required("bytes", pa.int64()),  # size of deleted versions
                required("kept", pa.bool_()),  # whether the bucket keeps an older version
                required("kept_bytes", pa.int64()),
                required("locked", pa.string()),  # end of the lock; empty if not locked
            ]
        ),
        GCResultKind.COUNTS: pa.schema(
            [
                required("branch", pa.string()),
                required("verdict", pa.string()),
                required("stage", pa.string()),
                required("objects", pa.int64()),
                required("bytes", pa.int64()),
            ]
        ),
    }
)
"""Columns of each kind; times are microseconds since 1970 by the server's clock."""

_RESULT_TYPES: Final = {
    kind: FileType(f"gc_{kind}", schema) for kind, schema in GC_RESULT_SCHEMAS.items()
}


@dataclass(frozen=True, slots=True)
class GCResultFile:
    """A Parquet file written by a run."""

    name: str
    kind: GCResultKind
    rows: int
    bytes: int
    """Total size of the objects in the file."""
    content_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GCState:
    """State passed from a run to the next."""

    run_id: GCRunID
    """The run that wrote the state; its folder contains the files."""
    repository_uids: tuple[str, ...]
    """Owners of the observed objects."""
    began_us: int
    closed_before_us: int
    """Partitions created earlier are closed."""
    objects_closed: int
    """Number of objects in closed partitions."""
    objects_open: int
    """Number of objects in open partitions."""
    commits: tuple[GCFile, ...]
    files: tuple[GCResultFile, ...]
    expired_ids: tuple[str, ...] = ()
    """The set of expired commits used by the run; see `GCRun`."""

    @property
    def objects(self) -> int:
        return self.objects_closed + self.objects_open


def encode_result(kind: GCResultKind, table: pa.Table) -> tuple[bytes, str]:
    """Return the file of a table, and its content id."""
    file_type = _RESULT_TYPES[kind]
    return file_type.encode(table), file_type.content_id(table)


def decode_result(data: bytes, kind: GCResultKind, content_id: str, *, file: str) -> pa.Table:
    """Return the table in a file after verifying its content id."""
    return _RESULT_TYPES[kind].decode(data, content_id=content_id, file=file)


def encode_state(state: GCState) -> bytes:
    """Return the file of a state."""
    return encode_document("gc_state", asdict(state))


def decode_state(data: bytes, *, file: str) -> GCState:
    """Return the state in a file."""
    return read_record(GCState, decode_document(data, "gc_state", file=file), file=file)
