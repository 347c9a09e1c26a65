"""Pages of S3's listings: an incomplete page is an error, never a shorter listing."""

import pytest

from lakebed.block import Namespace, StorageUnavailable
from lakebed.block.drivers.s3.wire import parse_page

NAMESPACE = Namespace.parse("s3://bucket/folder")
SCHEMA = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
ENTRY = (
    "<Contents><Key>folder/a+b%20c</Key><Size>5</Size>"
    "<LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
)
WHOLE = f"<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{ENTRY}"


def result(body: str) -> bytes:
    return f"<ListBucketResult {SCHEMA}>{body}</ListBucketResult>".encode()


@pytest.mark.parametrize(
    "document",
    [
        result(WHOLE),
        result(WHOLE).replace(SCHEMA.encode(), b""),
        result(WHOLE.replace("false", "true") + "<NextContinuationToken>t</NextContinuationToken>"),
    ],
)
def test_a_page_is_read(document: bytes) -> None:
    page = parse_page(document, NAMESPACE)
    assert page.rows.column("address").to_pylist() == ["s3://bucket/folder/a b c"]
    assert page.rows.column("size").to_pylist() == [5]
    assert page.next_token == ("t" if b"true" in document else None)


def test_keys_are_decoded_only_if_they_were_encoded() -> None:
    document = result(WHOLE.replace("<EncodingType>url</EncodingType>", ""))
    page = parse_page(document, NAMESPACE)
    assert page.rows.column("address").to_pylist() == ["s3://bucket/folder/a+b%20c"]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html><body>Sign in to the network</body></html>",
        b"<Error><Code>InternalError</Code></Error>",
        b"<OtherListBucketResult><IsTruncated>false</IsTruncated></OtherListBucketResult>",
        result(WHOLE)[:-20],
        result(""),
        result(WHOLE.replace("false", "true")),
        result(WHOLE.replace("false", "maybe")),
        result(WHOLE.replace("<Key>folder/a+b%20c</Key>", "")),
        result(WHOLE.replace("folder/a+b%20c", "")),
        result(WHOLE.replace("%20", "%FF")),
        result(WHOLE.replace("<Size>5</Size>", "")),
        result(WHOLE.replace("<Size>5</Size>", "<Size>many</Size>")),
        result(WHOLE.replace("<Size>5</Size>", f"<Size>{1 << 63}</Size>")),
        result(WHOLE.replace("LastModified", "Modified")),
        result(WHOLE.replace("2026-01-02", "yesterday")),
    ],
)
def test_invalid_pages_are_refused(document: bytes) -> None:
    with pytest.raises(StorageUnavailable, match="invalid listing of s3://bucket/folder/"):
        parse_page(document, NAMESPACE)
