"""Files written by a garbage collection run: its state for the next run, and its findings.

    _lakebed/gc/<repository uid>/state.json                            `GCState`
    _lakebed/gc/<repository uid>/runs/<run id>/objects-….parquet       `GC_RESULT_SCHEMAS[OBJECTS]`
    _lakebed/gc/<repository uid>/runs/<run id>/…                       and so on, each kind
    _lakebed/gc/<repository uid>/runs/<run id>/summary.json            the figures
    _lakebed/gc/<repository uid>/runs/<run id>/refused.json            why the run ended early

The state references its run, and the files read by the next run: it is replaced atomically when a
run is complete, so a run that dies has only deleted garbage. It contains its digest, and the
content id of each file.
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

_FILE_TYPES: Final = {
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
    file_type = _FILE_TYPES[kind]
    return file_type.encode(table), file_type.content_id(table)


def decode_result(data: bytes, kind: GCResultKind, content_id: str, *, file: str) -> pa.Table:
    """Return the table in a file after verifying its content id.

    Raises:
        DamagedFile: The content differs.
        ForeignFile: The file has another type, or (`FormatTooNew`) is of a newer Lakebed.
    """
    return _FILE_TYPES[kind].decode(data, content_id=content_id, file=file)


def encode_state(state: GCState) -> bytes:
    """Return the file of a state."""
    return encode_document(_TYPE, asdict(state))


def decode_state(data: bytes, *, file: str) -> GCState:
    """Return the state in a file.

    Raises:
        DamagedFile: The content differs from the content written.
        ForeignFile: The file has another type, or (`FormatTooNew`) is of a newer Lakebed.
    """
    return read_record(GCState, decode_document(data, _TYPE, file=file), file=file)
