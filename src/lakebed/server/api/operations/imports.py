"""Imports: objects that exist become objects of a branch, without being copied."""

from typing import Final

from lakebed.catalog.imports.imports import ImportID
from lakebed.catalog.nouns import BranchID, RepositoryID
from lakebed.server.api.models import ImportCreation, ImportInfo, ImportStatus, Wire
from lakebed.server.api.operations.commits import STRATEGY_KEY, wire_commit
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Reply, Routes, fs

routes = Routes("import")

_IMPORT: Final = "/repositories/{repository}/branches/{branch}/import"
_BRANCH: Final = "repository/{repository}/branch/{branch}"


class ImportQuery(Wire):
    id: str


@routes.add(
    "importStart",
    "POST",
    _IMPORT,
    (
        fs("WriteObject", _BRANCH),
        fs("CreateCommit", _BRANCH),
        fs("ImportFromStorage", "namespace/{each}", each="places"),
        fs("WriteObject", "repository/{repository}/object/{each}", each="destinations"),
    ),
    status=202,
    statuses=(403,),
)
def import_start(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, body: ImportCreation
) -> ImportInfo:
    """Begin to import objects into a branch."""
    commit = body.commit
    import_id = request.catalog.imports.start(
        repository,
        branch,
        [path.source for path in body.paths],
        committer=request.identity.committer,
        message=commit.message,
        metadata={**commit.metadata, STRATEGY_KEY: "source-wins"},
        strict=body.strict,
    )
    return ImportInfo(id=import_id)


@routes.add("importStatus", "GET", _IMPORT, fs("ReadBranch", _BRANCH))
def import_status(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: ImportQuery
) -> ImportStatus:
    """Return how far an import is."""
    status = request.catalog.imports.status(repository, branch, ImportID(query.id))
    return ImportStatus(
        completed=status.completed,
        update_time=status.updated,
        ingested_objects=status.objects,
        metarange_id=status.metarange_id,
        commit=None if status.commit is None else wire_commit(status.commit),
        error=None if status.error is None else {"message": status.error},
        skipped_objects=status.skipped,
        skipped=list(status.skipped_addresses),
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
