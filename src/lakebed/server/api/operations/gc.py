"""Server side of garbage collection: preparation of runs, leases, unfinished uploads, rules.

A run requests uncommitted data page by page, then, with the id of that run, the commits. A request
may give the `unique_id` of its repository, so that a new repository of the same name is not
touched.
"""

import json
from typing import Final

from lakebed.base.runtime import UniqueID
from lakebed.block.address import Address
from lakebed.engine.model import RepositoryID
from lakebed.formats.gc_files import GCRunID
from lakebed.lake.tasks import TaskID
from lakebed.reclaim.expired_records import IncompleteUpload as Unfinished
from lakebed.reclaim.prepare import PreparedRun
from lakebed.reclaim.retention import BranchRule, RetentionRules
from lakebed.reclaim.runs import GarbageRun
from lakebed.server.api.pages import first_page
from lakebed.server.api.request import ApiRequest, as_key, as_text
from lakebed.server.api.routes import Need, Routes, fs
from lakebed.server.http.errors import BadRequest, NoRules
from lakebed.wire import garbage as wire
from lakebed.wire.base import Error, Page, PageQuery, TaskInfo

routes = Routes()

_ARN: Final = "arn:lakefs:fs:::repository/{repository}"
_COMMITS: Final = Need("retention:PrepareGarbageCollectionCommits", _ARN)
_UNCOMMITTED: Final = Need("retention:PrepareGarbageCollectionUncommitted", _ARN)
_DELETE: Final = fs("DeleteObject", "repository/{repository}/object/*")
_READ: Final = fs("ReadRepository", "repository/{repository}")
_READ_ALL: Final = fs("ReadObject", "repository/{repository}/object/*")
_GET_RULES: Final = Need("retention:GetGarbageCollectionRules", _ARN)
_SET_RULES: Final = Need("retention:SetGarbageCollectionRules", _ARN)
_TASK: Final = "prepare_gc_commits"


_FIRST_PAGE: Final = wire.PrepareGCUncommittedRequest()


def _unique_id(query: wire.UniqueQuery) -> UniqueID | None:
    return UniqueID(query.unique_id) if query.unique_id else None


@routes.add(wire.GarbageAPI.write_marker, _UNCOMMITTED)
def write_marker(request: ApiRequest, repository: RepositoryID) -> wire.GarbageCollectionMark:
    """Write a marker object, so that the caller can verify that it opened the same storage.

    For a local storage, the answer contains its folder on the server's machine.
    """
    return leave_marker(request, repository)


def leave_marker(request: ApiRequest, repository: RepositoryID) -> wire.GarbageCollectionMark:
    """Write a marker object into the storage of a repository; see `GCMarkers`."""
    marker = request.services.reclaim.storage_markers.leave(repository)
    storage = request.services.settings.blockstore
    local = storage.local if storage.type == "local" else None
    return wire.GarbageCollectionMark(
        storage_namespace=marker.storage_namespace,
        unique_id=marker.unique_id,
        nonce=marker.nonce,
        local_root=None if local is None else str(local.root.resolve()),
        versions=marker.versions,
    )


@routes.add(wire.GarbageAPI.take_lease, _UNCOMMITTED)
def take_lease(
    request: ApiRequest, repository: RepositoryID, body: wire.GarbageCollectionLeaseRequest
) -> wire.GarbageCollectionLease:
    """Acquire or renew the lease of runs, unless another holder has it; return the current lease.

    A lease whose mark has not changed for the lease time can be taken over, by that mark.
    """
    leases = request.services.reclaim.leases
    if body.renew:
        found = leases.renew(repository, body.holder)
    else:
        found = leases.take(repository, body.holder, over=body.over)
    return wire.GarbageCollectionLease(
        holder=found.holder, mark=found.version, seconds=found.seconds
    )


@routes.add(wire.GarbageAPI.give_lease_back, _UNCOMMITTED)
def give_lease_back(request: ApiRequest, repository: RepositoryID, query: wire.LeaseQuery) -> None:
    """Release the lease of runs, and report whether the run succeeded."""
    request.services.reclaim.leases.end_run(
        repository, query.holder, is_good=query.good, next_us=query.next_us
    )


