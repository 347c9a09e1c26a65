"""CreateBucket: makes a repository, where the server knows a place for its data."""

from lakebed.auth import Action
from lakebed.auth.policy.actions import namespace_arn
from lakebed.catalog.errors import Deleting, RepositoryNotFound
from lakebed.server.s3.call import Call, Reply
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_create_bucket


def handle(call: Call) -> Reply:
    """Answer the request."""
    read_create_bucket(call.body().read(XML_BYTES_MAX) if call.header("Content-Length") else b"")
    call.authorize_repository(Action.CREATE_REPOSITORY)
    prefix = call.services.settings.blockstore.default_namespace_prefix
    if prefix is None:
        raise _no_place(call)
    name = f"{prefix.rstrip('/')}/{call.repository}"
    call.authorize(Action.ATTACH_STORAGE_NAMESPACE, namespace_arn(name))
    call.services.catalog.repositories.create(
        call.repository, name, committer=call.identity.committer
    )
    return Reply(headers={"Location": f"/{call.repository}"})


def _no_place(call: Call) -> S3Error:
    """What to say where the server has no place for new repositories."""
    try:
        call.services.catalog.repositories.get(call.repository)
    except (RepositoryNotFound, Deleting):
        return S3Error(
            ErrorCode.NOT_IMPLEMENTED,
            "the server has no place for new repositories (blockstore.default_namespace_prefix):"
            " create this one by the API, with a storage namespace",
        )
    return S3Error(ErrorCode.BUCKET_ALREADY_EXISTS)
