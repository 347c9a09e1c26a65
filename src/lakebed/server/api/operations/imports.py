"""Imports: register existing objects on a branch without copying them."""

from typing import Final

from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.commits import STRATEGY_KEY
from lakebed.lake.imports import imports
from lakebed.lake.imports.imports import ImportID, JobReport
from lakebed.lake.imports.sources import ImportSource, in_order
from lakebed.lake.places import parse_address, parse_namespace
from lakebed.server.api.operations.commits import wire_commit
from lakebed.server.api.operations.gc import leave_marker
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Reply, Routes, fs
from lakebed.wire import imports as wire
from lakebed.wire.base import Error

routes = Routes()

_BRANCH: Final = "repository/{repository}/branch/{branch}"


def _source(location: wire.ImportLocation) -> ImportSource:
    destination = location.destination.encode()
    patterns = tuple(location.include), tuple(location.exclude)
    if location.type == "object":
        return ImportSource(parse_address(location.path), destination, *patterns)
    return ImportSource.of_prefix(parse_namespace(location.path), destination, *patterns)


def _sources(body: wire.ImportPaths) -> list[ImportSource]:
    return [_source(path) for path in body.paths]


def _places(body: wire.ImportPaths) -> list[str]:
    """Return the canonical spelling of each source, for permission checks."""
    return [str(source.place) for source in _sources(body)]


def _destinations(body: wire.ImportPaths) -> list[str]:
    """Return the destination paths, or their prefixes."""
    return [source.destination.decode() for source in _sources(body)]


# For starting an import, and for a Spark job that builds its metarange.
_TO_IMPORT: Final = (
    fs("WriteObject", _BRANCH),
    fs("CreateCommit", _BRANCH),
    fs("ImportFromStorage", "namespace/{each}", each=_places),
    fs("WriteObject", "repository/{repository}/object/{each}", each=_destinations),
)


@routes.add(wire.ImportsAPI.start, _TO_IMPORT)
def import_start(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, body: wire.ImportCreation
) -> wire.ImportInfo:
    """Start an import of objects into a branch."""
    commit = body.commit
    import_id = request.services.catalog.imports.start(
        repository,
        branch,
        _sources(body),
        committer=request.identity.committer,
        message=commit.message,
        metadata={**commit.metadata, STRATEGY_KEY: "source-wins"},
        strict=body.strict,
        outside=body.spark,
        dry_run=body.dry_run,
    )
    spark = _for_spark(request, repository, _sources(body)) if body.spark else None
    return wire.ImportInfo(id=import_id, spark=spark)


def _for_spark(
    request: ApiRequest, repository: RepositoryID, sources: list[ImportSource]
) -> wire.SparkImport:
    breaks = request.services.catalog.imports.breaks(repository)
    return wire.SparkImport(
        mark=leave_marker(request, repository),
        sources=[
            wire.SparkSource(
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


@routes.add(wire.ImportsAPI.report, _TO_IMPORT)
def import_report(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: wire.ImportQuery,
    body: wire.ImportReport,
) -> wire.ImportStatus:
    """Report the progress of an import's Spark job, or submit the resulting metarange."""
    report = JobReport(
        objects=body.objects,
        skipped=body.skipped_objects,
        skipped_addresses=body.skipped,
        current=body.current_prefix,
        metarange_id=body.metarange_id,
        error=body.error,
    )
    status = request.services.catalog.outside_imports.report(
        repository,
        branch,
        ImportID(query.id),
        _sources(body),
        report,
        committer=request.identity.committer,
    )
    return _wire_status(status)


@routes.add(wire.ImportsAPI.status, fs("ReadBranch", _BRANCH))
def import_status(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: wire.ImportQuery
) -> wire.ImportStatus:
    """Return the progress of an import."""
    return _wire_status(
        request.services.catalog.imports.status(repository, branch, ImportID(query.id))
    )


def _wire_status(status: imports.ImportProgress) -> wire.ImportStatus:
    return wire.ImportStatus(
        completed=status.completed,
        update_time=status.updated,
        ingested_objects=status.objects,
        metarange_id=status.metarange_id,
        commit=None if status.commit is None else wire_commit(status.commit),
        unchanged=status.unchanged,
        error=None if status.error is None else Error(message=status.error),
        skipped_objects=status.skipped,
        skipped=list(status.skipped_addresses),
        skipped_kinds=[
            wire.SkippedObjects(kind=each.kind, count=each.count, example=each.example)
            for each in status.skipped_kinds
        ],
        current_prefix=status.current,
    )


@routes.add(wire.ImportsAPI.cancel, fs("ImportCancel", _BRANCH))
def import_cancel(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: wire.ImportQuery
) -> Reply:
    """Cancel an import."""
    request.services.catalog.imports.cancel(repository, branch, ImportID(query.id))
    return Reply()
