"""ListObjects and ListObjectsV2.

A prefix without a slash matches branch names: the answer lists branches, as common prefixes. In a
prefix with a slash, the first part is a ref: the answer lists its objects.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from lakebed.auth import Action
from lakebed.engine.committed.listing import EntryQuery
from lakebed.lake.object_pages import ObjectPage
from lakebed.server.s3.listings import (
    ListingQuery,
    contents,
    key_of,
    read_listing_query,
    token_of,
)
from lakebed.server.s3.request import S3Reply, S3Request, ref_path_of, xml
from lakebed.server.s3.xml_writer import Markup, boolean, document, element, owner

KEYS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list."""

    last: str
    """The key after which the next page begins."""
    prefixes: list[str]
    """Common prefixes, with the ref."""
    has_more: bool = False
    folder: str = ""
    """The ref and a slash, the prefix of all keys."""
    objects: ObjectPage | None = None
    """The objects with their paths in the ref, or None for a list of branches."""

    def __len__(self) -> int:
        return len(self.prefixes) if self.objects is None else len(self.objects)


def handle(request: S3Request) -> S3Reply:
    """Handle ListObjects."""
    asked = read_listing_query(request, "max-keys", KEYS_MAX)
    marker = request.route.query.get("marker", "")
    listing = _list(request, asked, marker)
    content = [*_echo(request, asked, listing), element("Marker", asked.text(marker))]
    if listing.has_more:
        content.append(element("NextMarker", asked.text(listing.last)))
    content += _items(asked, listing, owner_id=request.identity.user_id)
    return xml(document("ListBucketResult", *content))


def handle_v2(request: S3Request) -> S3Reply:
    """Handle ListObjectsV2."""
    asked = read_listing_query(request, "max-keys", KEYS_MAX)
    query = request.route.query
    token, start_after = query.get("continuation-token"), query.get("start-after", "")
    listing = _list(request, asked, start_after if token is None else key_of(token))
    content = [*_echo(request, asked, listing), element("KeyCount", len(listing))]
    if token is not None:
        content.append(element("ContinuationToken", token))
    if start_after:
        content.append(element("StartAfter", asked.text(start_after)))
    if listing.has_more:
        content.append(element("NextContinuationToken", token_of(listing.last)))
    owner_id = request.identity.user_id if query.get("fetch-owner") == "true" else None
    content += _items(asked, listing, owner_id=owner_id)
    return xml(document("ListBucketResult", *content))


def _list(request: S3Request, asked: ListingQuery, after: str) -> Listing:
    if "/" not in asked.prefix:
        return list_branches(request, asked, after)
    request.authorize_repository(Action.LIST_OBJECTS)
    ref, prefix = ref_path_of(asked.prefix)
    folder = f"{ref}/"
    if after > folder and not after.startswith(folder):
        return Listing("", [])  # all keys of this ref precede `after`
    query = EntryQuery(
        prefix=prefix,
        after=after.removeprefix(folder).encode() if after.startswith(folder) else b"",
        delimiter=asked.delimiter.encode(),
        amount=asked.amount,
    )
    page = request.services.catalog.objects.list_objects(request.repository, ref, query)
    return Listing(
        last=folder + _text(page.last),
        prefixes=[folder + _text(each.key) for each in page.folded],
        has_more=page.has_more and bool(len(page)),
        folder=folder,
        objects=page,
    )


def _text(key: bytes) -> str:
    return key.decode(errors="replace")


def list_branches(request: S3Request, asked: ListingQuery, after: str) -> Listing:
    """Return a page of branches, as common prefixes, for a prefix without a slash."""
    request.authorize_repository(Action.LIST_BRANCHES)
    branches = request.services.catalog.refs.list_branches(
        request.repository, prefix=asked.prefix, after=after.partition("/")[0]
    )
    names = (branch.id for branch in branches)
    found = [f"{name}/" for name in islice(names, asked.amount + 1)]
    shown = found[: asked.amount]
    has_more = len(found) > asked.amount and bool(shown)
    return Listing(shown[-1] if shown else "", shown, has_more=has_more)


def _echo(request: S3Request, asked: ListingQuery, listing: Listing) -> list[Markup]:
    """Return the elements before the items, common to both versions."""
    return [
        element("Name", request.route.bucket),
        *asked.echo(),
        element("MaxKeys", asked.amount),
        element("IsTruncated", boolean(listing.has_more)),
    ]


def _items(asked: ListingQuery, listing: Listing, *, owner_id: str | None) -> list[Markup]:
    """Return the objects, with their owner if given, and the common prefixes."""
    prefixes = [asked.common_prefix(prefix) for prefix in listing.prefixes]
    if listing.objects is None:
        return prefixes
    owned = owner(owner_id) if owner_id else Markup()
    return [contents(asked, listing.folder, listing.objects, owned), *prefixes]
