"""Imports: objects that exist become objects of a branch, without being copied."""

from typing import Final

from msgspec import Struct

from lakebed.catalog.commits import STRATEGY_KEY
from lakebed.catalog.imports import imports
from lakebed.catalog.imports.imports import ImportID
from lakebed.catalog.imports.outside import JobReport
from lakebed.catalog.imports.sources import ImportSource, in_order
from lakebed.catalog.nouns import BranchID, RepositoryID
from lakebed.server.api.models import (
    ImportCreation,
    ImportReport,
    ImportStatus,
    SkippedObjects,
    Wire,
)
from lakebed.server.api.operations.commits import wire_commit
from lakebed.server.api.operations.gc import GarbageCollectionMark, leave_mark
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Reply, Routes, fs

routes = Routes("import")

_IMPORT: Final = "/repositories/{repository}/branches/{branch}/import"
_BRANCH: Final = "repository/{repository}/branch/{branch}"


class ImportQuery(Wire):
    id: str


class SparkSource(Struct, kw_only=True):
    """A place, in its one spelling; the keys that go there begin with the destination."""

    place: str
    is_prefix: bool
    destination: str


class SparkImport(Struct, kw_only=True):
    """What a job on Spark has to know to make the metarange of an import."""

    mark: GarbageCollectionMark
    sources: list[SparkSource]
    mean_rows: int
    max_rows: int
    max_bytes: int


class ImportInfo(Struct, kw_only=True, omit_defaults=True):
    id: str
    spark: SparkImport | None = None


# Of those who begin an import, and of those who make what it publishes.
_TO_IMPORT: Final = (
    fs("WriteObject", _BRANCH),
    fs("CreateCommit", _BRANCH),
    fs("ImportFromStorage", "namespace/{each}", each="places"),
    fs("WriteObject", "repository/{repository}/object/{each}", each="destinations"),
)


@routes.add("importStart", "POST", _IMPORT, _TO_IMPORT, status=202, statuses=(403,))
def import_start(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, body: ImportCreation
) -> ImportInfo:
    """Begin to import objects into a branch."""
    commit = body.commit
    import_id = request.catalog.imports.start(
        repository,
        branch,
        body.sources,
        committer=request.identity.committer,
        message=commit.message,
        metadata={**commit.metadata, STRATEGY_KEY: "source-wins"},
        strict=body.strict,
        outside=body.spark,
    )
    spark = _for_spark(request, repository, body.sources) if body.spark else None
    return ImportInfo(id=import_id, spark=spark)


def _for_spark(
    request: ApiRequest, repository: RepositoryID, sources: list[ImportSource]
) -> SparkImport:
    breaks = request.catalog.imports.breaks(repository)
    return SparkImport(
        mark=leave_mark(request, repository),
        sources=[
            SparkSource(
                place=str(source.place),
                is_prefix=source.is_prefix,
                destination=source.destination.decode(),
            )
            for source in in_order(sources)
        ],
        mean_rows=breaks.mean_rows,
        max_rows=breaks.max_rows,
        max_bytes=breaks.max_bytes,
    )


@routes.add("importReport", "PUT", _IMPORT, _TO_IMPORT, statuses=(409,))
def import_report(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: ImportQuery,
    body: ImportReport,
) -> ImportStatus:
    """Say how far the Spark job of an import is, or hand in the metarange that it made."""
    report = JobReport(
        objects=body.objects,
        skipped=body.skipped_objects,
        skipped_addresses=body.skipped,
        current=body.current_prefix,
        metarange_id=body.metarange_id,
        error=body.error,
    )
    status = request.catalog.outside_imports.report(
        repository,
        branch,
        ImportID(query.id),
        body.sources,
        report,
        committer=request.identity.committer,
    )
    return _wire_status(status)


@routes.add("importStatus", "GET", _IMPORT, fs("ReadBranch", _BRANCH))
def import_status(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: ImportQuery
) -> ImportStatus:
    """Return how far an import is."""
    return _wire_status(request.catalog.imports.status(repository, branch, ImportID(query.id)))


def _wire_status(status: imports.ImportStatus) -> ImportStatus:
    return ImportStatus(
        completed=status.completed,
        update_time=status.updated,
        ingested_objects=status.objects,
        metarange_id=status.metarange_id,
        commit=None if status.commit is None else wire_commit(status.commit),
        unchanged=status.unchanged,
        error=None if status.error is None else {"message": status.error},
        skipped_objects=status.skipped,
        skipped=list(status.skipped_addresses),
        skipped_kinds=[
            SkippedObjects(kind=each.kind, count=each.count, example=each.example)
            for each in status.skipped_kinds
        ],
        current_prefix=status.current,
    )


@routes.add(
    "importCancel", "DELETE", _IMPORT, fs("ImportCancel", _BRANCH), status=204, statuses=(409,)
)
def import_cancel(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: ImportQuery
) -> Reply:
    """Cancel an import."""
    request.catalog.imports.cancel(repository, branch, ImportID(query.id))
    return Reply()
