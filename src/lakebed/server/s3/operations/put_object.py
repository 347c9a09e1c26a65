"""PutObject."""

from hashlib import md5
from typing import Final

from lakebed.auth import Action
from lakebed.catalog.model import DEFAULT_CONTENT_TYPE
from lakebed.catalog.nouns import BranchID
from lakebed.server.http.conditions import etag, write_condition
from lakebed.server.s3.call import Call, Reply
from lakebed.server.s3.metadata import metadata_of
from lakebed.server.s3.object_checksums import checksum_headers

_MD5_OF_NOTHING: Final = md5(usedforsecurity=False).hexdigest()


def handle(call: Call) -> Reply:
    """Answer the request."""
    branch, path = call.place
    call.authorize_object(Action.WRITE_OBJECT, path)
    if call.is_branch_itself:
        return _mark_branch(call, BranchID(branch))
    body = call.body()
    stored = call.services.catalog.uploads.upload(
        call.repository,
        BranchID(branch),
        path,
        body,
        content_type=call.header("Content-Type") or DEFAULT_CONTENT_TYPE,
        metadata=metadata_of(call),
        condition=write_condition(call.header("If-Match"), call.header("If-None-Match")),
        proof=body,
    )
    return Reply(headers={"ETag": etag(stored.checksum), **checksum_headers(body.proved())})


def _mark_branch(call: Call, branch: BranchID) -> Reply:
    """Some clients make a folder before they write to it; that of a branch is always there."""
    call.services.catalog.objects.check_writable(call.repository, branch)
    call.body().read(size_max=0)
    return Reply(headers={"ETag": etag(_MD5_OF_NOTHING)})
