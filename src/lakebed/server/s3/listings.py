"""Parameters and elements shared by all list operations."""

from base64 import b64decode, urlsafe_b64encode
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
    """Parameters of a list request."""

    prefix: str
    delimiter: str
    amount: int
    is_encoded: bool
    """Whether keys are percent-encoded in the answer."""

    def text(self, key: str) -> str:
        """Return a key as written in the answer."""
        return url_encoded(key) if self.is_encoded else key

    def common_prefix(self, prefix: str) -> Markup:
        """Return the element of a common prefix."""
        return element("CommonPrefixes", element("Prefix", self.text(prefix)))

    def echo(self) -> list[Markup]:
        """Return the elements that repeat the given parameters."""
        content = [element("Prefix", self.text(self.prefix))]
        if self.delimiter:
            content.append(element("Delimiter", self.text(self.delimiter)))
        if self.is_encoded:
            content.append(element("EncodingType", "url"))
        return content


def contents(asked: ListingQuery, folder: str, page: ObjectPage, owned: Markup) -> Markup:
    """Return the elements of all objects of a page, built from whole columns.

    `folder` is the prefix of the keys before the paths of the page; `owned` is the element of the
    owner, if requested.
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
    """Return the parameters of a list request."""
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


def token_of(key: str) -> str:
    """Return the token of a page that begins after a key."""
    return urlsafe_b64encode(key.encode()).decode()


def key_of(token: str) -> str:
    """Return the key of a token; raises `S3Error` for other texts."""
    try:
        key = b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except ValueError:
        key = ""
    if not key:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            "invalid continuation-token; send the token of the previous answer",
        )
    return key
