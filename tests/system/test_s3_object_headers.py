"""Headers kept with objects, parts of finished objects, and attributes, with boto3."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from tests.kit.s3_gateway import Client, Gateway
from tests.system.s3_kit import FIRST, LAKE, LAST, begin, code_of, complete, metadata_by_api, send

KEPT: dict[str, Any] = {
    "CacheControl": "max-age=60",
    "ContentDisposition": 'attachment; filename="a b.csv"',
    "ContentEncoding": "gzip",
    "ContentLanguage": "de, en",
    "Expires": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
}


@pytest.fixture
def s3(gateway: Gateway) -> Client:
    return gateway.client()


def kept(found: dict[str, Any]) -> dict[str, Any]:
    found["Expires"] = found.get("Expires")
    return {name: found[name] for name in KEPT if found.get(name) is not None}


def test_headers_stay_with_an_object(gateway: Gateway, s3: Client) -> None:
    where = {"Bucket": LAKE, "Key": "main/headers"}
    s3.put_object(**where, Body=b"x", Metadata={"my": "own"}, **KEPT)
    found = s3.get_object(**where)
    assert found["Body"].read() == b"x"
    assert kept(found) == KEPT
    assert kept(s3.head_object(**where)) == KEPT
    # Clients of the API see what the user set, and nothing else.
    assert metadata_by_api(gateway, "headers") == {"X-Amz-Meta-my": "own"}


def test_how_a_body_was_sent_is_not_how_an_object_is_encoded(s3: Client) -> None:
    where = {"Bucket": LAKE, "Key": "main/chunked"}
    s3.put_object(**where, Body=b"x", ChecksumAlgorithm="CRC32C", ContentEncoding="aws-chunked")
    assert "ContentEncoding" not in s3.head_object(**where)
    s3.put_object(**where, Body=b"x", ContentEncoding="aws-chunked, zstd")
    assert s3.head_object(**where)["ContentEncoding"] == "zstd"


def test_headers_that_are_too_long_are_refused(s3: Client) -> None:
    with pytest.raises(ClientError) as caught:
        s3.put_object(Bucket=LAKE, Key="main/never", CacheControl="x" * 2049)
    assert code_of(caught) == "MetadataTooLarge"


def test_a_copy_has_the_headers_or_new_ones(gateway: Gateway, s3: Client) -> None:
    s3.put_object(Bucket=LAKE, Key="main/original", Body=b"x", **KEPT)
    source = {"Bucket": LAKE, "Key": "main/original"}
    s3.copy_object(Bucket=LAKE, Key="main/copy", CopySource=source)
    assert kept(s3.head_object(Bucket=LAKE, Key="main/copy")) == KEPT
    s3.copy_object(
        Bucket=LAKE,
        Key="main/copy",
        CopySource=source,
        MetadataDirective="REPLACE",
        CacheControl="no-store",
    )
    assert kept(s3.head_object(Bucket=LAKE, Key="main/copy")) == {"CacheControl": "no-store"}
    # The API replaces the user's metadata only; the headers stay.
    answer = httpx.put(
        f"{gateway.url}/api/v1/repositories/lake/branches/main/objects/stat/user_metadata",
        params={"path": "original"},
        json={"set": {"by": "api"}},
        auth=(gateway.access_key, gateway.secret_key),
        timeout=60,
    )
    assert answer.is_success, answer.text
    assert metadata_by_api(gateway, "original") == {"by": "api"}
    assert kept(s3.head_object(Bucket=LAKE, Key="main/original")) == KEPT


def test_an_answer_has_the_headers_that_its_reader_asks_for(s3: Client) -> None:
    where = {"Bucket": LAKE, "Key": "main/overridden"}
    s3.put_object(**where, Body=b"x", **KEPT)
    asked = {
        "ResponseCacheControl": "no-cache",
        "ResponseContentDisposition": "inline",
        "ResponseContentEncoding": "br",
        "ResponseContentLanguage": "fr",
        "ResponseExpires": datetime(2031, 1, 2, tzinfo=UTC),
        "ResponseContentType": "text/plain",
    }
    found = s3.get_object(**where, **asked)
    assert {f"Response{name}": found[name] for name in [*KEPT, "ContentType"]} == asked


@pytest.fixture
def in_parts(s3: Client) -> dict[str, str]:
    upload = begin(s3, "main/in parts", **KEPT)
    parts = [send(s3, upload, 3, FIRST), send(s3, upload, 5, FIRST), send(s3, upload, 9, LAST)]
    complete(s3, upload, *parts)
    return {"Bucket": LAKE, "Key": "main/in parts"}


def test_parts_of_a_finished_object(s3: Client, in_parts: dict[str, str]) -> None:
    size = 2 * len(FIRST) + len(LAST)
    assert kept(s3.head_object(**in_parts)) == KEPT
    found = s3.get_object(**in_parts, PartNumber=3)
    assert found["Body"].read() == LAST
    assert (found["PartsCount"], found["ContentRange"]) == (
        3,
        f"bytes {size - 3}-{size - 1}/{size}",
    )
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert s3.head_object(**in_parts, PartNumber=1)["ContentLength"] == len(FIRST)
    assert s3.get_object(**in_parts, PartNumber=2)["Body"].read() == FIRST
    assert "PartsCount" not in s3.head_object(**in_parts)
    # A copy is the same bytes under the same ETag, with the same parts.
    s3.copy_object(
        Bucket=LAKE, Key="main/copied parts", CopySource=in_parts, MetadataDirective="REPLACE"
    )
    copied = {"Bucket": LAKE, "Key": "main/copied parts"}
    assert s3.get_object(**copied, PartNumber=3)["Body"].read() == LAST
    with pytest.raises(ClientError) as caught:
        s3.get_object(**in_parts, PartNumber=4)
    assert code_of(caught) == "InvalidPartNumber"
    with pytest.raises(ClientError) as caught:
        s3.get_object(**in_parts, PartNumber=1, Range="bytes=0-1")
    assert code_of(caught) == "InvalidRequest"


def test_an_object_in_one_piece_is_its_only_part(s3: Client) -> None:
    where = {"Bucket": LAKE, "Key": "main/one piece"}
    s3.put_object(**where, Body=b"piece")
    found = s3.get_object(**where, PartNumber=1)
    assert (found["Body"].read(), found["ContentRange"]) == (b"piece", "bytes 0-4/5")
    assert "PartsCount" not in found
    with pytest.raises(ClientError) as caught:
        s3.head_object(**where, PartNumber=2)
    assert code_of(caught) == "416"
    s3.put_object(**where, Body=b"")
    assert s3.get_object(**where, PartNumber=1)["Body"].read() == b""


def test_attributes(s3: Client, in_parts: dict[str, str]) -> None:
    names = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    found = s3.get_object_attributes(**in_parts, ObjectAttributes=names)
    etag = s3.head_object(**in_parts)["ETag"].strip('"')
    assert (found["ETag"], found["ObjectSize"]) == (etag, 2 * len(FIRST) + len(LAST))
    assert found["ObjectParts"]["TotalPartsCount"] == 3
    assert found["StorageClass"] == "STANDARD"
    assert found["LastModified"]
    alone = s3.get_object_attributes(**in_parts, ObjectAttributes=["ObjectSize"])
    assert "ETag" not in alone
    with pytest.raises(ClientError) as caught:
        s3.get_object_attributes(**in_parts, ObjectAttributes=["Colour"])
    assert code_of(caught) == "InvalidArgument"


def test_a_range_of_a_changed_object_returns_all_of_it(s3: Client) -> None:
    where = {"Bucket": LAKE, "Key": "main/if range"}
    etag = s3.put_object(**where, Body=b"0123456789")["ETag"]

    def asked(mark: str) -> bytes:
        def add(request: Any, **_: object) -> None:
            request.headers["If-Range"] = mark

        s3.meta.events.register("before-sign.s3.GetObject", add)
        try:
            body: bytes = s3.get_object(**where, Range="bytes=2-4")["Body"].read()
        finally:
            s3.meta.events.unregister("before-sign.s3.GetObject", add)
        return body

    modified = s3.head_object(**where)["ResponseMetadata"]["HTTPHeaders"]["last-modified"]
    assert asked(etag) == asked(modified) == b"234"
    assert asked('"other"') == asked("Wed, 01 Jan 2020 00:00:00 GMT") == b"0123456789"


def test_a_refused_range_shows_the_size(gateway: Gateway, s3: Client) -> None:
    where = {"Bucket": LAKE, "Key": "main/short"}
    s3.put_object(**where, Body=b"0123")
    url = s3.generate_presigned_url("get_object", Params=where)
    answer = httpx.get(url, headers={"Range": "bytes=4-"}, timeout=60)
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */4")


def test_uploads_are_listed_by_folders(s3: Client) -> None:
    keys = ["main/dl/a/1", "main/dl/a/2", "main/dl/b", "main/dl/c/1", "main/dl/d"]
    uploads = [begin(s3, key) for key in keys]
    shown: list[str] = []
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=LAKE, Prefix="main/dl/", Delimiter="/", PaginationConfig={"PageSize": 1}
    )
    for page in pages:
        shown += [each["Key"] for each in page.get("Uploads", [])]
        shown += [each["Prefix"] for each in page.get("CommonPrefixes", [])]
    assert shown == ["main/dl/a/", "main/dl/b", "main/dl/c/", "main/dl/d"]
    inside = s3.list_multipart_uploads(
        Bucket=LAKE, Prefix="main/dl/", Delimiter="/", KeyMarker="main/dl/a/1"
    )
    assert [each["Prefix"] for each in inside["CommonPrefixes"]] == ["main/dl/a/", "main/dl/c/"]
    for upload in uploads:
        s3.abort_multipart_upload(**upload)


def test_a_browser_saves_what_it_must_not_show(gateway: Gateway, s3: Client) -> None:
    where = {"Bucket": LAKE, "Key": "main/page"}
    s3.put_object(**where, Body=b"<script>", ContentType="text/plain")
    shown = s3.generate_presigned_url("get_object", Params=where)
    assert "Content-Disposition" not in httpx.get(shown, timeout=60).headers
    asked = {
        "ResponseContentType": "text/html",
        "ResponseContentDisposition": 'inline; filename="a.html"',
    }
    saved = httpx.get(
        s3.generate_presigned_url("get_object", Params={**where, **asked}), timeout=60
    )
    assert saved.headers["Content-Type"] == "text/html"
    assert saved.headers["Content-Disposition"] == 'attachment; filename="a.html"'
    assert saved.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert saved.headers["X-Content-Type-Options"] == "nosniff"
    assert saved.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    # What is stored is what programs see, which copy objects by what HEAD says.
    s3.put_object(**where, Body=b"<script>", ContentType="text/html")
    assert "ContentDisposition" not in s3.head_object(**where)
    assert s3.get_object(**where)["ContentDisposition"] == "attachment"
