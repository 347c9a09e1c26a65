"""HeadBucket: whether a repository exists."""

from lakebed.auth import Action
from lakebed.server.s3.request import S3Reply, S3Request


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    request.authorize_repository(Action.READ_REPOSITORY)
    request.services.catalog.repositories.get(request.repository)
    return S3Reply(headers={"x-amz-bucket-region": request.services.settings.gateways.s3.region})
