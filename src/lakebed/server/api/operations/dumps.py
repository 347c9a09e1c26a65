"""Dump and restore of a repository's refs: synchronously, or as a task."""

from typing import Final

from lakebed.engine.model import RepositoryID
from lakebed.formats import DumpID
from lakebed.lake.tasks import DUMP_REFS, RESTORE_REFS, TaskID, TaskStatus
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Routes, fs
from lakebed.server.http.errors import BadRequest
from lakebed.wire.base import TaskInfo
from lakebed.wire.repositories import (
    RefsDump,
    RepositoriesAPI,
    RepositoryDumpStatus,
    RepositoryRestoreStatus,
    TaskQuery,
)

routes = Routes()

# A dump reads all of the history, and a restore writes it.
_DUMP: Final = (
    fs("ListTags", "repository/{repository}"),
    fs("ListBranches", "repository/{repository}"),
    fs("ListCommits", "repository/{repository}"),
)
_RESTORE: Final = (
    fs("CreateTag", "repository/{repository}"),
    fs("CreateBranch", "repository/{repository}"),
    fs("CreateCommit", "repository/{repository}"),
)


def _refs(dump_id: str) -> RefsDump:
    return RefsDump(
        commits_meta_range_id=dump_id, tags_meta_range_id=dump_id, branches_meta_range_id=dump_id
    )


def _dump_id(body: RefsDump) -> DumpID:
    ids = {
        body.commits_meta_range_id,
        body.tags_meta_range_id,
        body.branches_meta_range_id,
    }
    if len(ids) > 1:
        raise BadRequest(
            "the three ids are of different dumps: send the answer to one dump unchanged"
        )
    return DumpID(ids.pop())


@routes.add(RepositoriesAPI.dump, _DUMP)
def dump_refs(request: ApiRequest, repository: RepositoryID) -> RefsDump:
    """Write all branches, tags and commits into the repository's storage namespace."""
    return _refs(request.services.catalog.refs.dump(repository))


@routes.add(RepositoriesAPI.restore, _RESTORE)
def restore_refs(request: ApiRequest, repository: RepositoryID, body: RefsDump) -> None:
    """Restore a dump into a bare repository."""
    request.services.catalog.refs.restore(repository, _dump_id(body))


def _task(request: ApiRequest, repository: RepositoryID, query: TaskQuery, kind: str) -> TaskStatus:
    tasks = request.services.catalog.tasks
    return tasks.status(repository, TaskID(query.task_id), kind)


@routes.add(RepositoriesAPI.start_dump, _DUMP)
def dump_submit(request: ApiRequest, repository: RepositoryID) -> TaskInfo:
    """Start a dump of a repository's refs."""
    return TaskInfo(id=request.services.catalog.tasks.start_dump(repository))


@routes.add(RepositoriesAPI.dump_status, _DUMP)
def dump_status(
    request: ApiRequest, repository: RepositoryID, query: TaskQuery
) -> RepositoryDumpStatus:
    """Return the state of a dump."""
    task = _task(request, repository, query, DUMP_REFS)
    return RepositoryDumpStatus(
        id=task.id,
        done=task.done,
        update_time=task.updated,
        error=task.error,
        refs=_refs(task.result) if task.result else None,
    )


@routes.add(RepositoriesAPI.start_restore, _RESTORE)
def restore_submit(request: ApiRequest, repository: RepositoryID, body: RefsDump) -> TaskInfo:
    """Start restoring a dump into a bare repository."""
    tasks = request.services.catalog.tasks
    return TaskInfo(id=tasks.start_restore(repository, _dump_id(body)))


@routes.add(RepositoriesAPI.restore_status, _RESTORE)
def restore_status(
    request: ApiRequest, repository: RepositoryID, query: TaskQuery
) -> RepositoryRestoreStatus:
    """Return the state of a restore."""
    task = _task(request, repository, query, RESTORE_REFS)
    return RepositoryRestoreStatus(
        id=task.id, done=task.done, update_time=task.updated, error=task.error
    )
