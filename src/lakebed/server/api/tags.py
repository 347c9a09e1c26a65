"""Tags."""

from typing import Final

from lakebed.graveler import model
from lakebed.graveler.model import RepositoryID, TagID
from lakebed.server.api.models import Page, PageQuery, Ref, TagCreation, first_page
from lakebed.server.call import Call
from lakebed.server.routes import Routes, fs

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
    graveler = call.services.graveler
    found = graveler.tags.list(
        graveler.repositories.get(RepositoryID(repository)),
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
    return wire(call.services.graveler.create_tag(RepositoryID(repository), body.id, body.ref))


@routes.add("getTag", "GET", _ONE, fs("ReadTag", _ARN))
def get_tag(call: Call, repository: str, tag: str) -> Ref:
    """Return a tag."""
    graveler = call.services.graveler
    return wire(graveler.tags.get(graveler.repositories.get(RepositoryID(repository)), TagID(tag)))


@routes.add("deleteTag", "DELETE", _ONE, fs("DeleteTag", _ARN), status=204, statuses=(403,))
def delete_tag(call: Call, repository: str, tag: str) -> None:
    """Delete a tag; the commit stays."""
    call.services.graveler.delete_tag(RepositoryID(repository), TagID(tag))
