"""The files of committed metadata: where they are, and what is in them."""

from typing import Final

from lakebed.block import Address, ObjectNotFound
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.formats import MetaRangeID, RangeID, metarange_path, range_path
from lakebed.server.api.call import Call, one_of
from lakebed.server.api.models import StorageURI, Wire
from lakebed.server.api.routes import Reply, Routes, fs
from lakebed.server.http.errors import BadRequest, FileMissing

routes = Routes("metadata")

_ALL: Final = "/repositories/{repository}/metadata"
_PARQUET: Final = "application/vnd.apache.parquet"
_READ: Final = (
    fs("ListObjects", "repository/{repository}"),
    fs("ReadRepository", "repository/{repository}"),
)


class LocationQuery(Wire):
    location: str = ""


class PresignQuery(Wire):
    presign: bool = False


def _address(call: Call, repository: str, kind: str, object_id: str) -> Address:
    namespace = call.services.engine.repositories.get(RepositoryID(repository)).namespace
    if not object_id.isascii() or not object_id.isalnum():
        raise BadRequest(f"{object_id!r} is no id of a range or metarange")
    if kind == "range":
        return namespace.address(range_path(RangeID(object_id)))
    return namespace.address(metarange_path(MetaRangeID(object_id)))


def _location(call: Call, repository: str, kind: str, object_id: str) -> Reply:
    address = _address(call, repository, kind, object_id)
    if not call.services.block.exists(address):
        raise FileMissing(kind, object_id)
    return Reply(body=StorageURI(location=str(address)), headers={"Location": str(address)})


@routes.add("getMetaRange", "GET", f"{_ALL}/meta_range/{{meta_range}}", _READ, answer=StorageURI)
def get_metarange(call: Call, repository: str, meta_range: str) -> Reply:
    """Return where a metarange is."""
    return _location(call, repository, "metarange", meta_range)


@routes.add("getRange", "GET", f"{_ALL}/range/{{range_id}}", _READ, answer=StorageURI)
def get_range(call: Call, repository: str, range_id: str) -> Reply:
    """Return where a range is."""
    return _location(call, repository, "range", range_id)


@routes.add(
    "getMetadataObject",
    "GET",
    f"{_ALL}/object/{{kind}}/{{object_id}}",
    _READ,
    transfer=True,
    statuses=(302,),
    media=_PARQUET,
)
def get_metadata_object(
    call: Call, repository: str, kind: str, object_id: str, query: PresignQuery
) -> Reply:
    """Return a range or metarange, which is Parquet."""
    one_of(kind, ("range", "meta_range"), "the type of a metadata object")
    address = _address(call, repository, kind, object_id)
    block = call.services.block
    try:
        found = block.head(address)
        if query.presign:
            url = call.services.catalog.presigning.to_read(address).url
            return Reply(status=302, headers={"Location": call.absolute(url)})
        stream = block.get(address)
    except ObjectNotFound:
        raise FileMissing(kind, object_id) from None
    return Reply(
        body=stream,
        content_type=_PARQUET,
        content_length=found.size,
    )


@routes.add(
    "createSymlinkFile",
    "POST",
    "/repositories/{repository}/refs/{ref}/symlink",
    fs("WriteObject", "repository/{repository}/object/{query.location}"),
    status=201,
)
def create_symlinks(call: Call, repository: str, ref: str, query: LocationQuery) -> StorageURI:
    """Write lists of the addresses of a branch's objects, a file for each folder."""
    written = call.services.catalog.symlinks.write(
        RepositoryID(repository), BranchID(ref), query.location.encode()
    )
    return StorageURI(location=str(written))
