"""Commits."""

from typing import Final

from lakebed.engine import model
from lakebed.engine.commits.commit import CommitRequest
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.formats import MetaRangeID
from lakebed.server.api.call import Call, seconds
from lakebed.server.api.models import Commit, CommitCreation, Wire
from lakebed.server.api.routes import Reply, Routes, fs

routes = Routes("commits")

_BRANCH: Final = "repository/{repository}/branch/{branch}"
TAKEN_ALONG: Final = "X-Lakebed-Taken-Along"
"""Says that another's commit took the changes along."""


class CommitQuery(Wire):
    source_metarange: str = ""


def wire(commit: model.Commit) -> Commit:
    """Return a commit in the words of the API."""
    return Commit(
        id=commit.id,
        parents=list(commit.parents),
        committer=commit.committer,
        message=commit.message,
        creation_date=seconds(commit.created_us),
        meta_range_id=commit.metarange_id,
        metadata=commit.metadata,
        generation=commit.generation,
    )


@routes.add(
    "commit",
    "POST",
    "/repositories/{repository}/branches/{branch}/commits",
    fs("CreateCommit", _BRANCH),
    status=201,
    statuses=(403, 409, 412),
    answer=Commit,
)
def commit(
    call: Call, repository: str, branch: str, query: CommitQuery, body: CommitCreation
) -> Reply:
    """Commit what is staged on a branch."""
    request = CommitRequest(
        committer=call.identity.committer,
        message=body.message,
        metadata=body.metadata,
        created_us=None if body.date is None else body.date * 1_000_000,
        allow_empty=body.allow_empty,
    )
    result = call.services.engine.commit(
        RepositoryID(repository),
        BranchID(branch),
        request,
        source_metarange=MetaRangeID(query.source_metarange) if query.source_metarange else None,
    )
    headers = {TAKEN_ALONG: "true"} if result.taken_along else {}
    return Reply(body=wire(result.commit), headers=headers)


@routes.add(
    "getCommit",
    "GET",
    "/repositories/{repository}/commits/{commit_id}",
    fs("ReadCommit", "repository/{repository}"),
)
def get_commit(call: Call, repository: str, commit_id: str) -> Commit:
    """Return a commit, by its id or any ref."""
    engine = call.services.engine
    found = engine.repositories.get(RepositoryID(repository))
    return wire(engine.resolver.commit(found, commit_id))
