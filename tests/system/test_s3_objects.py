"""The gateway with boto3 as it comes, against a real server."""

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from tests.kit.s3_gateway import Client, Gateway

LAKE = "lake"
SPIKY = ["a b", "a+b", "100%", "%41", "ü/ö", "a//b", "a/./b", "a/../b", "x/", "quote\"'<&>", "a\nb"]


@pytest.fixture
def s3(gateway: Gateway) -> Client:
    return gateway.client()


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    code: str = caught.value.response["Error"]["Code"]
    return code


def put(s3: Client, key: str, body: bytes = b"data") -> str:
    etag: str = s3.put_object(Bucket=LAKE, Key=key, Body=body)["ETag"]
    return etag.strip('"')


def get(s3: Client, key: str) -> bytes:
    body: bytes = s3.get_object(Bucket=LAKE, Key=key)["Body"].read()
    return body


@pytest.mark.parametrize("path", [*SPIKY, "k" * 1024])
def test_any_key_comes_back(s3: Client, path: str) -> None:
    body = path.encode() * 3
    assert put(s3, f"main/keys/{path}"[:1029], body) == hashlib.md5(body).hexdigest()
    key = f"main/keys/{path}"[:1029]
    assert get(s3, key) == body
    listed = s3.list_objects_v2(Bucket=LAKE, Prefix=key)["Contents"]
    assert [item["Key"] for item in listed if item["Key"] == key] == [key]
    s3.copy_object(Bucket=LAKE, Key="main/copy", CopySource={"Bucket": LAKE, "Key": key})
    assert get(s3, "main/copy") == body
    deleted = s3.delete_objects(Bucket=LAKE, Delete={"Objects": [{"Key": key}]})
    assert [item["Key"] for item in deleted["Deleted"]] == [key]
    with pytest.raises(s3.exceptions.NoSuchKey):
        get(s3, key)


def test_a_key_that_is_too_long_is_refused(s3: Client) -> None:
    with pytest.raises(ClientError) as caught:
        put(s3, f"main/{'k' * 1025}")
    assert code_of(caught) == "KeyTooLongError"


def test_metadata_and_content_type_come_back(s3: Client) -> None:
    s3.put_object(
        Bucket=LAKE, Key="main/meta", Body=b"x", ContentType="text/x", Metadata={"Some-Name": "v 1"}
    )
    found = s3.head_object(Bucket=LAKE, Key="main/meta")
    assert found["Metadata"] == {"some-name": "v 1"}
    assert found["ContentType"] == "text/x"
    assert found["ContentLength"] == 1
    copied = {"Bucket": LAKE, "Key": "main/meta"}
    s3.copy_object(Bucket=LAKE, Key="main/same", CopySource=copied)
    s3.copy_object(
        Bucket=LAKE,
        Key="main/other",
        CopySource=copied,
        MetadataDirective="REPLACE",
        Metadata={"new": "2"},
        ContentType="text/y",
    )
    same = s3.head_object(Bucket=LAKE, Key="main/same")
    other = s3.head_object(Bucket=LAKE, Key="main/other")
    assert (same["Metadata"], same["ContentType"]) == ({"some-name": "v 1"}, "text/x")
    assert (other["Metadata"], other["ContentType"]) == ({"new": "2"}, "text/y")
    with pytest.raises(ClientError) as caught:
        s3.put_object(Bucket=LAKE, Key="main/meta", Metadata={"a": "x" * 2048})
    assert code_of(caught) == "MetadataTooLarge"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums_are_echoed(s3: Client, algorithm: str) -> None:
    answer = s3.put_object(
        Bucket=LAKE,
        Key="main/summed",
        Body=b"123456789",
        ChecksumAlgorithm=algorithm,
    )
    assert answer[f"Checksum{algorithm}"]


def test_ranges(s3: Client) -> None:
    put(s3, "main/range", b"0123456789")

    def part(text: str) -> tuple[bytes, str]:
        found = s3.get_object(Bucket=LAKE, Key="main/range", Range=text)
        return found["Body"].read(), found["ContentRange"]

    assert part("bytes=2-4") == (b"234", "bytes 2-4/10")
    assert part("bytes=-3") == (b"789", "bytes 7-9/10")
    assert part("bytes=8-") == (b"89", "bytes 8-9/10")
    with pytest.raises(ClientError) as caught:
        part("bytes=10-")
    assert code_of(caught) == "InvalidRange"


