"""Multipart uploads through the gateway, over restarts, cuts and repeats."""

import hashlib
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.kit.s3_gateway import Client, Gateway, start
from tests.kit.served import Servers, eventually
from tests.system.s3_kit import FIRST, LAKE, LAST, begin, code_of, complete, send

pytestmark = pytest.mark.extended


@pytest.fixture
def s3(gateway: Gateway) -> Client:
    return gateway.client()


def test_parts_become_an_object(s3: Client) -> None:
    upload = begin(s3, "main/parts ü", Metadata={"a": "b"}, ContentType="t/t")
    last, first = send(s3, upload, 9, LAST), send(s3, upload, 2, FIRST)
    listed = s3.list_parts(**upload, MaxParts=1)
    assert [part["PartNumber"] for part in listed["Parts"]] == [2]
    assert listed["IsTruncated"]
    rest = s3.list_parts(**upload, PartNumberMarker=listed["NextPartNumberMarker"])
    assert [(part["PartNumber"], part["Size"]) for part in rest["Parts"]] == [(9, 3)]
    etag = complete(s3, upload, first, last)
    inner = hashlib.md5(FIRST).digest() + hashlib.md5(LAST).digest()
    assert etag == f"{hashlib.md5(inner).hexdigest()}-2"
    found = s3.get_object(Bucket=LAKE, Key="main/parts ü")
    assert found["Body"].read() == FIRST + LAST
    assert (found["ETag"], found["Metadata"], found["ContentType"]) == (
        f'"{etag}"',
        {"a": "b"},
        "t/t",
    )
    # The reply was lost, and the client asks again.
    assert complete(s3, upload, first, last) == etag


