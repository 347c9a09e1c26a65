"""ListObjectVersions: the changes of objects in the commits of a ref, and uncommitted changes.

A prefix without a slash lists branches, as in ListObjects.
"""

from typing import NamedTuple

from lakebed.auth import Action
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.lake.versions import ObjectVersion
from lakebed.server.http.conditions import etag
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.listings import ListingQuery, read_listing_query
from lakebed.server.s3.operations.list_objects import KEYS_MAX, list_branches
from lakebed.server.s3.request import S3Reply, S3Request, ref_path_of, xml
from lakebed.server.s3.xml_writer import Markup, boolean, document, element, owner, timestamp


class _Position(NamedTuple):
    """The last item of a page."""

    key: str = ""
    version_id: str = ""
    """Empty for a common prefix, or to continue behind all versions of the key."""


class _Page(NamedTuple):
    elements: list[Markup]
    last: _Position = _Position()
    has_more: bool = False


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    asked = read_listing_query(request, "max-keys", KEYS_MAX)
    query = request.route.query
    after = _Position(query.get("key-marker", ""), query.get("version-id-marker", ""))
    if after.version_id and not after.key:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            "version-id-marker needs the key-marker of the same answer",
        )
    page = _list(request, asked, after)
    content = [
        element("Name", request.route.bucket),
        *asked.echo(),
        element("KeyMarker", asked.text(after.key)),
        element("VersionIdMarker", after.version_id),
        element("MaxKeys", asked.amount),
        element("IsTruncated", boolean(page.has_more)),
    ]
    if page.has_more:
        content.append(element("NextKeyMarker", asked.text(page.last.key)))
        if page.last.version_id:
            content.append(element("NextVersionIdMarker", page.last.version_id))
    return xml(document("ListVersionsResult", *content, *page.elements))


def _list(request: S3Request, asked: ListingQuery, after: _Position) -> _Page:
    if "/" not in asked.prefix:
        branches = list_branches(request, asked, after.key)
        prefixes = [asked.common_prefix(prefix) for prefix in branches.prefixes]
        return _Page(prefixes, _Position(branches.last), branches.has_more)
    request.authorize_repository(Action.LIST_OBJECTS)
    request.authorize_repository(Action.LIST_COMMITS)  # version ids are commits
    ref, prefix = ref_path_of(asked.prefix)
    folder = f"{ref}/"
    if not after.key.startswith(folder):
        if after.key > folder:
            return _Page([])  # all keys of this ref precede the marker
        after = _Position(folder)
    query = EntryQuery(
        prefix=prefix,
        after=after.key.removeprefix(folder).encode(),
        delimiter=asked.delimiter.encode(),
        amount=asked.amount,
    )
    page = request.services.catalog.versions.list_versions(
        request.repository, ref, query, after_id=after.version_id
    )
    shown = [
        (_Position(folder + _text(each.key)), None)
        if isinstance(each, CommonPrefix)
        else (_Position(folder + _text(each.path), each.id), each)
        for each in page.items
    ]
    owned = owner(request.identity.user_id)
    versions = [
        _version(asked.text(position.key), version, owned)
        for position, version in shown
        if version is not None
    ]
    prefixes = [asked.common_prefix(position.key) for position, each in shown if each is None]
    last = shown[-1][0] if shown else after
    return _Page([*versions, *prefixes], last, page.has_more and bool(shown))


def _version(key: str, version: ObjectVersion, owned: Markup) -> Markup:
    content = [
        element("Key", key),
        element("VersionId", version.id),
        element("IsLatest", boolean(version.is_latest)),
        element("LastModified", timestamp(version.changed)),
    ]
    if version.is_removal:
        return element("DeleteMarker", *content, owned)
    content += [
        element("ETag", etag(version.checksum)),
        element("Size", version.size),
        element("StorageClass", "STANDARD"),
    ]
    return element("Version", *content, owned)


def _text(key: bytes) -> str:
    return key.decode(errors="replace")
