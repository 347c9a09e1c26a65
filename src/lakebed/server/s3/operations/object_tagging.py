"""GetObjectTagging, PutObjectTagging and DeleteObjectTagging."""

from collections.abc import Mapping
from http import HTTPStatus

from lakebed.auth import Action
from lakebed.engine.model import BranchID
from lakebed.lake.entry_metadata import tags_of
from lakebed.server.s3.operations.get_object import find
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.tagging import sent_tags
from lakebed.server.s3.xml_writer import document, element


def get(request: S3Request) -> S3Reply:
    """Handle GetObjectTagging."""
    tags = tags_of(find(request).reserved)
    items = (element("Tag", element("Key", key), element("Value", tags[key])) for key in tags)
    return xml(document("Tagging", element("TagSet", *items)))


def put(request: S3Request) -> S3Reply:
    """Handle PutObjectTagging."""
    return _set(request, sent_tags(request))


def delete(request: S3Request) -> S3Reply:
    """Handle DeleteObjectTagging."""
    _set(request, {})
    return S3Reply(HTTPStatus.NO_CONTENT)


def _set(request: S3Request, tags: Mapping[str, str]) -> S3Reply:
    branch, path = request.ref_path
    request.authorize_object(Action.WRITE_OBJECT, path)
    request.services.catalog.copies.set_tags(request.repository, BranchID(branch), path, tags)
    return S3Reply()
