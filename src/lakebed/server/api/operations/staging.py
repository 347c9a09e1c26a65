"""Objects written without the server: upload addresses, links, external objects."""

from datetime import UTC, datetime
from typing import Final

from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.block.address import Address
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.places import canonical_path, parse_address
from lakebed.server.api.operations.objects import wire_object
from lakebed.server.api.request import ApiRequest, as_key
from lakebed.server.api.routes import Routes, fs
from lakebed.server.http.conditions import write_condition
from lakebed.server.http.errors import BadRequest
from lakebed.wire.objects import ObjectStats, PathQuery
from lakebed.wire.staging import (
    AddressQuery,
    ObjectStageCreation,
    StagingAPI,
    StagingLocation,
    StagingMetadata,
)

routes = Routes()

_WRITE: Final = fs("WriteObject", "repository/{repository}/object/{query.path}")


def _places(body: ObjectStageCreation) -> list[str]:
    """Return the canonical spelling of an address, for permission checks."""
    return [canonical_path(parse_address(body.physical_address))]


@routes.add(StagingAPI.address, _WRITE)
def get_physical_address(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: AddressQuery
) -> StagingLocation:
    """Issue an upload address, which can then be linked once."""
    given = request.services.catalog.links.get_physical_address(
        repository, branch, as_key(query.path), presign=query.presign
    )
    presigned = given.upload
    return StagingLocation(
        physical_address=str(given.address),
        presigned_url=None if presigned is None else request.absolute(presigned.url),
        presigned_url_expiry=None if presigned is None else int(presigned.expires.timestamp()),
    )


@routes.add(StagingAPI.link, _WRITE)
def link_physical_address(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: PathQuery,
    body: StagingMetadata,
) -> ObjectStats:
    """Stage the object at an issued upload address."""
    if not body.staging.physical_address:
        raise BadRequest("staging.physical_address is missing")
    linked = request.services.catalog.links.link(
        repository,
        branch,
        as_key(query.path),
        Address.parse(body.staging.physical_address),
        checksum=body.checksum,
        size=body.size_bytes,
        content_type=body.content_type or DEFAULT_CONTENT_TYPE,
        metadata=body.user_metadata,
        condition=write_condition(request.environ),
    )
    return wire_object(request, linked)


@routes.add(StagingAPI.stage, (_WRITE, fs("ImportFromStorage", "namespace/{each}", each=_places)))
def stage_object(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: PathQuery,
    body: ObjectStageCreation,
) -> ObjectStats:
    """Stage an object outside of all repositories."""
    moment = None if body.mtime is None else datetime.fromtimestamp(body.mtime, UTC)
    staged = request.services.catalog.external.stage(
        repository,
        branch,
        as_key(query.path),
        parse_address(body.physical_address),
        checksum=body.checksum,
        size=body.size_bytes,
        mtime=moment,
        content_type=body.content_type or DEFAULT_CONTENT_TYPE,
        metadata=body.metadata,
        condition=write_condition(request.environ),
    )
    return wire_object(request, staged)
