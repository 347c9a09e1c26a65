"""Checksums of objects in parts, with boto3."""

import hashlib
import os
import zlib
from base64 import b64encode
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError, FlexibleChecksumError

from lakebed.lake.checksums import ALGORITHMS
from tests.kit.s3_gateway import Client, Gateway
from tests.system.s3_kit import (
    FIRST,
    LAKE,
    LAST,
    begin,
    checksums,
    code_of,
    complete,
    damage,
    kept,
    of_crc32,
    where,
)

COMPOSITE = ["CRC32", "CRC32C", "SHA1", "SHA256"]
FULL = ["CRC32", "CRC32C", "CRC64NVME"]


@pytest.fixture
def s3(gateway: Gateway) -> Client:
    return gateway.client(retries={"total_max_attempts": 1})  # it repeats what is a BadDigest


def digest(algorithm: str, data: bytes) -> bytes:
    """Return the checksum computed from all bytes."""
    found = ALGORITHMS[algorithm.lower()]()
    found.update(data)
    return found.digest()


def text(data: bytes) -> str:
    return b64encode(data).decode()


def send(
    s3: Client, upload: dict[str, str], number: int, body: bytes, algorithm: str
) -> dict[str, Any]:
    part = s3.upload_part(**upload, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
    assert part[f"Checksum{algorithm}"] == text(digest(algorithm, body))
    return {"PartNumber": number, "ETag": part["ETag"], **checksums(part)}


def refused(s3: Client, upload: dict[str, str], *parts: dict[str, Any], **options: Any) -> str:
    """Return the code that completing an upload is refused with; the upload stays open."""
    with pytest.raises(ClientError) as caught:
        complete(s3, upload, *parts, **options)
    with pytest.raises(ClientError) as missing:
        s3.head_object(Bucket=LAKE, Key=upload["Key"])
    assert code_of(missing) == "404"
    return code_of(caught)


@pytest.mark.parametrize("algorithm", COMPOSITE)
def test_a_composite_checksum(s3: Client, algorithm: str) -> None:
    name = f"composite {algorithm}"
    created = s3.create_multipart_upload(**where(name), ChecksumAlgorithm=algorithm)
    assert checksums(created) == {"ChecksumAlgorithm": algorithm, "ChecksumType": "COMPOSITE"}
    upload = {**where(name), "UploadId": created["UploadId"]}
    parts = [send(s3, upload, 1, FIRST, algorithm), send(s3, upload, 2, LAST, algorithm)]
    listed = s3.list_parts(**upload)
    assert [part[f"Checksum{algorithm}"] for part in listed["Parts"]] == [
        part[f"Checksum{algorithm}"] for part in parts
    ]
    assert checksums(listed) == checksums(created)
    inner = digest(algorithm, FIRST) + digest(algorithm, LAST)
    value = f"{text(digest(algorithm, inner))}-2"
    wrong = f"{text(digest(algorithm, b'wrong'))}-2"
    assert refused(s3, upload, *parts, **{f"Checksum{algorithm}": wrong}) == "BadDigest"
    answer = s3.complete_multipart_upload(
        **upload, MultipartUpload={"Parts": parts}, **{f"Checksum{algorithm}": value}
    )
    expected = {f"Checksum{algorithm}": value, "ChecksumType": "COMPOSITE"}
    assert checksums(answer) == expected
    assert kept(s3, name) == expected
    found = s3.get_object(**where(name))
    assert (checksums(found), found["Body"].read()) == (expected, FIRST + LAST)
    attributes = s3.get_object_attributes(**where(name), ObjectAttributes=["Checksum"])
    assert attributes["Checksum"] == expected
    assert checksums(s3.get_object(**where(name), PartNumber=2)) == {}


@pytest.mark.parametrize("algorithm", FULL)
def test_a_full_object_checksum(gateway: Gateway, s3: Client, algorithm: str) -> None:
    name = f"full {algorithm}"
    upload = begin(s3, f"main/{name}", ChecksumAlgorithm=algorithm, ChecksumType="FULL_OBJECT")
    parts = [send(s3, upload, 1, FIRST, algorithm), send(s3, upload, 2, LAST, algorithm)]
    whole = {f"Checksum{algorithm}": text(digest(algorithm, FIRST + LAST))}
    of_a_part = {f"Checksum{algorithm}": parts[0][f"Checksum{algorithm}"]}
    for options, code in (
        (of_a_part, "BadDigest"),
        ({**whole, "ChecksumType": "COMPOSITE"}, "BadDigest"),
        ({"ChecksumSHA256": text(digest("SHA256", FIRST + LAST))}, "InvalidRequest"),
    ):
        assert refused(s3, upload, *parts, **options) == code
    swapped = {**parts[1], **of_a_part}
    assert refused(s3, upload, parts[0], swapped, **whole) == "InvalidPart"
    answer = s3.complete_multipart_upload(
        **upload, MultipartUpload={"Parts": parts}, **whole, ChecksumType="FULL_OBJECT"
    )
    expected = {**whole, "ChecksumType": "FULL_OBJECT"}
    assert checksums(answer) == expected
    assert kept(s3, name) == expected
    assert s3.get_object(**where(name))["Body"].read() == FIRST + LAST
    damage(gateway, name)
    with pytest.raises(FlexibleChecksumError):
        s3.get_object(**where(name))["Body"].read()


@pytest.mark.parametrize(
    "options",
    [
        {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "COMPOSITE"},
        {"ChecksumAlgorithm": "SHA256", "ChecksumType": "FULL_OBJECT"},
        {"ChecksumAlgorithm": "CRC16"},
        {"ChecksumAlgorithm": "CRC32", "ChecksumType": "HALF"},
        {"ChecksumType": "HALF"},
    ],
)
def test_schemes_that_do_not_exist_are_refused(s3: Client, options: dict[str, str]) -> None:
    with pytest.raises(ClientError) as caught:
        begin(s3, "main/never", **options)
    assert code_of(caught) == "InvalidRequest"


def test_an_open_upload_shows_its_scheme(s3: Client) -> None:
    upload = begin(s3, "main/told/1", ChecksumAlgorithm="CRC64NVME")
    (listed,) = s3.list_multipart_uploads(Bucket=LAKE, Prefix="main/told/")["Uploads"]
    assert checksums(listed) == {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "FULL_OBJECT"}
    s3.abort_multipart_upload(**upload)


def test_a_missing_checksum_of_a_part_is_computed(gateway: Gateway, s3: Client) -> None:
    silent = gateway.client(request_checksum_calculation="when_required")
    upload = begin(s3, "main/computed", ChecksumAlgorithm="SHA256")
    s3.put_object(Bucket=LAKE, Key="main/to copy", Body=FIRST)
    copied = s3.upload_part_copy(
        **upload, PartNumber=1, CopySource={"Bucket": LAKE, "Key": "main/to copy"}
    )["CopyPartResult"]
    assert copied["ChecksumSHA256"] == text(hashlib.sha256(FIRST).digest())
    without = silent.upload_part(**upload, PartNumber=2, Body=FIRST)
    assert without["ChecksumSHA256"] == copied["ChecksumSHA256"]
    other = s3.upload_part(**upload, PartNumber=3, Body=LAST, ChecksumAlgorithm="CRC32")
    assert other["ChecksumCRC32"] == of_crc32(LAST)["ChecksumCRC32"]
    parts = [
        {"PartNumber": number, "ETag": part["ETag"]}
        for number, part in enumerate((copied, without, other), 1)
    ]
    complete(s3, upload, *parts)
    inner = b"".join(hashlib.sha256(body).digest() for body in (FIRST, FIRST, LAST))
    assert kept(s3, "computed")["ChecksumSHA256"] == f"{text(hashlib.sha256(inner).digest())}-3"


def test_a_part_with_a_wrong_checksum_is_not_stored(s3: Client) -> None:
    upload = begin(s3, "main/bad part", ChecksumAlgorithm="CRC32")
    with pytest.raises(ClientError) as caught:
        s3.upload_part(**upload, PartNumber=1, Body=LAST, ChecksumCRC32="AAAAAA==")
    assert code_of(caught) == "BadDigest"
    assert "Parts" not in s3.list_parts(**upload)


def test_a_large_file_as_boto3_sends_it(s3: Client, tmp_path: Any) -> None:
    data = os.urandom(20 << 20)
    file = tmp_path / "large"
    file.write_bytes(data)
    config = TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=8 << 20)
    s3.upload_file(str(file), LAKE, "main/large", Config=config)
    bodies = [data[start : start + (8 << 20)] for start in range(0, len(data), 8 << 20)]
    inner = b"".join(zlib.crc32(body).to_bytes(4, "big") for body in bodies)
    assert kept(s3, "large") == {
        "ChecksumCRC32": f"{text(zlib.crc32(inner).to_bytes(4, 'big'))}-3",
        "ChecksumType": "COMPOSITE",
    }
    # A client may know the checksum of all bytes beforehand.
    whole = text(digest("CRC64NVME", data))
    extra = {"ChecksumCRC64NVME": whole}
    s3.upload_file(str(file), LAKE, "main/large", Config=config, ExtraArgs=extra)
    assert kept(s3, "large") == {**extra, "ChecksumType": "FULL_OBJECT"}
    assert s3.get_object(**where("large"))["Body"].read() == data
    wrong = {"ChecksumCRC64NVME": text(bytes(8))}
    with pytest.raises(Exception, match="BadDigest"):
        s3.upload_file(str(file), LAKE, "main/refused", Config=config, ExtraArgs=wrong)
