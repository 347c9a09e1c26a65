"""Objects whose bytes do not pass through the server: given-out addresses, links, external ones."""

from datetime import UTC, datetime
from typing import Final

from lakebed.catalog.model import DEFAULT_CONTENT_TYPE
from lakebed.catalog.nouns import Address, BranchID, RepositoryID
from lakebed.catalog.places import parse_address
from lakebed.server.api.models import (
    ObjectStageCreation,
    ObjectStats,
    StagingLocation,
    StagingMetadata,
)
from lakebed.server.api.operations.objects import PathQuery, wire
from lakebed.server.api.request import ApiRequest, as_key
from lakebed.server.api.routes import Routes, fs
from lakebed.server.http.conditions import write_condition
from lakebed.server.http.errors import BadRequest

routes = Routes("staging")

_BACKING: Final = "/repositories/{repository}/branches/{branch}/staging/backing"
_WRITE: Final = fs("WriteObject", "repository/{repository}/object/{query.path}")


class AddressQuery(PathQuery):
    presign: bool = False


@routes.add("getPhysicalAddress", "GET", _BACKING, _WRITE, statuses=(403,))
def get_physical_address(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: AddressQuery
) -> StagingLocation:
    """Give out an address to upload an object to, which can then be linked once."""
    given = request.catalog.links.get_physical_address(
        repository, branch, as_key(query.path), presign=query.presign
    )
    presigned = given.upload
    return StagingLocation(
        physical_address=str(given.address),
        presigned_url=None if presigned is None else request.absolute(presigned.url),
        presigned_url_expiry=None if presigned is None else int(presigned.expires.timestamp()),
    )


@routes.add(
    "linkPhysicalAddress",
    "PUT",
    _BACKING,
    _WRITE,
    statuses=(403, 409, 412),
    headers=("If-Match", "If-None-Match"),
)
def link_physical_address(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: PathQuery,
    body: StagingMetadata,
) -> ObjectStats:
    """Stage the object at an address that was given out."""
    if not body.staging.physical_address:
        raise BadRequest("staging.physical_address is missing")
    linked = request.catalog.links.link(
        repository,
        branch,
        as_key(query.path),
        Address.parse(body.staging.physical_address),
        checksum=body.checksum,
        size=body.size_bytes,
        content_type=body.content_type or DEFAULT_CONTENT_TYPE,
        metadata=body.user_metadata,
        condition=write_condition(request.header("If-Match"), request.header("If-None-Match")),
    )
    return wire(request, linked)


@routes.add(
    "stageObject",
    "PUT",
    "/repositories/{repository}/branches/{branch}/objects",
    # Whoever stages an address can read what is there.
    (_WRITE, fs("ImportFromStorage", "namespace/{body.place}")),
    status=201,
    statuses=(403,),
)
def stage_object(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: PathQuery,
    body: ObjectStageCreation,
) -> ObjectStats:
    """Stage an object that is outside of all repositories."""
    moment = None if body.mtime is None else datetime.fromtimestamp(body.mtime, UTC)
    staged = request.catalog.external.stage(
        repository,
        branch,
        as_key(query.path),
        parse_address(body.physical_address),
        checksum=body.checksum,
        size=body.size_bytes,
        mtime=moment,
        content_type=body.content_type or DEFAULT_CONTENT_TYPE,
        metadata=body.metadata,
    )
    return wire(request, staged)
