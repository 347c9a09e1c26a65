"""Files of committed metadata, and symlinks."""

from lakebed.wire.base import Wire
from lakebed.wire.calls import Resource, call


class StorageURI(Wire):
    location: str


class LocationQuery(Wire):
    location: str = ""


class PresignQuery(Wire):
    presign: bool = False


class MetadataAPI(Resource, tag="metadata", path="/repositories/{repository}"):
    """Files of committed metadata."""

    @call("getMetaRange", "GET", "/metadata/meta_range/{meta_range}")
    def metarange(self, repository: str, meta_range: str) -> StorageURI: ...

    @call("getRange", "GET", "/metadata/range/{range_id}")
    def range(self, repository: str, range_id: str) -> StorageURI: ...

    @call(
        "getMetadataObject",
        "GET",
        "/metadata/object/{kind}/{object_id}",
        transfer=True,
        statuses=(302,),
        media="application/vnd.apache.parquet",
    )
    def file(
        self, repository: str, kind: str, object_id: str, query: PresignQuery | None = None
    ) -> bytes: ...

    @call("createSymlinkFile", "POST", "/refs/{ref}/symlink", status=201)
    def create_symlinks(
        self, repository: str, ref: str, query: LocationQuery | None = None
    ) -> StorageURI: ...
