"""Conversions from the catalog's values to those of the library."""

from collections.abc import Mapping
from typing import Final

from lakebed.base.runtime import to_datetime
from lakebed.clients.library.values import (
    Change,
    ChangeKind,
    Commit,
    CommonPrefix,
    ObjectInfo,
    RepositoryInfo,
)
from lakebed.engine.committed import CommonPrefix as Folded
from lakebed.engine.model import Commit as EngineCommit
from lakebed.engine.model import Repository
from lakebed.lake import model
from lakebed.lake.diff import Difference
from lakebed.lake.imports.sources import ImportSource
from lakebed.lake.places import parse_address, parse_namespace

_CHANGES: Final[Mapping[int, ChangeKind]] = {1: "added", 2: "changed", 3: "removed"}


def import_sources(prefixes: Mapping[str, str], objects: Mapping[str, str]) -> list[ImportSource]:
    """Return the sources of an import."""
    return [
        *(
            ImportSource.of_prefix(parse_namespace(place), destination.encode())
            for place, destination in prefixes.items()
        ),
        *(
            ImportSource(parse_address(place), destination.encode())
            for place, destination in objects.items()
        ),
    ]


def repository_info(found: Repository) -> RepositoryInfo:
    """Convert a repository."""
    return RepositoryInfo(
        id=found.id,
        storage_namespace=str(found.namespace).removesuffix("/"),
        default_branch=found.default_branch,
        creation_date=to_datetime(found.created_us),
        read_only=found.read_only,
    )


def commit_value(found: EngineCommit, refused_by: str | None = None) -> Commit:
    """Convert a commit."""
    return Commit(
        id=found.id,
        message=found.message,
        committer=found.committer,
        creation_date=to_datetime(found.created_us),
        parents=tuple(found.parents),
        metadata=dict(found.metadata),
        refused_by=refused_by,
    )


def object_info(found: model.ObjectStats) -> ObjectInfo:
    """Convert an object."""
    return ObjectInfo(
        path=text_of(found.path),
        size_bytes=found.size,
        checksum=found.checksum,
        mtime=found.mtime,
        content_type=found.content_type,
        physical_address=str(found.location),
        metadata=dict(found.metadata),
    )


def listed_item(found: model.ObjectStats | Folded) -> ObjectInfo | CommonPrefix:
    """Convert an item of a listing."""
    return CommonPrefix(text_of(found.key)) if isinstance(found, Folded) else object_info(found)


def change_value(found: Difference, *, uncommitted: bool = False) -> Change:
    """Convert a difference."""
    kind = _CHANGES[found.change]
    return Change(
        type="conflict" if found.conflict else kind,
        path=text_of(found.path),
        size_bytes=0 if uncommitted and kind == "removed" else found.size,
    )


def text_of(key: bytes) -> str:
    """Decode a key to the path in results."""
    return key.decode(errors="replace")
