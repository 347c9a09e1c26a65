"""ListBuckets: the repositories."""

from lakebed.auth import Action
from lakebed.auth.policy.actions import ALL
from lakebed.base.runtime import to_datetime
from lakebed.engine.model import Repository
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import Markup, document, element, owner, timestamp


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    request.authorize(Action.LIST_REPOSITORIES, ALL)
    found = request.services.catalog.repositories.list(prefix=request.route.query.get("prefix", ""))
    buckets = [_bucket(repository) for repository in found]
    return xml(
        document(
            "ListAllMyBucketsResult",
            owner(request.identity.user_id),
            element("Buckets", *buckets),
        )
    )


def _bucket(repository: Repository) -> Markup:
    return element(
        "Bucket",
        element("Name", repository.id),
        element("CreationDate", timestamp(to_datetime(repository.created_us))),
    )
