"""Purging objects from all history (a task), and what deleted repositories have left."""

import json
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from lakebed.catalog.nouns import PurgeQuery, RepositoryID
from lakebed.catalog.purge.repositories import LeftNamespace
from lakebed.catalog.tasks import TaskID, Tell
from lakebed.server.api.models import Error, TaskInfo, Wire
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Need, Routes
from lakebed.server.http.errors import BadRequest

routes = Routes("purges")

_PURGES: Final = "/repositories/{repository}/purges"
_PURGE: Final = Need("retention:PurgeObjects", "arn:lakefs:fs:::repository/{repository}")
_TASK: Final = "purge"


class PurgeRequest(Wire):
    path: str = ""
    prefix: str = ""
    checksum: str = ""
    reason: str = ""
    confirm: bool = False


class PurgeTaskStatus(Wire):
    id: str
    completed: bool
    update_time: datetime
    progress: Annotated[
        dict[str, Any] | None,
        Meta(
            description="of a purge that goes on: its step, the report of the first pass, and when"
            " it searches again"
        ),
    ] = None
    result: dict[str, Any] | None = None
    error: Error | None = None


@routes.add("purgeObjects", "POST", _PURGES, _PURGE, status=202)
def purge_objects(request: ApiRequest, repository: RepositoryID, body: PurgeRequest) -> TaskInfo:
    """Begin to delete objects from all history; without `confirm`, to find what would be deleted.

    They are named by a path, by what their paths begin with, or by a checksum. A first pass deletes
    the bytes; a second one follows when no commit is under way any more. `getPurgeStatus` shows
    the progress.
    """
    found = request.catalog.repositories.get(repository)
    query = _query(body)
    if body.confirm and not body.reason:
        raise BadRequest("a purge needs a reason: whoever reads the object later is told")
    purges, username = request.catalog.purges, request.identity.user_id

    def work(tell: Tell) -> str:
        if not body.confirm:
            return json.dumps(purges.plan(repository, query).as_dict())
        done = purges.purge(
            repository,
            query,
            reason=body.reason,
            username=username,
            tell=lambda progress: tell(json.dumps(progress.as_dict())),
        )
        return json.dumps(done.as_dict())

    return TaskInfo(id=request.catalog.tasks.start_telling(found, _TASK, work))


@routes.add("getPurgeStatus", "GET", f"{_PURGES}/{{purge}}", _PURGE)
def get_purge_status(request: ApiRequest, repository: RepositoryID, purge: str) -> PurgeTaskStatus:
    """Return the state of a purge, and what it found and did."""
    task = request.catalog.tasks.status(repository, TaskID(purge), _TASK)
    error = None
    if task.error is not None:
        error = Error(message=task.error, kind=task.error_kind or "")
    return PurgeTaskStatus(
        id=task.id,
        completed=task.done,
        update_time=task.updated,
        progress=None if task.progress is None else json.loads(task.progress),
        result=None if task.result is None else json.loads(task.result),
        error=error,
    )


def _query(body: PurgeRequest) -> PurgeQuery:
    kinds: tuple[Literal["path", "prefix", "checksum"], ...] = ("path", "prefix", "checksum")
    given = [kind for kind in kinds if getattr(body, kind)]
    if len(given) != 1:
        raise BadRequest("name the objects by one of path, prefix and checksum")
    return PurgeQuery(given[0], getattr(body, given[0]).encode())


# What deleted repositories have left

_REPOSITORY: Final = "/deleted-repositories/{repository}"
_PURGE_REPOSITORY: Final = Need(
    "retention:PurgeRepository", "arn:lakefs:fs:::repository/{repository}"
)


class LeftByRepository(Wire):
    repository: str
    unique_id: str
    storage_namespace: str
    due: datetime
    requested: datetime | None = None


class LeftByRepositories(Wire):
    results: list[LeftByRepository]


@routes.add("getDeletedRepository", "GET", _REPOSITORY, _PURGE_REPOSITORY)
def get_deleted(request: ApiRequest, repository: RepositoryID) -> LeftByRepositories:
    """List what deleted repositories of a name have left in the storage."""
    return _left(request.catalog.repository_purges.left_by(repository))


@routes.add("purgeDeletedRepository", "DELETE", _REPOSITORY, _PURGE_REPOSITORY, status=202)
def purge_deleted(request: ApiRequest, repository: RepositoryID) -> LeftByRepositories:
    """Ask that what deleted repositories of a name have left is deleted, when its time comes."""
    return _left(request.catalog.repository_purges.request(repository))


def _left(found: list[LeftNamespace]) -> LeftByRepositories:
    return LeftByRepositories(
        results=[
            LeftByRepository(
                repository=each.repository,
                unique_id=each.unique_id,
                storage_namespace=each.storage_namespace,
                due=each.due,
                requested=each.requested,
            )
            for each in found
        ]
    )
