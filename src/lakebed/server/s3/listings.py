"""What requests for a list ask for, and what their answers have in common."""

from dataclasses import dataclass

import pyarrow as pa

from lakebed.lake.object_pages import ObjectPage
from lakebed.server.http.text_columns import joined, rows_of, texts_of
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Request
from lakebed.server.s3.xml_writer import (
    Markup,
    element,
    escaped,
    escaped_column,
    timestamp_column,
    url_encoded,
    url_encoded_column,
)


@dataclass(frozen=True, slots=True)
class ListingQuery:
    """What a request for a list of keys asks for."""

    prefix: str
    delimiter: str
    amount: int
    """How many items at most."""
    is_encoded: bool
    """Whether the answer is to hold keys percent-encoded."""

    def text(self, key: str) -> str:
        """Return a key as the answer holds it."""
        return url_encoded(key) if self.is_encoded else key

    def common_prefix(self, prefix: str) -> Markup:
        """Return the element for all keys that begin with a prefix."""
        return element("CommonPrefixes", element("Prefix", self.text(prefix)))

    def echo(self) -> list[Markup]:
        """Return the elements that repeat what was asked for, as far as it was."""
        content = [element("Prefix", self.text(self.prefix))]
        if self.delimiter:
            content.append(element("Delimiter", self.text(self.delimiter)))
        if self.is_encoded:
            content.append(element("EncodingType", "url"))
        return content


def contents(asked: ListingQuery, folder: str, page: ObjectPage, owned: Markup) -> Markup:
    """Return the elements of all objects of a page, made of whole columns.

    Args:
        asked: What the request asks for.
        folder: What the keys of the bucket begin with; the page has what follows.
        page: The objects.
        owned: The element that names the owner, if each object is to have one.
    """
    keys = texts_of(page.column("key"))
    rows = rows_of(
        f"<Contents><Key>{escaped(asked.text(folder))}",
        url_encoded_column(keys) if asked.is_encoded else escaped_column(keys),
        "</Key><LastModified>",
        timestamp_column(page.column("mtime")),
        '</LastModified><ETag>"',
        escaped_column(page.etags()),
        '"</ETag><Size>',
        page.column("size").cast(pa.string()),
        f"</Size><StorageClass>STANDARD</StorageClass>{owned}</Contents>",
    )
    return Markup(joined(rows).decode())


def read_listing_query(request: S3Request, amount_parameter: str, amount_max: int) -> ListingQuery:
    """Return what a request for a list asks for.

    Raises:
        S3Error: `INVALID_ARGUMENT`: a parameter is not one of the values that it can have.
    """
    query = request.route.query
    encoding = query.get("encoding-type")
    if encoding not in {None, "url"}:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT, f'encoding-type must be "url", not "{encoding[:100]}"'
        )
    return ListingQuery(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        amount=request.amount(amount_parameter, amount_max),
        is_encoded=encoding == "url",
    )
