"""Imports of existing objects."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from lakebed.wire.base import Error, Force, Wire
from lakebed.wire.calls import Resource, call
from lakebed.wire.garbage import GarbageCollectionMark
from lakebed.wire.refs import Commit, CommitCreation


class ImportLocation(Wire):
    type: Literal["common_prefix", "object"]
    path: str
    destination: str
    include: Annotated[
        list[str], Meta(description="patterns of paths below a prefix; all if empty")
    ] = field(default_factory=list)
    exclude: Annotated[list[str], Meta(description="patterns of paths to leave out")] = field(
        default_factory=list
    )


class ImportPaths(Wire):
    paths: list[ImportLocation]


class ImportCreation(ImportPaths):
    commit: CommitCreation
    force: Force = False
    strict: bool = False
    spark: bool = False
    dry_run: Annotated[bool, Meta(description="list the objects, without a commit")] = False


class ImportReport(ImportPaths):
    objects: int = 0
    skipped_objects: int = 0
    skipped: list[str] = field(default_factory=list)
    current_prefix: str = ""
    metarange_id: str = ""
    error: str = ""


class SkippedObjects(Struct, kw_only=True):
    """Files or objects skipped by an import for one reason."""

    kind: str
    count: int
    example: str


def _no_addresses() -> list[str]:
    """Return the default of a list that is sent even if empty (`list` would be omitted)."""
    return []


class ImportStatus(Struct, kw_only=True, omit_defaults=True):
    completed: bool
    update_time: datetime
    ingested_objects: int
    # The server always sends both; lakeFS sends neither.
    skipped_objects: int = field(default_factory=lambda: 0)
    skipped: list[str] = field(default_factory=_no_addresses)
    skipped_kinds: list[SkippedObjects] = field(default_factory=list)
    current_prefix: str | None = None
    metarange_id: str | None = None
    commit: Commit | None = None
    unchanged: bool = False
    error: Error | None = None


class ImportQuery(Wire):
    id: str


class SparkSource(Struct, kw_only=True):
    """A location in canonical form; keys begin with the destination."""

    place: str
    is_prefix: bool
    destination: str


class SparkImport(Struct, kw_only=True):
    """Input of a Spark job that builds the metarange of an import."""

    mark: GarbageCollectionMark
    sources: list[SparkSource]
    mean_rows: int
    max_rows: int
    max_bytes: int


class ImportInfo(Struct, kw_only=True, omit_defaults=True):
    id: str
    spark: SparkImport | None = None


class ImportsAPI(
    Resource, tag="import", path="/repositories/{repository}/branches/{branch}/import"
):
    """Imports."""

    @call("importStart", "POST", "", status=202, statuses=(403,))
    def start(self, repository: str, branch: str, body: ImportCreation) -> ImportInfo: ...

    @call("importReport", "PUT", "", statuses=(409,))
    def report(
        self, repository: str, branch: str, query: ImportQuery, body: ImportReport
    ) -> ImportStatus: ...

    @call("importStatus", "GET", "")
    def status(self, repository: str, branch: str, query: ImportQuery) -> ImportStatus: ...

    @call("importCancel", "DELETE", "", status=204, statuses=(409,))
    def cancel(self, repository: str, branch: str, query: ImportQuery) -> None: ...
