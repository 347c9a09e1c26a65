"""Dumps of refs: all branches, tags and commits of a repository, as files in its namespace.

    _lakebed/refs/<dump id>/branches-00000.parquet      `REF_SCHEMAS[RefKind.BRANCHES]`
    _lakebed/refs/<dump id>/tags-00000.parquet          `REF_SCHEMAS[RefKind.TAGS]`
    _lakebed/refs/<dump id>/commits-00000.parquet       `REF_SCHEMAS[RefKind.COMMITS]`
    _lakebed/refs/<dump id>/commits-00001.parquet       …
    _lakebed/refs/<dump id>/manifest.json               `DumpManifest`

The manifest is written last, names every other file with its rows and the id of its content, and
carries a digest of itself. So a dump that was cut off has no manifest, and whatever is damaged
later is found out, by the file.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NewType

import pyarrow as pa

from lakebed.formats.errors import DamagedFile, ForeignFile, FormatTooNew
from lakebed.formats.parquet import FORMAT_VERSION, FileType

DumpID = NewType("DumpID", str)
"""Names a dump within its storage namespace."""

MANIFEST_NAME: Final = "manifest.json"
_MANIFEST_TYPE: Final = "refs_manifest"


class RefKind(StrEnum):
    """What a file of a dump holds."""

    BRANCHES = "branches"
    TAGS = "tags"
    COMMITS = "commits"


def _required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


_MOMENT: Final = pa.timestamp("us", tz="UTC")
_TEXTS: Final = pa.list_(_required("element", pa.string()))
_TEXT_MAP: Final = pa.map_(pa.string(), _required("value", pa.string()))

REF_SCHEMAS: Final[Mapping[RefKind, pa.Schema]] = MappingProxyType(
    {
        RefKind.BRANCHES: pa.schema(
            [
                _required("name", pa.string()),
                _required("commit_id", pa.string()),
                _required("hidden", pa.bool_()),
                _required("created", _MOMENT),
            ]
        ),
        RefKind.TAGS: pa.schema(
            [
                _required("name", pa.string()),
                _required("commit_id", pa.string()),
                _required("created", _MOMENT),
            ]
        ),
        RefKind.COMMITS: pa.schema(
            [
                _required("id", pa.string()),
                _required("version", pa.int32()),
                _required("committer", pa.string()),
                _required("message", pa.string()),
                _required("metarange_id", pa.string()),
                _required("created", _MOMENT),
                _required("parents", _TEXTS),
                _required("metadata", _TEXT_MAP),
                _required("generation", pa.int64()),
                _required("consumed_tokens", _TEXTS),
                _required("nonce", pa.binary()),
            ]
        ),
    }
)
"""The columns of each kind; those of a commit are all that its id is computed from."""

_FILE_TYPES: Final = {kind: FileType(kind, schema) for kind, schema in REF_SCHEMAS.items()}


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file of a dump as its manifest knows it."""

    name: str
    kind: RefKind
    rows: int
    content_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpManifest:
    """What a dump consists of, and whose it is."""

    dump_id: DumpID
    repository: str
    """The name that the repository had."""
    unique_ids: tuple[str, ...]
    """The unique ids of the repositories whose object paths the commits name; its own first."""
    default_branch: str
    created_us: int
    files: tuple[DumpFile, ...]

    def of_kind(self, kind: RefKind) -> list[DumpFile]:
        """The files of one kind."""
        return [file for file in self.files if file.kind is kind]

    def rows(self, kind: RefKind) -> int:
        """How many branches, tags or commits there are."""
        return sum(file.rows for file in self.of_kind(kind))


def dump_path(dump_id: DumpID, name: str) -> str:
    """Where a file of a dump lies in its storage namespace."""
    return f"_lakebed/refs/{dump_id}/{name}"


def refs_id(kind: RefKind, table: pa.Table) -> str:
    """Return the id of a file with this content."""
    return _FILE_TYPES[kind].content_id(table)


def encode_refs(kind: RefKind, table: pa.Table) -> bytes:
    """Return the file of branches, tags or commits."""
    return _FILE_TYPES[kind].encode(table)


def decode_refs(data: bytes, described: DumpFile, *, file: str) -> pa.Table:
    """Return the content of a file of a dump, proven to be what the manifest describes.

    Raises:
        DamagedFile: The file does not hold it.
        ForeignFile: It is no such file, or (`FormatTooNew`) one of a newer Lakebed.
    """
    table = _FILE_TYPES[described.kind].decode(data, content_id=described.content_id, file=file)
    if table.num_rows != described.rows:
        raise DamagedFile(file, f"it has {table.num_rows} rows instead of {described.rows}")
    return table


def encode_manifest(manifest: DumpManifest) -> bytes:
    """Return the file of a manifest."""
    content = {"type": _MANIFEST_TYPE, "format": FORMAT_VERSION, **asdict(manifest)}
    return json.dumps(content | {"digest": _digest(content)}, indent=1).encode()


def decode_manifest(data: bytes, dump_id: DumpID, *, file: str) -> DumpManifest:
    """Return the manifest in a file, proven to be as it was written, and of the dump named.

    Raises:
        DamagedFile: The file does not hold a whole manifest.
        ForeignFile: It is no manifest or that of another dump, or (`FormatTooNew`) one of a newer
            Lakebed.
    """
    try:
        content: Any = json.loads(data)
    except ValueError as error:
        raise DamagedFile(file, error) from error
    if not isinstance(content, dict) or content.pop("type", None) != _MANIFEST_TYPE:
        raise ForeignFile(file, "is no manifest of a dump of refs")
    version = content.pop("format", None)
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FormatTooNew(
            file,
            f"has format version {version}, and this Lakebed reads up to {FORMAT_VERSION}: use a"
            " newer Lakebed",
        )
    digest = content.pop("digest", None)
    if digest != _digest({"type": _MANIFEST_TYPE, "format": version, **content}):
        raise DamagedFile(file, "its content has another digest than it says")
    if content["dump_id"] != dump_id:
        raise ForeignFile(file, f"is the manifest of the dump {content['dump_id']}")
    files = [
        DumpFile(each["name"], RefKind(each["kind"]), each["rows"], each["content_id"])
        for each in content.pop("files")
    ]
    unique_ids = tuple(content.pop("unique_ids"))
    return DumpManifest(**content, unique_ids=unique_ids, files=tuple(files))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
