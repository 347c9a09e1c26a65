"""Dumping and restoring the refs of a repository: at once, or as a task."""

from typing import Final

from lakebed.catalog.tasks import DUMP_REFS, RESTORE_REFS, TaskID, TaskStatus
from lakebed.engine.model import RepositoryID
from lakebed.formats import DumpID
from lakebed.server.api.call import Call
from lakebed.server.api.models import (
    RefsDump,
    RepositoryDumpStatus,
    RepositoryRestoreStatus,
    TaskInfo,
    Wire,
)
from lakebed.server.api.routes import Routes, fs
from lakebed.server.http.errors import BadRequest

routes = Routes("repositories")

_ONE: Final = "/repositories/{repository}"
# Whoever can dump can read all of history; whoever can restore can write it.
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


class TaskQuery(Wire):
    task_id: str


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
            "the three ids name different dumps: send back the answer to one dump as it came"
        )
    return DumpID(ids.pop())


@routes.add("dumpRefs", "PUT", f"{_ONE}/refs/dump", _DUMP, status=201)
def dump_refs(call: Call, repository: str) -> RefsDump:
    """Write all branches, tags and commits into the repository's storage namespace."""
    return _refs(call.services.engine.dump_refs(RepositoryID(repository)).dump_id)


@routes.add("restoreRefs", "PUT", f"{_ONE}/refs/restore", _RESTORE, statuses=(403,))
def restore_refs(call: Call, repository: str, body: RefsDump) -> None:
    """Bring a dump back into a bare repository."""
    call.services.engine.restore_refs(RepositoryID(repository), _dump_id(body))


def _task(call: Call, repository: str, query: TaskQuery, kind: str) -> TaskStatus:
    tasks = call.services.catalog.tasks
    return tasks.status(RepositoryID(repository), TaskID(query.task_id), kind)


@routes.add("dumpSubmit", "POST", f"{_ONE}/dump", _DUMP, status=202)
def dump_submit(call: Call, repository: str) -> TaskInfo:
    """Begin to dump the refs of a repository."""
    return TaskInfo(id=call.services.catalog.tasks.start_dump(RepositoryID(repository)))


@routes.add("dumpStatus", "GET", f"{_ONE}/dump", _DUMP)
def dump_status(call: Call, repository: str, query: TaskQuery) -> RepositoryDumpStatus:
    """Say what became of a dump."""
    task = _task(call, repository, query, DUMP_REFS)
    return RepositoryDumpStatus(
        id=task.id,
        done=task.done,
        update_time=task.updated,
        error=task.error,
        refs=_refs(task.result) if task.result else None,
    )


@routes.add("restoreSubmit", "POST", f"{_ONE}/restore", _RESTORE, status=202, statuses=(403,))
def restore_submit(call: Call, repository: str, body: RefsDump) -> TaskInfo:
    """Begin to bring a dump back into a bare repository."""
    tasks = call.services.catalog.tasks
    return TaskInfo(id=tasks.start_restore(RepositoryID(repository), _dump_id(body)))


@routes.add("restoreStatus", "GET", f"{_ONE}/restore", _RESTORE)
def restore_status(call: Call, repository: str, query: TaskQuery) -> RepositoryRestoreStatus:
    """Say what became of a restore."""
    task = _task(call, repository, query, RESTORE_REFS)
    return RepositoryRestoreStatus(
        id=task.id, done=task.done, update_time=task.updated, error=task.error
    )
