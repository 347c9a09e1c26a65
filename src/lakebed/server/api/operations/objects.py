"""Objects: upload, download, stat, list, delete, copy, preview."""

from collections.abc import Callable
from operator import attrgetter
from typing import Final
from urllib.parse import quote

from lakebed.auth import Action
from lakebed.auth.policy.actions import object_arn
from lakebed.base.content_types import DEFAULT_CONTENT_TYPE, content_type_of
from lakebed.engine.committed.listing import CommonPrefix, EntryQuery
from lakebed.engine.model import BranchID, RepositoryID, is_commit_id
from lakebed.lake.errors import RangeNotSatisfiable
from lakebed.lake.etag_pins import is_compared
from lakebed.lake.model import ObjectStats as Found
from lakebed.lake.preview.decoding import Preview
from lakebed.lake.preview.row_diff import RowDiff
from lakebed.server.api.page_json import common_prefix, objects_page
from lakebed.server.api.pages import listing, page_of
from lakebed.server.api.request import ApiRequest, as_key, as_text
from lakebed.server.api.routes import Reply, Routes, fs
from lakebed.server.http.bodies import Body
from lakebed.server.http.conditions import (
    etag,
    header_text,
    http_date,
    invocation_of,
    matches,
    no_bytes_headers,
    requested_range,
    select_bytes,
    write_condition,
)
from lakebed.server.http.dispositions import ATTACHMENT
from lakebed.server.http.errors import BadRequest, NotImplementedHere, explain, status_of
from lakebed.server.http.forms import form_file
from lakebed.wire import objects as wire
from lakebed.wire.base import Page

routes = Routes()

_OBJECT: Final = "repository/{repository}/object/{query.path}"
_REPOSITORY: Final = "repository/{repository}"

PATHS_MAX: Final = 1000
METADATA_PREFIX: Final = "HTTP_X_LAKEFS_META_"
INTERNAL_PREFIX: Final = "HTTP_X_LAKEFS_INTERNAL_"
"""Keys of the WSGI environment with internal metadata: ``X-Lakefs-Internal-…``."""
INTERNAL_KEY: Final = "::lakefs::"
"""The prefix of internal metadata, which keeps it apart from user metadata."""


_UNCACHED: Final = "no-store, must-revalidate"
_IMMUTABLE: Final = "private, max-age=31536000, immutable"
"""No shared caches: they do not check permissions."""


def wire_object(
    request: ApiRequest, found: Found, *, user_metadata: bool = True, presign: bool = False
) -> wire.ObjectStats:
    """Return an object as the API's struct."""
    address, expiry = str(found.location), None
    if presign:
        presigned = request.services.catalog.objects.presign(found)
        address, expiry = request.absolute(presigned.url), int(presigned.expires.timestamp())
    return wire.ObjectStats(
        path=as_text(found.path),
        path_type="object",
        physical_address=address,
        physical_address_expiry=expiry,
        checksum=found.checksum,
        mtime=int(found.mtime.timestamp()),
        size_bytes=found.size,
        metadata=dict(found.metadata) if user_metadata else None,
        content_type=found.content_type,
    )


# Reading


def _cache_control(ref: str) -> str:
    """Return the caching of an answer: objects of a commit never change."""
    return _IMMUTABLE if is_commit_id(ref) else _UNCACHED


def _headers(found: Found, ref: str) -> dict[str, str]:
    name = as_text(found.path).rpartition("/")[2]
    return {
        "ETag": etag(header_text(found.checksum)),
        "Last-Modified": http_date(found.mtime),
        "Accept-Ranges": "bytes",
        "Cache-Control": _cache_control(ref),
        "Content-Disposition": f"{ATTACHMENT}; filename*=UTF-8''{quote(name, safe='')}",
    }


def _type_of(found: Found) -> str:
    return header_text(found.content_type) or DEFAULT_CONTENT_TYPE


@routes.add(wire.ObjectsAPI.get, fs("ReadObject", _OBJECT))
def get_object(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.ReadQuery
) -> Reply:
    """Return the bytes of an object, or a byte range (Range)."""
    objects = request.services.catalog.objects
    found = objects.stat(repository, ref, as_key(query.path))
    if query.presign:
        objects.check_bytes(found)
        return Reply(status=302, headers={"Location": request.absolute(objects.presign(found).url)})
    headers = _headers(found, ref)
    known = request.environ.get("HTTP_IF_NONE_MATCH")
    if known is not None and matches(known, found.checksum):
        objects.check_bytes(found)
        return Reply(status=304, headers=headers)
    try:
        selection = select_bytes(requested_range(request.environ.get("HTTP_RANGE")), found.size)
    except RangeNotSatisfiable as error:
        return Reply(
            status=416,
            body={"message": str(error), "kind": error.kind},
            headers=no_bytes_headers(found.size),
        )
    return Reply(
        status=selection.status,
        body=objects.read(found, byte_range=selection.byte_range),
        content_type=_type_of(found),
        content_length=selection.length,
        headers=headers | selection.headers,
    )


