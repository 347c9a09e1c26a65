"""Dumps of refs: all branches, tags and commits of a repository, as files in its namespace.

    _lakebed/refs/<dump id>/branches-00000.parquet      `REF_SCHEMAS[RefKind.BRANCHES]`
    _lakebed/refs/<dump id>/tags-00000.parquet          `REF_SCHEMAS[RefKind.TAGS]`
    _lakebed/refs/<dump id>/commits-00000.parquet       `REF_SCHEMAS[RefKind.COMMITS]`
    _lakebed/refs/<dump id>/commits-00001.parquet       …
    _lakebed/refs/<dump id>/manifest.json               `DumpManifest`

The manifest is written last, lists every other file with its rows and its content id, and contains
its own digest. So an interrupted dump has no manifest, and later damage is detected in any file.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NewType

import pyarrow as pa

from lakebed.formats.errors import DamagedFile, ForeignFile
from lakebed.formats.files import FileType, decode_document, encode_document, read_record, required

DumpID = NewType("DumpID", str)
"""Id of a dump within its storage namespace."""

MANIFEST_NAME: Final = "manifest.json"
_MANIFEST_TYPE: Final = "refs_manifest"


class RefKind(StrEnum):
    """Content of a file of a dump."""

    BRANCHES = "branches"
    TAGS = "tags"
    COMMITS = "commits"


_MOMENT: Final = pa.timestamp("us", tz="UTC")
_TEXTS: Final = pa.list_(required("element", pa.string()))
_TEXT_MAP: Final = pa.map_(pa.string(), required("value", pa.string()))

REF_SCHEMAS: Final[Mapping[RefKind, pa.Schema]] = MappingProxyType(
    {
        RefKind.BRANCHES: pa.schema(
            [
                required("name", pa.string()),
                required("commit_id", pa.string()),
                required("hidden", pa.bool_()),
                required("created", _MOMENT),
            ]
        ),
        RefKind.TAGS: pa.schema(
            [
                required("name", pa.string()),
                required("commit_id", pa.string()),
                required("created", _MOMENT),
            ]
        ),
        RefKind.COMMITS: pa.schema(
            [
                required("id", pa.string()),
                required("version", pa.int32()),
                required("committer", pa.string()),
                required("message", pa.string()),
                required("metarange_id", pa.string()),
                required("created", _MOMENT),
                required("parents", _TEXTS),
                required("metadata", _TEXT_MAP),
                required("generation", pa.int64()),
                required("consumed_tokens", _TEXTS),
                required("nonce", pa.binary()),
            ]
        ),
    }
)
"""Columns of each kind; a commit's columns are the complete input of its id."""

_FILE_TYPES: Final = {kind: FileType(kind, schema) for kind, schema in REF_SCHEMAS.items()}


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file of a dump, as listed in its manifest."""

    name: str
    kind: RefKind
    rows: int
    content_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpManifest:
    """Content and owner of a dump."""

    dump_id: DumpID
    repository: str
    """Name of the repository at the time of the dump."""
    unique_ids: tuple[str, ...]
    """Unique ids of the repositories whose object paths occur in the commits; its own first."""
    default_branch: str
    created_us: int
    files: tuple[DumpFile, ...]

    def of_kind(self, kind: RefKind) -> list[DumpFile]:
        return [file for file in self.files if file.kind is kind]

    def rows(self, kind: RefKind) -> int:
        """Return the number of branches, tags or commits."""
        return sum(file.rows for file in self.of_kind(kind))


def refs_id(kind: RefKind, table: pa.Table) -> str:
    """Return the content id of a table."""
    return _FILE_TYPES[kind].content_id(table)


def encode_refs(kind: RefKind, table: pa.Table) -> bytes:
    """Return the file of branches, tags or commits."""
    return _FILE_TYPES[kind].encode(table)


def decode_refs(data: bytes, described: DumpFile, *, file: str) -> pa.Table:
    """Return the table in a file of a dump after verifying its description."""
    table = _FILE_TYPES[described.kind].decode(data, content_id=described.content_id, file=file)
    if table.num_rows != described.rows:
        raise DamagedFile(file, f"{table.num_rows} rows instead of {described.rows}")
    return table


def encode_manifest(manifest: DumpManifest) -> bytes:
    """Return the file of a manifest."""
    return encode_document(_MANIFEST_TYPE, asdict(manifest))


def decode_manifest(data: bytes, dump_id: DumpID, *, file: str) -> DumpManifest:
    """Return the manifest in a file after verifying its digest and dump id."""
    content = decode_document(data, _MANIFEST_TYPE, file=file)
    manifest = read_record(DumpManifest, content, file=file)
    if manifest.dump_id != dump_id:
        raise ForeignFile(file, f"is the manifest of dump {manifest.dump_id}")
    return manifest
