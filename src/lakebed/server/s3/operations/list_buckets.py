"""ListBuckets: the repositories, all at once or in pages of ``max-buckets``."""

from itertools import islice
from typing import Final

from lakebed.auth import Action
from lakebed.auth.policy.actions import ALL
from lakebed.base.runtime import to_datetime
from lakebed.engine.model import Repository
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.listings import key_of, token_of
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import Markup, document, element, owner, timestamp

_BUCKETS_MAX: Final = 10_000


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    request.authorize(Action.LIST_REPOSITORIES, ALL)
    query = request.route.query
    amount = request.number("max-buckets")
    if amount is not None and not 1 <= amount <= _BUCKETS_MAX:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            f"max-buckets must be from 1 to {_BUCKETS_MAX}, not {amount}",
        )
    token = query.get("continuation-token")
    after = "" if token is None else key_of(token)
    found = request.services.catalog.repositories.list(prefix=query.get("prefix", ""), after=after)
    page = list(islice(found, amount))
    content = [
        owner(request.identity.user_id),
        element("Buckets", *(_bucket(repository) for repository in page)),
    ]
    if page and next(found, None) is not None:
        content.append(element("ContinuationToken", token_of(page[-1].id)))
    if "prefix" in query:
        content.append(element("Prefix", query["prefix"]))
    return xml(document("ListAllMyBucketsResult", *content))


def _bucket(repository: Repository) -> Markup:
    return element(
        "Bucket",
        element("Name", repository.id),
        element("CreationDate", timestamp(to_datetime(repository.created_us))),
    )
