"""PutObject."""

from hashlib import md5
from typing import Final

from lakebed.auth import Action
from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.engine.model import BranchID
from lakebed.lake.entry_metadata import for_tags
from lakebed.server.http.conditions import etag
from lakebed.server.s3.checksum_fields import object_headers
from lakebed.server.s3.metadata import metadata_of
from lakebed.server.s3.request import S3Reply, S3Request
from lakebed.server.s3.tagging import requested_tags

_MD5_OF_NOTHING: Final = md5(usedforsecurity=False).hexdigest()


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    branch, path = request.ref_path
    request.authorize_object(Action.WRITE_OBJECT, path)
    if request.is_branch_itself:
        return _accept_branch_folder(request, BranchID(branch))
    body = request.body()
    stored = request.services.catalog.uploads.upload(
        request.repository,
        BranchID(branch),
        path,
        body,
        content_type=request.header("Content-Type") or DEFAULT_CONTENT_TYPE,
        metadata={**metadata_of(request), **for_tags(requested_tags(request))},
        condition=request.write_condition,
        invocation=request.invocation,
        proof=body,
    )
    return S3Reply(
        headers={
            "ETag": etag(stored.checksum),
            **object_headers(body.verified()),
            **request.encryption_headers(stored),
        }
    )


def _accept_branch_folder(request: S3Request, branch: BranchID) -> S3Reply:
    """Accept the creation of a branch's folder, which always exists: some clients send it first."""
    request.services.catalog.objects.check_writable(request.repository, branch)
    request.body().read(size_max=0)
    return S3Reply(headers={"ETag": etag(_MD5_OF_NOTHING)})
