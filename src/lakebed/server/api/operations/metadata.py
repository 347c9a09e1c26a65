"""Committed metadata files: their addresses and contents."""

from typing import Final

from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.metadata_files import FileKind, MetadataFile
from lakebed.server.api.request import ApiRequest, one_of
from lakebed.server.api.routes import Reply, Routes, fs
from lakebed.server.http.dispositions import ATTACHMENT
from lakebed.server.http.errors import FileMissing
from lakebed.wire.metadata import LocationQuery, MetadataAPI, PresignQuery, StorageURI

routes = Routes()

_PARQUET: Final = "application/vnd.apache.parquet"
_KINDS: Final = {"range": FileKind.RANGE, "meta_range": FileKind.METARANGE}
_READ: Final = (
    fs("ListObjects", "repository/{repository}"),
    fs("ReadRepository", "repository/{repository}"),
)


def _find(
    request: ApiRequest, repository: RepositoryID, kind: FileKind, file_id: str
) -> MetadataFile:
    found = request.services.catalog.metadata_files.find(repository, kind, file_id)
    if found is None:
        raise FileMissing(kind, file_id)
    return found


def _location(request: ApiRequest, repository: RepositoryID, kind: FileKind, file_id: str) -> Reply:
    address = str(_find(request, repository, kind, file_id).address)
    return Reply(body=StorageURI(location=address), headers={"Location": address})


@routes.add(MetadataAPI.metarange, _READ)
def get_metarange(request: ApiRequest, repository: RepositoryID, meta_range: str) -> Reply:
    """Return the address of a metarange."""
    return _location(request, repository, FileKind.METARANGE, meta_range)


@routes.add(MetadataAPI.range, _READ)
def get_range(request: ApiRequest, repository: RepositoryID, range_id: str) -> Reply:
    """Return the address of a range."""
    return _location(request, repository, FileKind.RANGE, range_id)


@routes.add(MetadataAPI.file, _READ)
def get_metadata_object(
    request: ApiRequest, repository: RepositoryID, kind: str, object_id: str, query: PresignQuery
) -> Reply:
    """Return a range or metarange, a Parquet file."""
    one_of(kind, _KINDS, "type of a metadata object")
    found = _find(request, repository, _KINDS[kind], object_id)
    if query.presign:
        url = request.services.catalog.presigning.to_read(found.address, found.size).url
        return Reply(status=302, headers={"Location": request.absolute(url)})
    stream = request.services.catalog.metadata_files.read(found)
    return Reply(
        body=stream,
        content_type=_PARQUET,
        content_length=stream.object_size,
        headers={"Content-Disposition": ATTACHMENT},
    )


@routes.add(
    MetadataAPI.create_symlinks,
    fs("WriteObject", "repository/{repository}/object/{query.location}"),
)
def create_symlinks(
    request: ApiRequest, repository: RepositoryID, ref: str, query: LocationQuery
) -> StorageURI:
    """Write lists of the addresses of a branch's objects, one file per folder."""
    written = request.services.catalog.symlinks.write(
        repository, BranchID(ref), query.location.encode()
    )
    return StorageURI(location=str(written))