@routes.add(wire.ObjectsAPI.head, fs("ReadObject", _OBJECT))
def head_object(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.PathQuery
) -> Reply:
    """Return the headers of a download."""
    objects = request.services.catalog.objects
    found = objects.stat(repository, ref, as_key(query.path))
    try:
        selection = select_bytes(requested_range(request.environ.get("HTTP_RANGE")), found.size)
    except RangeNotSatisfiable:
        return Reply(status=416, headers=no_bytes_headers(found.size))
    headers = _headers(found, ref) | selection.headers
    headers |= {"Content-Length": str(selection.length), "Content-Type": _type_of(found)}
    return Reply(status=selection.status, headers=headers)


@routes.add(wire.ObjectsAPI.stat, fs("ReadObject", _OBJECT))
def stat_object(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.StatQuery
) -> wire.ObjectStats:
    """Return the properties of an object."""
    objects = request.services.catalog.objects
    found = objects.stat(repository, ref, as_key(query.path))
    if query.presign:
        objects.check_bytes(found)
    return wire_object(request, found, user_metadata=query.user_metadata, presign=query.presign)


@routes.add(wire.ObjectsAPI.underlying, fs("ReadObject", _OBJECT))
def get_underlying(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.PathQuery
) -> wire.UnderlyingObjectProperties:
    """Return the storage's properties of an object."""
    request.services.catalog.objects.stat(repository, ref, as_key(query.path))
    return wire.UnderlyingObjectProperties()


@routes.add(wire.ObjectsAPI.list, fs("ListObjects", _REPOSITORY))
def list_objects(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.ListQuery
) -> Page[wire.ObjectStats]:
    """List the objects of a ref; with a delimiter, paths are grouped into common prefixes.

    With `presign`, imported and linked objects have no URL: each must first be compared with the
    storage, which `statObject` does.
    """
    page = request.services.catalog.objects.list_objects(repository, ref, listing(query))
    if not query.presign:
        return objects_page(page, user_metadata=query.user_metadata)
    may_read = _reading_test(request, repository)
    results = [
        common_prefix(item.key)
        if isinstance(item, CommonPrefix)
        else wire_object(
            request,
            item,
            user_metadata=query.user_metadata,
            presign=item.has_address and not is_compared(item) and bool(may_read(item)),
        )
        for item in page.items
    ]
    return page_of(results, has_more=page.has_more, last=results[-1].path if results else "")


@routes.add(wire.ObjectsAPI.search, fs("ListObjects", _REPOSITORY))
def search_objects(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.SearchQuery
) -> Page[wire.ObjectStats]:
    """Find objects by a part of their paths. An empty page may still be followed by more."""
    listing = EntryQuery(
        prefix=query.prefix.encode(), after=query.after.encode(), amount=query.limit
    )
    found = request.services.catalog.search.find(repository, ref, query.text, listing)
    results = [wire_object(request, each, user_metadata=False) for each in found.objects]
    return page_of(results, has_more=found.has_more, last=as_text(found.last))


def _reading_test(request: ApiRequest, repository: RepositoryID) -> Callable[[Found], object]:
    """Return a function that tells whether the caller may read an object of a listing.

    A presigned URL reads without further checks: permission to list objects must not suffice for
    one.
    """
    is_granted = request.services.auth.resource_filter(
        request.identity, request.context, Action.READ_OBJECT
    )
    prefix = object_arn(repository, "")
    return lambda found: is_granted(prefix + as_text(found.path))


# Writing


