"""CreateBucket: creates a repository, if a default storage namespace is configured."""

from lakebed.auth import Action
from lakebed.auth.policy.actions import namespace_arn
from lakebed.engine.model import check_repository_name
from lakebed.lake.errors import Deleting, NotUnique, RepositoryNotFound
from lakebed.lake.places import canonical_path, parse_namespace
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Reply, S3Request
from lakebed.server.s3.translation import as_s3_error
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_create_bucket


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    read_create_bucket(
        request.body().read(XML_BYTES_MAX) if request.header("Content-Length") else b""
    )
    request.authorize_repository(Action.CREATE_REPOSITORY)
    prefix = request.services.settings.blockstore.default_namespace_prefix
    if prefix is None:
        raise _no_default_namespace(request)
    name = check_repository_name(request.repository)
    namespace = f"{prefix}{'' if prefix.endswith('/') else '/'}{name}"
    place = parse_namespace(namespace)
    request.authorize(Action.ATTACH_STORAGE_NAMESPACE, namespace_arn(canonical_path(place)))
    request.services.catalog.repositories.create(
        request.repository, place, committer=request.identity.committer
    )
    return S3Reply(headers={"Location": f"/{request.repository}"})


def _no_default_namespace(request: S3Request) -> S3Error:
    """Return the error of a server without a default storage namespace."""
    try:
        request.services.catalog.repositories.get(request.repository)
    except (RepositoryNotFound, Deleting):
        return S3Error(
            ErrorCode.NOT_IMPLEMENTED,
            "cannot create a repository by S3, because blockstore.default_namespace_prefix is not"
            " set; create the repository by the API",
        )
    return as_s3_error(NotUnique.repository(request.repository))
