"""What a server writes down for garbage collection: what is in use, as far as the store knows it.

    _lakebed/gc/<repository uid>/runs/<run id>/run.json                `GCRun`
    _lakebed/gc/<repository uid>/runs/<run id>/page-00000.json         `GCPage`
    _lakebed/gc/<repository uid>/runs/<run id>/uploads-….parquet       `GC_SCHEMAS[UPLOADS]`
    _lakebed/gc/<repository uid>/runs/<run id>/staged-….parquet        `GC_SCHEMAS[STAGED]`
    _lakebed/gc/<repository uid>/runs/<run id>/commits-….parquet       `GC_SCHEMAS[COMMITS]`
    _lakebed/gc/<repository uid>/runs/<run id>/manifest.json           `GCManifest`
    _lakebed/gc/<repository uid>/runs/<run id>/old-….parquet           `GC_SCHEMAS[OLD]`
    _lakebed/gc/<repository uid>/expired/<content id>.parquet          `GC_SCHEMAS[EXPIRED]`
    _lakebed/gc/<repository uid>/marks/..                              `GCMark`

A run begins with its `GCRun`. Open uploads and staged entries follow, page by page: a `GCPage` is
written when its files are, and names them. The manifest comes last, and names all files of the run.
Only a run with a manifest is one to go by.

Addresses are in the one canonical form of `lakebed.block.Address`. Each JSON file carries a digest
of itself, each Parquet file is named together with the id of its content: a reader gets what was
written, or an error.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NewType

import pyarrow as pa

from lakebed.formats.documents import decode_document, encode_document, read_record
from lakebed.formats.errors import ForeignFile
from lakebed.formats.parquet import FileType, required

GCRunID = NewType("GCRunID", str)
"""Names a run within its repository."""

RUN_NAME: Final = "run.json"
MANIFEST_NAME: Final = "manifest.json"


class GCFileKind(StrEnum):
    """What a file holds."""

    UPLOADS = "uploads"
    """Objects that were given out, or are being uploaded in parts, and are staged perhaps later."""
    STAGED = "staged"
    """Objects that staged entries name, hidden by newer ones or not."""
    COMMITS = "commits"
    """All commit records, without those that had expired when the run began."""
    EXPIRED = "expired"
    """Commits that have expired. Such a file is kept for ever: a restore goes by it."""
    OLD = "old"
    """Commits that have expired of late, or of a dry run, would: what only they name is freed."""


GC_SCHEMAS: Final[Mapping[GCFileKind, pa.Schema]] = MappingProxyType(
    {
        GCFileKind.UPLOADS: pa.schema(
            [
                required("address", pa.string()),
                required("kind", pa.string()),  # link, multipart, or unreadable: a damaged record
                required("open", pa.bool_()),  # whether an entry may still come of it
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
"""The columns of each kind."""

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
    """Where lakeFS kept objects that a repository has taken over; they count as its own."""

    storage_namespace: str
    """Their paths are whole addresses, which begin so."""
    adopted_us: int
    """They count as written then, or later: who took their addresses before has ended by the time
    at which they are old enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCRun:
    """What a run is about; fixed by the server before it read anything."""

    run_id: GCRunID
    installation_id: str
    repository: str
    unique_id: str
    adopted_unique_ids: tuple[str, ...]
    """Repositories whose object paths the commits of this one name too."""
    storage_namespace: str
    began_us: int
    """By the clock of the server, as all times here."""
    cutoff_us: int
    """Objects that were written later are too young to be garbage."""
    gap_us: int
    """How long before this run began an earlier one must have ended, to count as another look."""
    partition_open_us: int
    """How long after its making a partition may still get objects."""
    with_uploads: bool
    """Whether open uploads and staged entries are read: without them, nothing is garbage."""
    adopted: tuple[GCAdopted, ...] = ()
    """At most one."""
    left_alone: str = ""
    """The namespace in lakeFS whose objects the commits name, and which was not adopted."""
    expired: tuple[GCFile, ...] = ()
    """The commits that had expired, read before anything else: their objects are not in use."""

    @property
    def expired_ids(self) -> tuple[str, ...]:
        """What the set of expired commits is known by: equal for equal sets."""
        return tuple(file.content_id for file in self.expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class GCPage:
    """Some of the open uploads and staged entries of a run."""

    run_id: GCRunID
    number: int
    files: tuple[GCFile, ...]
    following: dict[str, object] | None
    """Where the next page begins, as the server understands it; None: this is the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GCManifest:
    """All of a run."""

    run: GCRun
    ended_us: int
    files: tuple[GCFile, ...]

    def of_kind(self, kind: GCFileKind) -> list[GCFile]:
        """The files of one kind."""
        return [file for file in self.files if file.kind is kind]


@dataclass(frozen=True, slots=True)
class GCMark:
    """Something that a server has just written, to be found by whoever opens the same storage."""

    storage_namespace: str
    unique_id: str
    nonce: str
    """What it wrote; drawn by chance."""
    versions: str = "keep"
    """The server's setting `gc.versions`: ``keep`` or ``delete``."""


def page_name(number: int) -> str:
    """The name of a page."""
    return f"page-{number:05}.json"


def encode_gc_table(
    kind: GCFileKind, table: pa.Table, name: str | None = None
) -> tuple[bytes, GCFile]:
    """Return the file of a table, and how to call it; by default, by its content."""
    file_type = _FILE_TYPES[kind]
    content_id = file_type.content_id(table)
    file = GCFile(name or f"{content_id}.parquet", kind, table.num_rows, content_id)
    return file_type.encode(table), file


def decode_gc_table(data: bytes, described: GCFile, *, file: str) -> pa.Table:
    """Return the table in a file, proven to be what was described.

    Raises:
        DamagedFile: The file does not hold it.
        ForeignFile: It is not such a file, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    return _FILE_TYPES[described.kind].decode(data, content_id=described.content_id, file=file)


def encode_run(run: GCRun) -> bytes:
    """Return the file of a run."""
    return encode_document("gc_run", asdict(run))


def decode_run(data: bytes, run_id: GCRunID, *, file: str) -> GCRun:
    """Return what a run is about; raises as `decode_gc_table`."""
    return read_record(GCRun, _decode(data, "gc_run", run_id, file), file=file)


def encode_page(page: GCPage) -> bytes:
    """Return the file of a page."""
    return encode_document("gc_page", asdict(page))


def decode_page(data: bytes, run_id: GCRunID, *, file: str) -> GCPage:
    """Return a page; raises as `decode_gc_table`."""
    return read_record(GCPage, _decode(data, "gc_page", run_id, file), file=file)


def encode_gc_manifest(manifest: GCManifest) -> bytes:
    """Return the file of a manifest."""
    return encode_document("gc_manifest", asdict(manifest) | {"run_id": manifest.run.run_id})


def decode_gc_manifest(data: bytes, run_id: GCRunID, *, file: str) -> GCManifest:
    """Return a manifest; raises as `decode_gc_table`."""
    return read_record(GCManifest, _decode(data, "gc_manifest", run_id, file), file=file)


def _decode(data: bytes, type_name: str, run_id: GCRunID, file: str) -> dict[str, object]:
    content = decode_document(data, type_name, file=file)
    found = content.get("run_id")
    if found != run_id:
        raise ForeignFile(file, f"is of the run {found}")
    return content
