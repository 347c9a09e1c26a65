"""What a run of garbage collection leaves behind: its state, for the next run, and its findings.

    _lakebed/gc/<repository uid>/state.json                            `GCState`
    _lakebed/gc/<repository uid>/runs/<run id>/objects-….parquet       `GC_RESULT_SCHEMAS[OBJECTS]`
    _lakebed/gc/<repository uid>/runs/<run id>/…                       and so on, each kind
    _lakebed/gc/<repository uid>/runs/<run id>/summary.json            the figures, for people

The state names the run that left it, and the files that the next run goes by: it is replaced in one
step when a run is complete, so that a run which dies has done nothing but delete garbage. It
carries a digest of itself, and names each file together with the id of its content.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from lakebed.formats.errors import DamagedFile, ForeignFile, FormatTooNew
from lakebed.formats.gc_files import GCFile, GCFileKind, GCRunID
from lakebed.formats.parquet import FORMAT_VERSION, FileType

SUMMARY_NAME: Final = "summary.json"
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
    COUNTS = "counts"
    """How many objects of which branch were found to be what."""


def _required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


_OBJECT_FIELDS: Final = (
    _required("path", pa.string()),
    _required("size", pa.int64()),
    _required("born_us", pa.int64()),
    _required("made_us", pa.int64()),
    _required("verdict", pa.string()),
    _required("found_us", pa.int64()),  # of candidates; 0 for others
)

GC_RESULT_SCHEMAS: Final[Mapping[GCResultKind, pa.Schema]] = MappingProxyType(
    {
        GCResultKind.OBJECTS: pa.schema(_OBJECT_FIELDS),
        GCResultKind.RANGES: pa.schema([_required("range_id", pa.string())]),
        GCResultKind.DUE: pa.schema(_OBJECT_FIELDS),
        GCResultKind.SWEPT: pa.schema(
            [*_OBJECT_FIELDS, _required("error", pa.string())]  # empty: it is deleted
        ),
        GCResultKind.COUNTS: pa.schema(
            [
                _required("branch", pa.string()),
                _required("verdict", pa.string()),
                _required("stage", pa.string()),
                _required("objects", pa.int64()),
                _required("bytes", pa.int64()),
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

    @property
    def objects(self) -> int:
        """How many objects there were."""
        return self.objects_closed + self.objects_open


def state_path(unique_id: str) -> str:
    """Where the state of a repository lies in its storage namespace."""
    return f"_lakebed/gc/{unique_id}/state.json"


def encode_result(kind: GCResultKind, table: pa.Table) -> tuple[bytes, str]:
    """Return the file of a table, and the id of its content."""
    file_type = _FILE_TYPES[kind]
    return file_type.encode(table), file_type.content_id(table)


def decode_result(data: bytes, kind: GCResultKind, content_id: str, *, file: str) -> pa.Table:
    """Return the table in a file, proven to be the one with this id.

    Raises:
        DamagedFile: The file does not hold it.
        ForeignFile: It is no such file, or (`FormatTooNew`) one of a newer Lakebed.
    """
    return _FILE_TYPES[kind].decode(data, content_id=content_id, file=file)


def encode_state(state: GCState) -> bytes:
    """Return the file of a state."""
    content = {"type": _TYPE, "format": FORMAT_VERSION, **asdict(state)}
    return json.dumps(content | {"digest": _digest(content)}, indent=1).encode()


def decode_state(data: bytes, *, file: str) -> GCState:
    """Return the state in a file.

    Raises:
        DamagedFile: The file is not as it was written.
        ForeignFile: It is no state, or (`FormatTooNew`) one of a newer Lakebed.
    """
    try:
        content: Any = json.loads(data)
    except ValueError as error:
        raise DamagedFile(file, error) from error
    if not isinstance(content, dict) or content.get("type") != _TYPE:
        raise ForeignFile(file, "is no state of garbage collection")
    version = content.get("format")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FormatTooNew(
            file,
            f"has format version {version}, and this Lakebed reads up to {FORMAT_VERSION}: use a"
            " newer Lakebed",
        )
    digest = content.pop("digest", None)
    if digest != _digest(content):
        raise DamagedFile(file, "its content has another digest than it says")
    fields = {name: content[name] for name in content if name not in {"type", "format"}}
    return GCState(
        **fields
        | {
            "repository_uids": tuple(fields["repository_uids"]),
            "commits": tuple(
                GCFile(**each | {"kind": GCFileKind(each["kind"])}) for each in fields["commits"]
            ),
            "files": tuple(
                GCResultFile(**each | {"kind": GCResultKind(each["kind"])})
                for each in fields["files"]
            ),
        }
    )


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