def test_conditions_of_reads(s3: Client) -> None:
    etag = put(s3, "main/read", b"1")
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    where = {"Bucket": LAKE, "Key": "main/read"}
    assert s3.get_object(**where, IfMatch=etag)["Body"].read() == b"1"
    assert s3.get_object(**where, IfModifiedSince=now - hour)["Body"].read() == b"1"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"IfMatch": '"other"'}, "PreconditionFailed"),
        ({"IfNoneMatch": etag}, "304"),
        ({"IfModifiedSince": now + hour}, "304"),
        ({"IfUnmodifiedSince": now - hour}, "PreconditionFailed"),
    ]
    for condition, code in cases:
        with pytest.raises(ClientError) as caught:
            s3.get_object(**where, **condition)
        assert code_of(caught) == code
    # The connection can still be used.
    assert get(s3, "main/read") == b"1"


def test_conditions_of_writes(s3: Client) -> None:
    key = "main/written"
    s3.put_object(Bucket=LAKE, Key=key, Body=b"1", IfNoneMatch="*")
    etag = hashlib.md5(b"1").hexdigest()
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": "other"}):
        with pytest.raises(ClientError) as caught:
            s3.put_object(Bucket=LAKE, Key=key, Body=b"2", **condition)
        assert code_of(caught) == "PreconditionFailed"
        # The body was refused before it was sent; the server must read what follows as a request.
        assert get(s3, key) == b"1"
    s3.put_object(Bucket=LAKE, Key=key, Body=b"2", IfMatch=etag)
    assert get(s3, key) == b"2"
    # A condition on an object that does not exist is refused as such.
    s3.delete_object(Bucket=LAKE, Key=key)
    source = {"Bucket": LAKE, "Key": "main/to copy"}
    s3.put_object(**source, Body=b"3")
    for write, what in ((s3.put_object, {"Body": b"3"}), (s3.copy_object, {"CopySource": source})):
        with pytest.raises(ClientError) as caught:
            write(Bucket=LAKE, Key=key, IfMatch=etag, **what)
        assert code_of(caught) == "NoSuchKey"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_conditions_of_copies(s3: Client) -> None:
    etag = put(s3, "main/source", b"1")
    source = {"Bucket": LAKE, "Key": "main/source"}
    s3.copy_object(Bucket=LAKE, Key="main/copied", CopySource=source, CopySourceIfMatch=etag)
    with pytest.raises(ClientError) as caught:
        s3.copy_object(
            Bucket=LAKE, Key="main/copied", CopySource=source, CopySourceIfNoneMatch=etag
        )
    assert code_of(caught) == "PreconditionFailed"


def test_pages_of_a_listing(s3: Client) -> None:
    keys = [f"main/pages/{number:03d}" for number in range(25)]
    for key in [*keys, "main/pages/dir/a", "main/pages/dir/b"]:
        put(s3, key)
    for call in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(call).paginate(
            Bucket=LAKE, Prefix="main/pages/", Delimiter="/", PaginationConfig={"PageSize": 10}
        )
        found = list(pages)
        assert len(found) == 3
        assert [item["Key"] for page in found for item in page.get("Contents", [])] == keys
        prefixes = [item["Prefix"] for page in found for item in page.get("CommonPrefixes", [])]
        assert prefixes == ["main/pages/dir/"]
    after = s3.list_objects_v2(Bucket=LAKE, Prefix="main/pages/", StartAfter="main/pages/023")
    assert [item["Key"] for item in after["Contents"]][:1] == ["main/pages/024"]
    assert "Contents" not in s3.list_objects_v2(Bucket=LAKE, Prefix="main/pages/", StartAfter="z")
    assert s3.list_objects_v2(Bucket=LAKE, Prefix="main/pages/", MaxKeys=0)["KeyCount"] == 0


def test_branches_are_folders(s3: Client) -> None:
    found = s3.list_objects_v2(Bucket=LAKE, Delimiter="/")
    assert [item["Prefix"] for item in found["CommonPrefixes"]] == ["main/"]
    assert "CommonPrefixes" not in s3.list_objects_v2(Bucket=LAKE, Prefix="other")


