"""Objects: upload, download, stat, list, delete, copy, and previews."""

from typing import Annotated, Final

from msgspec import Meta, Raw, Struct, field

from lakebed.wire.base import Force, ForceQuery, KeysQuery, Page, PageQuery, Wire
from lakebed.wire.calls import Resource, call

_OFFSET_MAX: Final = (1 << 53) - 1
ROWS_MAX: Final = 200
"""The most rows of a preview."""


class PathQuery(Wire):
    path: str


class ForcePathQuery(PathQuery):
    force: Force = False


class ReadQuery(PathQuery):
    presign: bool = False


class StatQuery(PathQuery):
    user_metadata: bool = True
    presign: bool = False


class ListQuery(KeysQuery):
    user_metadata: bool = True
    presign: bool = False


class SearchQuery(PageQuery, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=1024, description="substring of paths")]


class CopyQuery(Wire):
    dest_path: str


class ObjectStats(Wire):
    path: str
    path_type: str
    physical_address: str
    checksum: str
    mtime: int
    size_bytes: int | None = None
    physical_address_expiry: int | None = None
    metadata: dict[str, str] | None = None
    content_type: str | None = None


class PathList(Wire):
    paths: list[str]


class ObjectError(Wire):
    status_code: int
    message: str
    path: str | None = None


class ObjectErrorList(Struct, kw_only=True):
    errors: list[ObjectError]


class ObjectCopyCreation(Wire):
    src_path: str
    src_ref: str | None = None
    shallow: bool = False
    force: Force = False


class UpdateObjectUserMetadata(Wire):
    set: dict[str, str]


class UnderlyingObjectProperties(Wire):
    storage_class: str | None = None


class PreviewQuery(Wire):
    path: str
    offset: Annotated[int, Meta(ge=0, le=_OFFSET_MAX, description="index of the first row")] = 0
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX, description="number of rows")] = 50


class RowDiffQuery(Wire):
    path: str
    right_ref: str
    keys: list[str] = field(default_factory=list)


class ObjectsAPI(Resource, tag="objects", path="/repositories/{repository}"):
    """Objects."""

    @call(
        "getObject",
        "GET",
        "/refs/{ref}/objects",
        transfer=True,
        statuses=(206, 302, 304, 416),
        media="*/*",
        headers=("Range", "If-None-Match"),
    )
    def get(self, repository: str, ref: str, query: ReadQuery) -> bytes: ...

    @call(
        "headObject",
        "HEAD",
        "/refs/{ref}/objects",
        statuses=(206, 416),
        media="*/*",
        headers=("Range",),
    )
    def head(self, repository: str, ref: str, query: PathQuery) -> None: ...

    @call("statObject", "GET", "/refs/{ref}/objects/stat")
    def stat(self, repository: str, ref: str, query: StatQuery) -> ObjectStats: ...

    @call("getUnderlyingProperties", "GET", "/refs/{ref}/objects/underlyingProperties")
    def underlying(
        self, repository: str, ref: str, query: PathQuery
    ) -> UnderlyingObjectProperties: ...

    @call("listObjects", "GET", "/refs/{ref}/objects/ls")
    def list(
        self, repository: str, ref: str, query: ListQuery | None = None
    ) -> Page[ObjectStats]: ...

    @call("searchObjects", "GET", "/refs/{ref}/objects/search")
    def search(self, repository: str, ref: str, query: SearchQuery) -> Page[ObjectStats]: ...

    @call(
        "uploadObject",
        "POST",
        "/branches/{branch}/objects",
        status=201,
        transfer=True,
        uploads=True,
        statuses=(403, 412),
        headers=("If-Match", "If-None-Match", "amz-sdk-invocation-id"),
    )
    def upload(self, repository: str, branch: str, query: ForcePathQuery) -> ObjectStats: ...

    @call(
        "uploadObjectPreflight",
        "GET",
        "/branches/{branch}/objects/stage_allowed",
        status=204,
        statuses=(403,),
    )
    def may_upload(self, repository: str, branch: str, query: PathQuery) -> None: ...

    @call("deleteObject", "DELETE", "/branches/{branch}/objects", status=204, statuses=(403,))
    def delete(self, repository: str, branch: str, query: ForcePathQuery) -> None: ...

    @call("deleteObjects", "POST", "/branches/{branch}/objects/delete", statuses=(403,))
    def delete_many(
        self, repository: str, branch: str, body: PathList, query: ForceQuery | None = None
    ) -> ObjectErrorList: ...

    @call("copyObject", "POST", "/branches/{branch}/objects/copy", status=201, statuses=(403, 501))
    def copy(
        self, repository: str, branch: str, query: CopyQuery, body: ObjectCopyCreation
    ) -> ObjectStats: ...

    @call(
        "updateObjectUserMetadata",
        "PUT",
        "/branches/{branch}/objects/stat/user_metadata",
        status=204,
        statuses=(403,),
    )
    def set_metadata(
        self, repository: str, branch: str, query: PathQuery, body: UpdateObjectUserMetadata
    ) -> None: ...


class PreviewAPI(
    Resource, tag="preview", path="/repositories/{repository}/refs/{ref}/objects/preview"
):
    """Previews of objects: an operation of Lakebed."""

    @call("previewObject", "GET", "", transfer=True)
    def show(self, repository: str, ref: str, query: PreviewQuery) -> Raw: ...

    @call("diffObjectRows", "GET", "/diff", transfer=True)
    def diff_rows(self, repository: str, ref: str, query: RowDiffQuery) -> Raw: ...
