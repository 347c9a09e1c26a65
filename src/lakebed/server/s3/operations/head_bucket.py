"""HeadBucket: whether a repository exists."""

from lakebed.auth import Action
from lakebed.server.s3.request import S3Reply, S3Request


def handle(call: S3Request) -> S3Reply:
    """Carry the operation out."""
    call.authorize_repository(Action.READ_REPOSITORY)
    call.services.catalog.repositories.get(call.repository)
    return S3Reply(headers={"x-amz-bucket-region": call.services.settings.gateways.s3.region})
