"""Objects whose bytes do not pass through the server: addresses, links, presigned parts."""

from msgspec import field

from lakebed.wire.base import Force, Seconds, Size, Wire
from lakebed.wire.calls import Resource, call
from lakebed.wire.objects import ObjectStats, PathQuery


class AddressQuery(PathQuery):
    presign: bool = False


class PartsQuery(PathQuery):
    parts: int = 0


class ObjectStageCreation(Wire):
    physical_address: str
    checksum: str
    size_bytes: Size
    mtime: Seconds | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    content_type: str | None = None
    force: Force = False


class StagingLocation(Wire):
    physical_address: str | None = None
    presigned_url: str | None = None
    presigned_url_expiry: int | None = None


class StagingMetadata(Wire):
    staging: StagingLocation
    checksum: str
    size_bytes: Size
    user_metadata: dict[str, str] = field(default_factory=dict)
    content_type: str | None = None
    mtime: Seconds | None = None
    force: Force = False


class PresignMultipartUpload(Wire):
    upload_id: str
    physical_address: str
    presigned_urls: list[str] = field(default_factory=list)


class UploadPartFrom(Wire):
    physical_address: str


class UploadTo(Wire):
    presigned_url: str


class CopyPartSource(Wire):
    repository: str
    ref: str
    path: str
    range: str | None = None


class UploadPartCopyFrom(Wire):
    physical_address: str
    copy_source: CopyPartSource


class UploadPart(Wire):
    part_number: int
    etag: str


class CompletePresignMultipartUpload(Wire):
    physical_address: str
    parts: list[UploadPart]
    user_metadata: dict[str, str] = field(default_factory=dict)
    content_type: str | None = None


class AbortPresignMultipartUpload(Wire):
    physical_address: str


class StagingAPI(Resource, tag="staging", path="/repositories/{repository}/branches/{branch}"):
    """Addresses, links and external objects."""

    @call("getPhysicalAddress", "GET", "/staging/backing", statuses=(403,))
    def address(self, repository: str, branch: str, query: AddressQuery) -> StagingLocation: ...

    @call(
        "linkPhysicalAddress",
        "PUT",
        "/staging/backing",
        statuses=(403, 409, 412),
        headers=("If-Match", "If-None-Match"),
    )
    def link(
        self, repository: str, branch: str, query: PathQuery, body: StagingMetadata
    ) -> ObjectStats: ...

    @call("stageObject", "PUT", "/objects", status=201, statuses=(403,))
    def stage(
        self, repository: str, branch: str, query: PathQuery, body: ObjectStageCreation
    ) -> ObjectStats: ...


class PartsAPI(
    Resource, tag="experimental", path="/repositories/{repository}/branches/{branch}/staging/pmpu"
):
    """Uploads in parts by presigned URLs."""

    @call("createPresignMultipartUpload", "POST", "", status=201, statuses=(403, 501))
    def create(self, repository: str, branch: str, query: PartsQuery) -> PresignMultipartUpload: ...

    @call("uploadPart", "PUT", "/{upload}/parts/{part}", statuses=(501,))
    def presign(
        self,
        repository: str,
        branch: str,
        upload: str,
        part: str,
        query: PathQuery,
        body: UploadPartFrom,
    ) -> UploadTo: ...

    @call(
        "uploadPartCopy",
        "PUT",
        "/{upload}/parts/{part}/copy",
        status=204,
        transfer=True,
        statuses=(410, 501),
    )
    def copy(
        self,
        repository: str,
        branch: str,
        upload: str,
        part: str,
        query: PathQuery,
        body: UploadPartCopyFrom,
    ) -> None: ...

    @call("completePresignMultipartUpload", "PUT", "/{upload}", statuses=(403, 409, 501))
    def complete(
        self,
        repository: str,
        branch: str,
        upload: str,
        query: PathQuery,
        body: CompletePresignMultipartUpload,
    ) -> ObjectStats: ...

    @call("abortPresignMultipartUpload", "DELETE", "/{upload}", status=204, statuses=(501,))
    def abort(
        self,
        repository: str,
        branch: str,
        upload: str,
        query: PathQuery,
        body: AbortPresignMultipartUpload,
    ) -> None: ...
