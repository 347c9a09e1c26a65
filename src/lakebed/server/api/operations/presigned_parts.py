"""Multipart uploads by presigned URLs, in most storages without passing the server."""

from typing import Final

from lakebed.block.ranges import resolve as resolve_range
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.multipart.records import MultipartID, NamedPart, Target
from lakebed.lake.places import parse_address
from lakebed.server.api.operations.objects import wire_object
from lakebed.server.api.request import ApiRequest, as_key
from lakebed.server.api.routes import Reply, Routes, fs
from lakebed.server.http.conditions import copied_range, etag
from lakebed.server.http.errors import BadRequest, NotImplementedHere
from lakebed.wire import staging as wire
from lakebed.wire.objects import ObjectStats, PathQuery

routes = Routes()

_WRITE: Final = fs("WriteObject", "repository/{repository}/object/{query.path}")


@routes.add(wire.PartsAPI.create, _WRITE)
def create(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: wire.PartsQuery
) -> wire.PresignMultipartUpload:
    """Start a multipart upload; return presigned URLs for the requested number of parts."""
    _check_supported(request)
    begun = request.services.catalog.presigned_uploads.create(
        repository, branch, as_key(query.path), parts=query.parts
    )
    return wire.PresignMultipartUpload(
        upload_id=begun.id,
        physical_address=str(begun.address),
        presigned_urls=[request.absolute(each.url) for each in begun.urls],
    )


@routes.add(wire.PartsAPI.presign, _WRITE)
def presign_part(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    upload: str,
    part: str,
    query: PathQuery,
    body: wire.UploadPartFrom,
) -> wire.UploadTo:
    """Return a presigned URL for one part."""
    _check_supported(request)
    target = _target(repository, branch, query.path, upload, body.physical_address)
    signed = request.services.catalog.presigned_uploads.presign_part(target, _number(part))
    return wire.UploadTo(presigned_url=request.absolute(signed.url))


@routes.add(
    wire.PartsAPI.copy,
    (
        _WRITE,
        fs("ReadObject", "repository/{body.copy_source.repository}/object/{body.copy_source.path}"),
    ),
)
def copy_part(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    upload: str,
    part: str,
    query: PathQuery,
    body: wire.UploadPartCopyFrom,
) -> Reply:
    """Create a part from an existing object, or from a byte range of it."""
    _check_supported(request)
    target = _target(repository, branch, query.path, upload, body.physical_address)
    source, objects = body.copy_source, request.services.catalog.objects
    found = objects.stat(RepositoryID(source.repository), source.ref, as_key(source.path))
    wanted = None if source.range is None else copied_range(source.range, found.size)
    if source.range is not None and wanted is None:
        raise _bad_range(source, found.size)
    _, size = resolve_range(wanted, found.size)
    with objects.read(found, byte_range=wanted) as stream:
        part_etag = request.services.catalog.multiparts.put_presigned_part(
            target, _number(part), stream, size=size
        )
    return Reply(headers={"ETag": etag(part_etag)})


@routes.add(wire.PartsAPI.complete, _WRITE)
def complete(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    upload: str,
    query: PathQuery,
    body: wire.CompletePresignMultipartUpload,
) -> ObjectStats:
    """Create the object from its parts; a repeated request gets the same answer."""
    _check_supported(request)
    completed = request.services.catalog.completions.complete(
        _target(repository, branch, query.path, upload, body.physical_address),
        [NamedPart(each.part_number, each.etag.strip(' "')) for each in body.parts],
        content_type=body.content_type or None,
        metadata=body.user_metadata,
    )
    return wire_object(request, completed)


@routes.add(wire.PartsAPI.abort, _WRITE)
def abort(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    upload: str,
    query: PathQuery,
    body: wire.AbortPresignMultipartUpload,
) -> None:
    """Abort an upload and discard its parts."""
    _check_supported(request)
    target = _target(repository, branch, query.path, upload, body.physical_address)
    request.services.catalog.multiparts.abort(target)


def _check_supported(request: ApiRequest) -> None:
    if not request.services.catalog.presigning.parts_supported:
        raise NotImplementedHere("presign multipart upload API is not supported")


def _target(
    repository: RepositoryID, branch: BranchID, path: str, upload: str, address: str
) -> Target:
    return Target(
        repository, branch, as_key(path), MultipartID(upload), address=parse_address(address)
    )


def _number(part: str) -> int:
    if not (part.isascii() and part.isdigit() and len(part) <= len("10000")):
        raise BadRequest(f"invalid part number {part[:20]!r}: use 1 to 10000")
    return int(part)


def _bad_range(source: wire.CopyPartSource, size: int) -> BadRequest:
    return BadRequest(
        f"invalid copy_source.range {(source.range or '')[:50]!r}: write it as"
        f" bytes=<first>-<last>, within the object of {size} bytes"
    )
