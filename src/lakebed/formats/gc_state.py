"""What a run of garbage collection leaves behind: its state, for the next run, and its findings.

    _lakebed/gc/<repository uid>/state.json                            `GCState`
    _lakebed/gc/<repository uid>/runs/<run id>/objects-….parquet       `GC_RESULT_SCHEMAS[OBJECTS]`
    _lakebed/gc/<repository uid>/runs/<run id>/…                       and so on, each kind
    _lakebed/gc/<repository uid>/runs/<run id>/summary.json            the figures, for people
    _lakebed/gc/<repository uid>/runs/<run id>/refused.json            why it ended early

The state names the run that left it, and the files that the next run goes by: it is replaced in one
step when a run is complete, so that a run which dies has done nothing but delete garbage. It
carries a digest of itself, and names each file together with the id of its content.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from lakebed.formats.documents import decode_document, encode_document, read_record
from lakebed.formats.gc_files import GCFile, GCRunID
from lakebed.formats.parquet import FileType, required

SUMMARY_NAME: Final = "summary.json"
REFUSAL_NAME: Final = "refused.json"
_TYPE: Final = "gc_state"


class GCResultKind(StrEnum):
    """What a file holds."""

    OBJECTS = "objects"
    """Objects that the next run must know of, and what they were found to be."""
    RANGES = "ranges"
    """The ranges that commits name, all that were ever read."""
    DUE = "due"
    """Candidates that the run deletes."""
    SWEPT = "swept"
    """What became of each of them."""
    VERSIONS = "versions"
    """Of objects in a bucket that keeps versions: which of them went, and which stay."""
    COUNTS = "counts"
    """How many objects of which branch were found to be what."""


_OBJECT_FIELDS: Final = (
    required("path", pa.string()),
    required("size", pa.int64()),
    required("born_us", pa.int64()),
    required("made_us", pa.int64()),
    required("verdict", pa.string()),
    required("found_us", pa.int64()),  # of candidates; 0 for others
)

GC_RESULT_SCHEMAS: Final[Mapping[GCResultKind, pa.Schema]] = MappingProxyType(
    {
        GCResultKind.OBJECTS: pa.schema(_OBJECT_FIELDS),
        GCResultKind.RANGES: pa.schema([required("range_id", pa.string())]),
        GCResultKind.DUE: pa.schema(_OBJECT_FIELDS),
        GCResultKind.SWEPT: pa.schema(
            [*_OBJECT_FIELDS, required("error", pa.string())]  # empty: it is deleted
        ),
        GCResultKind.VERSIONS: pa.schema(
            [
                required("path", pa.string()),
                required("versions", pa.int64()),  # how many were deleted
                required("bytes", pa.int64()),  # of those
                required("kept", pa.bool_()),  # whether the bucket keeps it as an older version
                required("kept_bytes", pa.int64()),
                required("locked", pa.string()),  # until when; empty: it is not
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
"""The columns of each kind; times are microseconds since 1970 by the server's clock."""

_FILE_TYPES: Final = {
    kind: FileType(f"gc_{kind}", schema) for kind, schema in GC_RESULT_SCHEMAS.items()
}


@dataclass(frozen=True, slots=True)
class GCResultFile:
    """A Parquet file that a run wrote."""

    name: str
    kind: GCResultKind
    rows: int
    bytes: int
    """The size of the objects in it, together."""
    content_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GCState:
    """What the next run goes by."""

    run_id: GCRunID
    """The run that left it, whose folder holds the files."""
    repository_uids: tuple[str, ...]
    """Whose objects were looked at."""
    began_us: int
    closed_before_us: int
    """Partitions made earlier were seen complete."""
    objects_closed: int
    """How many objects such partitions hold."""
    objects_open: int
    """How many objects others held."""
    commits: tuple[GCFile, ...]
    """The commit records that were known."""
    files: tuple[GCResultFile, ...]
    expired_ids: tuple[str, ...] = ()
    """The set of expired commits that the run went by; see `GCRun`."""

    @property
    def objects(self) -> int:
        """How many objects there were."""
        return self.objects_closed + self.objects_open


def encode_result(kind: GCResultKind, table: pa.Table) -> tuple[bytes, str]:
    """Return the file of a table, and the id of its content."""
    file_type = _FILE_TYPES[kind]
    return file_type.encode(table), file_type.content_id(table)


def decode_result(data: bytes, kind: GCResultKind, content_id: str, *, file: str) -> pa.Table:
    """Return the table in a file, proven to be the one with this id.

    Raises:
        DamagedFile: The file does not hold it.
        ForeignFile: It is not such a file, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    return _FILE_TYPES[kind].decode(data, content_id=content_id, file=file)


def encode_state(state: GCState) -> bytes:
    """Return the file of a state."""
    return encode_document(_TYPE, asdict(state))


def decode_state(data: bytes, *, file: str) -> GCState:
    """Return the state in a file.

    Raises:
        DamagedFile: The file is not as it was written.
        ForeignFile: It is not a state, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    return read_record(GCState, decode_document(data, _TYPE, file=file), file=file)