def test_parts_and_completions_that_are_refused(s3: Client) -> None:
    upload = begin(s3, "main/refused")
    small, last = send(s3, upload, 1, b"small"), send(s3, upload, 2, LAST)
    for parts, code in [
        ([last, small], "InvalidPartOrder"),
        ([small, last], "EntityTooSmall"),
        ([{**small, "ETag": last["ETag"]}], "InvalidPart"),
    ]:
        with pytest.raises(ClientError) as caught:
            complete(s3, upload, *parts)
        assert code_of(caught) == code
    s3.abort_multipart_upload(**upload)
    for call in (
        lambda: send(s3, upload, 1, b"x"),
        lambda: complete(s3, upload, last),
        lambda: s3.list_parts(**upload),
        lambda: s3.abort_multipart_upload(**upload),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        assert code_of(caught) == "NoSuchUpload"


def test_conditions(s3: Client) -> None:
    upload = begin(s3, "main/once")
    part = send(s3, upload, 1, b"multipart")
    s3.put_object(Bucket=LAKE, Key="main/once", Body=b"there")
    with pytest.raises(ClientError) as caught:
        complete(s3, upload, part, IfNoneMatch="*")
    assert code_of(caught) == "PreconditionFailed"
    s3.delete_object(Bucket=LAKE, Key="main/once")
    with pytest.raises(ClientError) as caught:
        complete(s3, upload, part, IfMatch="other")
    assert code_of(caught) == "NoSuchKey"
    complete(s3, upload, part, IfNoneMatch="*")
    assert s3.get_object(Bucket=LAKE, Key="main/once")["Body"].read() == b"multipart"


def test_a_checksum_of_the_whole_object_is_not_one_of_the_body(s3: Client) -> None:
    upload = begin(s3, "main/whole", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    part = s3.upload_part(**upload, PartNumber=1, Body=LAST, ChecksumAlgorithm="CRC32")
    named = {"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}
    whole = {"ChecksumCRC32": part["ChecksumCRC32"], "ChecksumType": "FULL_OBJECT"}
    with pytest.raises(ClientError) as caught:
        complete(s3, upload, named, **whole, MpuObjectSize=len(LAST) + 1)
    assert code_of(caught) == "InvalidArgument"
    other = {**whole, "ChecksumCRC32": "AAAAAA=="}
    with pytest.raises(ClientError) as caught:
        complete(s3, upload, named, **other)
    assert code_of(caught) == "BadDigest"
    complete(s3, upload, named, **whole, MpuObjectSize=len(LAST))
    assert s3.get_object(Bucket=LAKE, Key="main/whole")["Body"].read() == LAST


def test_uploads_are_listed_in_order(s3: Client) -> None:
    uploads = [begin(s3, f"main/open/{name}") for name in ("b", "a", "c", "a")]
    expected = sorted((upload["Key"], upload["UploadId"]) for upload in uploads)
    found: list[tuple[str, str]] = []
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=LAKE, Prefix="main/open/", PaginationConfig={"PageSize": 3}
    )
    for page in pages:
        found += [(upload["Key"], upload["UploadId"]) for upload in page.get("Uploads", [])]
    assert found == expected
    for upload in uploads:
        s3.abort_multipart_upload(**upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=LAKE, Prefix="main/open/")


def test_parts_from_objects_and_from_some_of_their_bytes(s3: Client) -> None:
    source = os.urandom(6 << 20)
    s3.put_object(Bucket=LAKE, Key="main/source", Body=source)
    upload = begin(s3, "main/copied")
    copy = {"CopySource": {"Bucket": LAKE, "Key": "main/source"}}
    whole = s3.upload_part_copy(**upload, PartNumber=1, **copy)["CopyPartResult"]
    some = s3.upload_part_copy(**upload, PartNumber=2, **copy, CopySourceRange="bytes=10-19")[
        "CopyPartResult"
    ]
    with pytest.raises(ClientError) as caught:
        s3.upload_part_copy(**upload, PartNumber=3, **copy, CopySourceRange="bytes=10-99999999")
    assert code_of(caught) == "InvalidArgument"
    complete(
        s3,
        upload,
        {"PartNumber": 1, "ETag": whole["ETag"]},
        {"PartNumber": 2, "ETag": some["ETag"]},
    )
    found = s3.get_object(Bucket=LAKE, Key="main/copied")["Body"].read()
    assert found == source + source[10:20]


def test_a_large_file_in_parts_with_little_memory(
    gateway: Gateway, s3: Client, tmp_path: Path
) -> None:
    piece = os.urandom(8 << 20)
    file, back = tmp_path / "large", tmp_path / "back"
    with file.open("wb") as out:
        for _ in range(25):
            out.write(piece)
    s3.upload_file(str(file), LAKE, "main/200 MB", Config=TransferConfig(max_concurrency=4))
    found = s3.head_object(Bucket=LAKE, Key="main/200 MB")
    assert found["ContentLength"] == 25 * len(piece)
    assert found["ETag"] == f'"{hashlib.md5(hashlib.md5(piece).digest() * 25).hexdigest()}-25"'
    s3.download_file(LAKE, "main/200 MB", str(back))
    assert back.stat().st_size == file.stat().st_size
    with file.open("rb") as left, back.open("rb") as right:
        assert hashlib.file_digest(left, "sha256").digest() == (
            hashlib.file_digest(right, "sha256").digest()
        )
    largest = max(process.memory_info().rss for process in gateway.served.processes())
    assert largest < 400 << 20


@pytest.mark.timeout(300)  # two servers are started
def test_an_upload_outlives_the_server(servers: Servers) -> None:
    first = start(servers)
    upload = begin(first.client(), "main/outlives")
    part = send(first.client(), upload, 1, FIRST)
    family = first.served.processes()
    first.served.process.kill()
    first.served.process.wait()
    eventually(lambda: not any(process.is_running() for process in family))
    second = start(servers)
    s3 = second.client()
    assert [each["PartNumber"] for each in s3.list_parts(**upload)["Parts"]] == [1]
    complete(s3, upload, part, send(s3, upload, 2, LAST))
    assert s3.get_object(Bucket=LAKE, Key="main/outlives")["Body"].read() == FIRST + LAST


def signed(gateway: Gateway, method: str, url: str, body: bytes = b"") -> dict[str, str]:
    """Return the headers that sign a request."""
    request = AWSRequest(method, url, data=body)
    auth = S3SigV4Auth(Credentials(gateway.access_key, gateway.secret_key), "s3", gateway.region)
    auth.add_auth(request)
    return {**dict(request.headers.items()), "Host": urlsplit(url).netloc}


def test_a_client_that_goes_away_leaves_nothing(gateway: Gateway, s3: Client) -> None:
    path, body = f"/{LAKE}/main/cut", b"x" * 1_000_000
    headers = signed(gateway, "PUT", f"{gateway.url}{path}", body)
    headers["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", gateway.served.port)) as connection:
        connection.sendall(f"PUT {path} HTTP/1.1\r\n{head}\r\n".encode() + body[:-1])
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(30)
        answer = connection.recv(1000)
    assert not answer or b"IncompleteBody" in answer
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=LAKE, Key="main/cut")
    # The same request is accepted when it is whole: only the cut was refused.
    whole = httpx.put(f"{gateway.url}{path}", headers=headers, content=body, timeout=60)
    assert whole.status_code == 200, whole.text


def test_a_bucket_in_the_host(gateway: Gateway, s3: Client) -> None:
    s3.put_object(Bucket=LAKE, Key="main/by host", Body=b"virtual")
    host = f"{LAKE}.s3.local.lakefs.io"
    headers = signed(gateway, "GET", f"http://{host}/main/by%20host")
    answer = httpx.get(f"{gateway.url}/main/by%20host", headers=headers, timeout=60)
    assert (answer.status_code, answer.content) == (200, b"virtual")
    anonymous = httpx.get(f"{gateway.url}/main/by%20host", headers={"Host": host}, timeout=60)
    assert anonymous.status_code == 403
    assert "<Code>AccessDenied</Code>" in anonymous.text