@routes.add(wire.ObjectsAPI.upload, fs("WriteObject", _OBJECT))
def upload_object(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: wire.ForcePathQuery
) -> wire.ObjectStats:
    """Upload an object: the field `content` of a form, or the raw body."""
    limits = request.services.settings.limits
    body = Body(
        request.environ,
        seconds_max=limits.transfer_seconds,
        rate_min=limits.body_bytes_per_second,
    )
    kind: str = request.environ.get("CONTENT_TYPE") or ""
    if kind.lower().startswith("multipart/form-data"):
        file = form_file(body, kind, field="content")
        chunks, content_type = file.chunks, file.content_type
    else:
        chunks, content_type = body.chunks(), kind or None
    stored = request.services.catalog.uploads.upload(
        repository,
        branch,
        as_key(query.path),
        chunks,
        content_type=content_type or content_type_of(query.path),
        metadata=_user_metadata(request),
        condition=write_condition(request.environ),
        invocation=invocation_of(request.identity.unique_id, request.environ),
    )
    return wire_object(request, stored)


def _user_metadata(request: ApiRequest) -> dict[str, str]:
    metadata = {}
    for key, value in request.environ.items():
        if key.startswith(METADATA_PREFIX):
            metadata[_name_of(key.removeprefix(METADATA_PREFIX))] = value
        elif key.startswith(INTERNAL_PREFIX):
            metadata[INTERNAL_KEY + _name_of(key.removeprefix(INTERNAL_PREFIX))] = value
    return metadata


def _name_of(key: str) -> str:
    return key.replace("_", "-").lower()


@routes.add(wire.ObjectsAPI.may_upload, fs("WriteObject", _OBJECT))
def may_upload(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: wire.PathQuery
) -> None:
    """Check whether an upload would be accepted."""
    as_key(query.path)
    request.services.catalog.objects.check_writable(repository, branch)


@routes.add(wire.ObjectsAPI.delete, fs("DeleteObject", _OBJECT))
def delete_object(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: wire.ForcePathQuery
) -> None:
    """Delete an object; succeeds if it does not exist."""
    request.services.catalog.objects.delete(repository, branch, as_key(query.path))


@routes.add(
    wire.ObjectsAPI.delete_many,
    fs("DeleteObject", "repository/{repository}/object/{each}", each=attrgetter("paths")),
)
def delete_objects(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    body: wire.PathList,
) -> wire.ObjectErrorList:
    """Delete many objects; the answer lists the failures."""
    if len(body.paths) > PATHS_MAX:
        raise BadRequest(f"too many paths: {len(body.paths)}, at most {PATHS_MAX} per request")
    failed = request.services.catalog.objects.delete_many(
        repository, branch, [as_key(path) for path in body.paths]
    )
    return wire.ObjectErrorList(
        errors=[
            wire.ObjectError(
                status_code=status_of(each.error),
                message=explain(each.error),
                path=as_text(each.path),
            )
            for each in failed
        ]
    )


@routes.add(
    wire.ObjectsAPI.copy,
    (
        fs("WriteObject", "repository/{repository}/object/{query.dest_path}"),
        fs("ReadObject", "repository/{repository}/object/{body.src_path}"),
    ),
)
def copy_object(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: wire.CopyQuery,
    body: wire.ObjectCopyCreation,
) -> wire.ObjectStats:
    """Copy an object onto a branch, from any ref of the repository."""
    if body.shallow:
        raise NotImplementedHere(
            "shallow copies are not supported: the shared bytes could be deleted with the source;"
            " copy without shallow, which does not copy the bytes of recent objects either"
        )
    copied = request.services.catalog.copies.copy(
        repository,
        branch,
        as_key(query.dest_path, "dest_path"),
        source_ref=body.src_ref or branch,
        source_path=as_key(body.src_path, "src_path"),
    )
    return wire_object(request, copied)


@routes.add(wire.ObjectsAPI.set_metadata, fs("WriteObject", _OBJECT))
def update_metadata(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: wire.PathQuery,
    body: wire.UpdateObjectUserMetadata,
) -> None:
    """Replace the user metadata of an object."""
    request.services.catalog.copies.set_metadata(repository, branch, as_key(query.path), body.set)


# Previews for people: an extension of the lakeFS API, used by the web UI


@routes.add(wire.PreviewAPI.show, fs("ReadObject", _OBJECT))
def preview_object(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.PreviewQuery
) -> Preview:
    """Preview an object: rows of a table, text, or the reason for no preview."""
    return request.services.catalog.previews.show(
        repository, ref, as_key(query.path), offset=query.offset, limit=query.limit
    )


@routes.add(wire.PreviewAPI.diff_rows, fs("ReadObject", _OBJECT))
def diff_object_rows(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.RowDiffQuery
) -> RowDiff:
    """Return the rows of a table that differ between two refs."""
    return request.services.catalog.previews.diff(
        repository, ref, query.right_ref, as_key(query.path), query.keys
    )