@routes.add(wire.GarbageAPI.prepare_uncommitted, _UNCOMMITTED)
def prepare_uncommitted(
    request: ApiRequest,
    repository: RepositoryID,
    query: wire.UniqueQuery,
    body: wire.PrepareGCUncommittedRequest = _FIRST_PAGE,
) -> wire.PrepareGCUncommittedResponse:
    """Write a page of the addresses referenced by open uploads and staged entries."""
    prepared = request.services.reclaim.preparation.prepare_uncommitted(
        repository,
        unique_id=_unique_id(query),
        token=body.continuation_token or None,
    )
    return wire.PrepareGCUncommittedResponse(
        run_id=prepared.run_id,
        gc_uncommitted_location=prepared.location,
        continuation_token=prepared.continuation_token,
    )


@routes.add(wire.GarbageAPI.prepare_commits, _COMMITS)
def prepare_commits(
    request: ApiRequest, repository: RepositoryID, query: wire.CommitsQuery
) -> wire.GarbageCollectionPrepareResponse:
    """Write all commit records that have not expired."""
    return _wire(_prepare_commits(request, repository, query))


@routes.add(wire.GarbageAPI.start_preparing_commits, _COMMITS)
def prepare_commits_later(
    request: ApiRequest, repository: RepositoryID, query: wire.CommitsQuery
) -> TaskInfo:
    """Start writing all commit records."""
    found = request.services.catalog.repositories.get(repository)

    def work() -> str:
        prepared = _prepare_commits(request, repository, query)
        return json.dumps([prepared.run_id, prepared.location])

    return TaskInfo(id=request.services.catalog.tasks.start(found, _TASK, work))


@routes.add(wire.GarbageAPI.prepare_commits_status, _COMMITS)
def prepare_commits_status(
    request: ApiRequest, repository: RepositoryID, query: wire.PrepareQuery
) -> wire.PrepareGarbageCollectionCommitsStatus:
    """Return the state of writing the commit records."""
    tasks = request.services.catalog.tasks
    task = tasks.status(repository, TaskID(query.id), _TASK)
    failed = task.error is not None
    return wire.PrepareGarbageCollectionCommitsStatus(
        task_id=task.id,
        completed=task.done,
        update_time=task.updated,
        result=None if task.result is None else _wire(PreparedRun(*json.loads(task.result))),
        error=Error(message=task.error or "", kind=task.error_kind or "") if failed else None,
    )


@routes.add(wire.GarbageAPI.runs, _READ)
def list_runs(
    request: ApiRequest, repository: RepositoryID, query: PageQuery
) -> Page[wire.GarbageCollectionRun]:
    """List the runs with stored reports, oldest first, with their outcome."""
    runs = request.services.reclaim.runs.list(repository, after=query.after)
    found = (run for run in runs if run.id.startswith(query.prefix))
    return first_page(found, query, wire=_wire_run, name=lambda run: run.id)


@routes.add(wire.GarbageAPI.explain, (_READ, _READ_ALL))
def explain(
    request: ApiRequest, repository: RepositoryID, query: wire.ExplainQuery
) -> wire.GarbageCollectionExplanation:
    """Explain why an object or a commit is retained or was deleted.

    The answer may name any branch, path and commit that references an object; so it requires
    permission to read all objects.
    """
    explanations = request.services.reclaim.explanations
    if bool(query.ref) == bool(query.address) or (query.address and query.path):
        raise BadRequest("give a commit by ref, an object by ref and path, or an object by address")
    if query.address:
        found = explanations.address(repository, Address.parse(query.address))
    elif query.path:
        found = explanations.object(repository, query.ref, as_key(query.path))
    else:
        found = explanations.commit(repository, query.ref)
    return wire.GarbageCollectionExplanation(
        subject=found.subject, verdict=found.verdict, reasons=found.reasons
    )


@routes.add(wire.GarbageAPI.unfinished, _UNCOMMITTED)
def list_unfinished(
    request: ApiRequest, repository: RepositoryID, query: PageQuery
) -> Page[wire.UnfinishedUpload]:
    """List the multipart uploads, and the issued addresses, that were not finished."""
    uploads = request.services.reclaim.unfinished.list(repository, after=query.after)
    found = (upload for upload in uploads if upload.id.startswith(query.prefix))
    return first_page(found, query, wire=_wire_upload, name=lambda upload: upload.id)


@routes.add(wire.GarbageAPI.end_unfinished, (_UNCOMMITTED, _DELETE))
def end_unfinished(request: ApiRequest, repository: RepositoryID, upload: str) -> None:
    """End an unfinished upload: it can no longer be completed, and its bytes become garbage."""
    request.services.reclaim.unfinished.end(repository, upload)


