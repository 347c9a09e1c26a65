"""HeadBucket: whether there is such a repository."""

from lakebed.auth import Action
from lakebed.server.s3.call import Call, Reply


def handle(call: Call) -> Reply:
    """Answer the request."""
    call.authorize_repository(Action.READ_REPOSITORY)
    call.services.catalog.repositories.get(call.repository)
    return Reply(headers={"x-amz-bucket-region": call.services.settings.gateways.s3.region})