def test_missing_objects_branches_and_buckets(s3: Client) -> None:
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: get(s3, "main/nothing"), "NoSuchKey"),
        (lambda: get(s3, "main/"), "NoSuchKey"),
        (lambda: get(s3, "nobranch/a"), "NoSuchKey"),
        (lambda: s3.head_object(Bucket=LAKE, Key="main/nothing"), "404"),
        (lambda: s3.get_object(Bucket="nowhere", Key="main/a"), "NoSuchBucket"),
        (lambda: put(s3, "nobranch/a"), "NoSuchBucket"),
        (lambda: s3.list_objects_v2(Bucket=LAKE, Prefix="nobranch/"), "NoSuchBucket"),
        (lambda: s3.head_bucket(Bucket="nowhere"), "404"),
    ]
    for call, code in calls:
        with pytest.raises(ClientError) as caught:
            call()
        assert code_of(caught) == code


def test_deleting_a_missing_object_succeeds(s3: Client) -> None:
    s3.delete_object(Bucket=LAKE, Key="main/never")
    keys = [{"Key": "main/never"}, {"Key": "nobranch/a"}]
    answer = s3.delete_objects(Bucket=LAKE, Delete={"Objects": keys})
    assert [item["Key"] for item in answer["Deleted"]] == ["main/never"]
    assert [(item["Key"], item["Code"]) for item in answer["Errors"]] == [
        ("nobranch/a", "NoSuchBucket")
    ]


def test_buckets_are_repositories(s3: Client) -> None:
    s3.create_bucket(Bucket="made-by-s3")
    assert {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]} >= {LAKE, "made-by-s3"}
    s3.head_bucket(Bucket="made-by-s3")
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: s3.create_bucket(Bucket="made-by-s3"), "BucketAlreadyExists"),
        (lambda: s3.delete_bucket(Bucket="made-by-s3"), "ERRLakeFSNotSupported"),
        (lambda: s3.get_bucket_policy(Bucket=LAKE), "NoSuchBucketPolicy"),
        (lambda: s3.put_bucket_policy(Bucket=LAKE, Policy="{}"), "ERRLakeFSNotSupported"),
    ]
    for call, code in calls:
        with pytest.raises(ClientError) as caught:
            call()
        assert code_of(caught) == code
    assert s3.get_bucket_location(Bucket=LAKE)["LocationConstraint"] is None
    assert "Status" not in s3.get_bucket_versioning(Bucket=LAKE)
    assert s3.get_bucket_acl(Bucket=LAKE)["Grants"]
    put(s3, "main/probed")
    assert s3.get_object_tagging(Bucket=LAKE, Key="main/probed")["TagSet"] == []


@pytest.mark.parametrize("version", ["s3v4", None])
def test_presigned_urls(gateway: Gateway, version: str | None) -> None:
    s3 = gateway.client(signature_version=version)
    where = {"Bucket": LAKE, "Key": f"main/pre signed+ü {version}"}
    to_put = s3.generate_presigned_url("put_object", Params=where, ExpiresIn=60)
    assert httpx.put(to_put, content=b"by url", timeout=60).status_code == 200
    to_get = s3.generate_presigned_url(
        "get_object", Params={**where, "ResponseContentType": "text/plain"}, ExpiresIn=60
    )
    answer = httpx.get(to_get, timeout=60)
    assert (answer.content, answer.headers["content-type"]) == (b"by url", "text/plain")
    assert httpx.get(to_get.replace("main/", "main/x"), timeout=60).status_code == 403
    assert httpx.put(to_get, content=b"other", timeout=60).status_code == 403
    assert get(s3, where["Key"]) == b"by url"


def test_a_wrong_secret_stores_nothing(gateway: Gateway, s3: Client) -> None:
    thief = Gateway(gateway.served, secret_key="guessed").client()
    with pytest.raises(ClientError) as caught:
        put(thief, "main/stolen")
    assert code_of(caught) == "SignatureDoesNotMatch"
    stranger = Gateway(gateway.served, access_key="AKIANOBODY").client()
    with pytest.raises(ClientError) as caught:
        put(stranger, "main/stolen")
    assert code_of(caught) == "InvalidAccessKeyId"
    with pytest.raises(s3.exceptions.NoSuchKey):
        get(s3, "main/stolen")


def test_a_large_object_in_one_piece(s3: Client) -> None:
    body = os.urandom(24 << 20)
    assert put(s3, "main/large", body) == hashlib.md5(body).hexdigest()
    assert get(s3, "main/large") == body