def _wire_run(run: GarbageRun) -> wire.GarbageCollectionRun:
    return wire.GarbageCollectionRun(
        run_id=run.id, began=run.began, state=run.state, message=run.message, summary=run.summary
    )


def _wire_upload(found: Unfinished) -> wire.UnfinishedUpload:
    return wire.UnfinishedUpload(
        id=found.id,
        kind=found.kind,
        branch=found.branch,
        path=as_text(found.path),
        physical_address=str(found.address),
        begun=found.begun,
    )


def _prepare_commits(
    request: ApiRequest, repository: RepositoryID, query: wire.CommitsQuery
) -> PreparedRun:
    return request.services.reclaim.preparation.prepare_commits(
        repository,
        unique_id=_unique_id(query),
        run_id=GCRunID(query.run_id) if query.run_id else None,
    )


def _wire(prepared: PreparedRun) -> wire.GarbageCollectionPrepareResponse:
    return wire.GarbageCollectionPrepareResponse(
        run_id=prepared.run_id,
        gc_commits_location=prepared.location,
        gc_addresses_location=prepared.location,
    )


# Retention rules


@routes.add(wire.GarbageAPI.old_rules, _GET_RULES)
@routes.add(wire.GarbageAPI.rules, _GET_RULES)
def get_rules(request: ApiRequest, repository: RepositoryID) -> wire.GarbageCollectionRules:
    """Return the retention rules of the commit history."""
    found = request.services.reclaim.retention.find_rules(repository)
    if found is None:
        raise NoRules(repository)
    return wire.GarbageCollectionRules(
        default_retention_days=found.default_days,
        branches=[
            wire.GarbageCollectionRule(branch_id=rule.pattern, retention_days=rule.days)
            for rule in found.branches
        ],
    )


@routes.add(wire.GarbageAPI.old_set_rules, _SET_RULES)
@routes.add(wire.GarbageAPI.set_rules, _SET_RULES)
def set_rules(
    request: ApiRequest, repository: RepositoryID, body: wire.GarbageCollectionRules
) -> None:
    """Replace the retention rules of the commit history."""
    branches = [BranchRule(rule.branch_id, rule.retention_days) for rule in body.branches or ()]
    rules = RetentionRules(body.default_retention_days, branches)
    request.services.reclaim.retention.set_rules(repository, rules)


@routes.add(wire.GarbageAPI.old_delete_rules, _SET_RULES)
@routes.add(wire.GarbageAPI.delete_rules, _SET_RULES)
def delete_rules(request: ApiRequest, repository: RepositoryID) -> None:
    """Delete the rules: all commits are retained from now on."""
    request.services.reclaim.retention.delete_rules(repository)


@routes.add(wire.GarbageAPI.may_set_rules, _SET_RULES)
def may_set_rules(request: ApiRequest, repository: RepositoryID) -> None:
    """Check whether the caller may set retention rules."""
    request.services.catalog.repositories.get(repository)


@routes.add(wire.GarbageAPI.expire, _COMMITS)
def expire_commits(
    request: ApiRequest, repository: RepositoryID, query: wire.ExpireQuery
) -> wire.ExpiredCommits:
    """Mark the commits not retained by the rules, and expire commits marked earlier."""
    done = request.services.reclaim.retention.expire(
        repository,
        unique_id=_unique_id(query),
        max_share=query.max_share,
        dry_run=query.dry_run,
    )
    return wire.ExpiredCommits(
        ran=done.ran,
        commits=done.commits,
        marked=done.marked,
        rescued=done.rescued,
        waiting=done.waiting,
        expired=done.expired,
        by_branch=dict(done.by_branch),
        next_by_branch=dict(done.next_by_branch),
        next_us=done.next_us,
    )


@routes.add(wire.GarbageAPI.write_old_commits, _COMMITS)
def write_old_commits(
    request: ApiRequest, repository: RepositoryID, query: wire.OldCommitsQuery
) -> wire.OldCommits:
    """Write the commits whose expiry frees objects, for the report of a run."""
    files = request.services.reclaim.preparation.write_old_commits(
        repository,
        unique_id=_unique_id(query),
        run_id=GCRunID(query.run_id),
        since_us=query.since_us,
        dry_run=query.dry_run,
    )
    return wire.OldCommits(
        files=[
            wire.OldCommitsFile(name=each.name, rows=each.rows, content_id=each.content_id)
            for each in files
        ]
    )
