"""Purges: deletion of objects from all history (a task), and of data of deleted repositories."""

import json
from dataclasses import asdict
from typing import Final, Literal, TypeVar

import msgspec

from lakebed.engine.model import RepositoryID
from lakebed.lake.tasks import ReportProgress, TaskID
from lakebed.reclaim.references import PurgeQuery
from lakebed.reclaim.repository_purges import LeftNamespace
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Need, Routes
from lakebed.server.http.errors import BadRequest
from lakebed.wire import purges as wire
from lakebed.wire.base import Error, TaskInfo

KindT = TypeVar("KindT")

routes = Routes()

_PURGE: Final = Need("retention:PurgeObjects", "arn:lakefs:fs:::repository/{repository}")
_TASK: Final = "purge"


@routes.add(wire.PurgesAPI.start, _PURGE)
def purge_objects(
    request: ApiRequest, repository: RepositoryID, body: wire.PurgeRequest
) -> TaskInfo:
    """Start to delete objects from all history; without `confirm`, only find them.

    Objects are selected by path, path prefix, or checksum. A first pass deletes the bytes; a second
    one follows when no commit is in progress any more. `getPurgeStatus` returns the progress.
    """
    found = request.services.catalog.repositories.get(repository)
    query = _query(body)
    if body.confirm and not body.reason:
        raise BadRequest("a purge needs a reason, which is shown to later readers of the object")
    purges, username = request.services.reclaim.purges, request.identity.user_id

    def work(report_progress: ReportProgress) -> str:
        if not body.confirm:
            return json.dumps(asdict(purges.plan(repository, query)))
        done = purges.purge(
            repository,
            query,
            reason=body.reason,
            username=username,
            report_progress=lambda progress: report_progress(json.dumps(asdict(progress))),
        )
        return json.dumps(asdict(done))

    return TaskInfo(id=request.services.catalog.tasks.start_with_progress(found, _TASK, work))


@routes.add(wire.PurgesAPI.status, _PURGE)
def get_purge_status(
    request: ApiRequest, repository: RepositoryID, purge: str
) -> wire.PurgeTaskStatus:
    """Return the state and result of a purge."""
    task = request.services.catalog.tasks.status(repository, TaskID(purge), _TASK)
    error = None
    if task.error is not None:
        error = Error(message=task.error, kind=task.error_kind or "")
    return wire.PurgeTaskStatus(
        id=task.id,
        completed=task.done,
        update_time=task.updated,
        progress=_decoded(task.progress, wire.PurgeStep),
        result=_decoded(task.result, wire.PurgeOutcome),
        error=error,
    )


def _decoded(text: str | None, kind: type[KindT]) -> KindT | None:
    return None if text is None else msgspec.json.decode(text, type=kind)


def _query(body: wire.PurgeRequest) -> PurgeQuery:
    kinds: tuple[Literal["path", "prefix", "checksum"], ...] = ("path", "prefix", "checksum")
    given = [kind for kind in kinds if getattr(body, kind)]
    if len(given) != 1:
        raise BadRequest("select the objects by one of path, prefix and checksum")
    return PurgeQuery(given[0], getattr(body, given[0]).encode())


# Data of deleted repositories

_PURGE_REPOSITORY: Final = Need(
    "retention:PurgeRepository", "arn:lakefs:fs:::repository/{repository}"
)


@routes.add(wire.PurgesAPI.left_by_repository, _PURGE_REPOSITORY)
def get_deleted(request: ApiRequest, repository: RepositoryID) -> wire.LeftByRepositories:
    """List the remaining data of deleted repositories of a name."""
    return _left(request.services.reclaim.repository_purges.left_by(repository))


@routes.add(wire.PurgesAPI.purge_repository, _PURGE_REPOSITORY)
def purge_deleted(request: ApiRequest, repository: RepositoryID) -> wire.LeftByRepositories:
    """Request deletion of the remaining data of deleted repositories of a name, when due."""
    return _left(request.services.reclaim.repository_purges.request(repository))


def _left(found: list[LeftNamespace]) -> wire.LeftByRepositories:
    return wire.LeftByRepositories(
        results=[
            wire.LeftByRepository(
                repository=each.repository,
                unique_id=each.unique_id,
                storage_namespace=each.storage_namespace,
                due=each.due,
                requested=each.requested,
            )
            for each in found
        ]
    )
