"""Tags."""

from typing import Final

from lakebed.engine import model
from lakebed.engine.model import RepositoryID, TagID
from lakebed.server.api.call import Call
from lakebed.server.api.models import Page, PageQuery, Ref, TagCreation, first_page
from lakebed.server.api.routes import Routes, fs

routes = Routes("tags")

_ALL: Final = "/repositories/{repository}/tags"
_ONE: Final = f"{_ALL}/{{tag:path}}"
_ARN: Final = "repository/{repository}/tag/{tag}"


def wire(tag: model.Tag) -> Ref:
    """Return a tag in the words of the API."""
    return Ref(id=tag.id, commit_id=tag.commit_id)


@routes.add("listTags", "GET", _ALL, fs("ListTags", "repository/{repository}"))
def list_tags(call: Call, repository: str, query: PageQuery) -> Page[Ref]:
    """List the tags of a repository."""
    engine = call.services.engine
    found = engine.tags.list(
        engine.repositories.get(RepositoryID(repository)),
        prefix=query.prefix,
        after=query.after,
    )
    return first_page(found, query, wire=wire, name=lambda tag: tag.id)


@routes.add(
    "createTag",
    "POST",
    _ALL,
    fs("CreateTag", "repository/{repository}/tag/{body.id}"),
    status=201,
    statuses=(403, 409),
)
def create_tag(call: Call, repository: str, body: TagCreation) -> Ref:
    """Make a tag."""
    return wire(call.services.engine.create_tag(RepositoryID(repository), body.id, body.ref))


@routes.add("getTag", "GET", _ONE, fs("ReadTag", _ARN))
def get_tag(call: Call, repository: str, tag: str) -> Ref:
    """Return a tag."""
    engine = call.services.engine
    return wire(engine.tags.get(engine.repositories.get(RepositoryID(repository)), TagID(tag)))


@routes.add("deleteTag", "DELETE", _ONE, fs("DeleteTag", _ARN), status=204, statuses=(403,))
def delete_tag(call: Call, repository: str, tag: str) -> None:
    """Delete a tag; the commit stays."""
    call.services.engine.delete_tag(RepositoryID(repository), TagID(tag))
