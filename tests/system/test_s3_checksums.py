"""The checksum of an object from its upload to its reader, with boto3."""

import hashlib
from base64 import b64encode
from pathlib import Path

import pytest
from botocore.exceptions import FlexibleChecksumError

from tests.kit.s3_gateway import Client, Gateway
from tests.system.s3_kit import (
    LAKE,
    ask_api,
    checksums,
    damage,
    kept,
    metadata_by_api,
    of_crc32,
    where,
)

BODY = b"from one end to the other"


@pytest.fixture
def s3(gateway: Gateway) -> Client:
    return gateway.client()


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_a_checksum_stays_with_its_object(gateway: Gateway, s3: Client, algorithm: str) -> None:
    name = f"with {algorithm}"
    answer = s3.put_object(**where(name), Body=BODY, ChecksumAlgorithm=algorithm)
    expected = {
        f"Checksum{algorithm}": answer[f"Checksum{algorithm}"],
        "ChecksumType": "FULL_OBJECT",
    }
    assert checksums(answer) == expected
    assert kept(s3, name) == expected
    found = s3.get_object(**where(name))
    assert checksums(found) == expected
    assert found["Body"].read() == BODY
    attributes = s3.get_object_attributes(**where(name), ObjectAttributes=["Checksum"])
    assert attributes["Checksum"] == expected
    # Only those who ask see it, only for the whole object, and not as the user's metadata.
    silent = gateway.client(response_checksum_validation="when_required")
    assert checksums(silent.get_object(**where(name))) == {}
    assert checksums(silent.head_object(**where(name))) == {}
    assert checksums(s3.get_object(**where(name), Range="bytes=0-3")) == {}
    assert metadata_by_api(gateway, name) == {}


def test_the_values_are_those_of_the_bytes(s3: Client) -> None:
    s3.put_object(**where("default"), Body=BODY)
    assert kept(s3, "default") == of_crc32(BODY)
    digest = b64encode(hashlib.sha256(BODY).digest()).decode()
    s3.put_object(**where("given"), Body=BODY, ChecksumSHA256=digest)
    assert kept(s3, "given") == {"ChecksumSHA256": digest, "ChecksumType": "FULL_OBJECT"}


def test_an_object_without_a_checksum_has_none(gateway: Gateway, s3: Client) -> None:
    silent = gateway.client(request_checksum_calculation="when_required")
    silent.put_object(**where("without"), Body=BODY)
    assert kept(s3, "without") == {}
    assert s3.get_object(**where("without"))["Body"].read() == BODY
    asked = s3.get_object_attributes(**where("without"), ObjectAttributes=["Checksum", "ETag"])
    assert "Checksum" not in asked


def test_readers_notice_damage_on_the_disk(gateway: Gateway, s3: Client, tmp_path: Path) -> None:
    for name, body in (("small", BODY), ("large", BODY * 10_000)):
        s3.put_object(**where(name), Body=body)
        assert s3.get_object(**where(name))["Body"].read() == body
        damage(gateway, name)
        with pytest.raises(FlexibleChecksumError):
            s3.get_object(**where(name))["Body"].read()
        with pytest.raises(FlexibleChecksumError):
            s3.download_file(LAKE, f"main/{name}", str(tmp_path / name))
        assert not (tmp_path / name).exists()


def test_a_copy_has_the_checksum_of_its_bytes(gateway: Gateway, s3: Client) -> None:
    s3.put_object(**where("source"), Body=BODY)
    ask_api(gateway, "POST", "branches", json={"name": "aside", "source": "main"})
    for key in ("main/shared", "aside/own"):
        answer = s3.copy_object(Bucket=LAKE, Key=key, CopySource=where("source"))
        assert checksums(answer["CopyObjectResult"]) == of_crc32(BODY)
        found = s3.get_object(Bucket=LAKE, Key=key)
        assert (checksums(found), found["Body"].read()) == (of_crc32(BODY), BODY)
    s3.copy_object(
        **where("source"),
        CopySource=where("source"),
        MetadataDirective="REPLACE",
        Metadata={"new": "one"},
    )
    assert kept(s3, "source") == of_crc32(BODY)
    copied = {"src_path": "source", "force": True}
    ask_api(gateway, "POST", "branches/main/objects/copy?dest_path=by%20api", json=copied)
    assert kept(s3, "by api") == of_crc32(BODY)


def test_new_metadata_keeps_the_checksum(gateway: Gateway, s3: Client) -> None:
    s3.put_object(**where("told of"), Body=BODY)
    path = "branches/main/objects/stat/user_metadata?path=told%20of"
    ask_api(gateway, "PUT", path, json={"set": {"a": "b"}})
    assert kept(s3, "told of") == of_crc32(BODY)
    assert metadata_by_api(gateway, "told of") == {"a": "b"}


def test_the_same_bytes_with_another_checksum_are_not_a_change(
    gateway: Gateway, s3: Client
) -> None:
    s3.put_object(**where("again"), Body=BODY)
    ask_api(gateway, "POST", "branches/main/commits", json={"message": "with CRC32"})
    assert kept(s3, "again") == of_crc32(BODY)
    for again in ({"ChecksumAlgorithm": "SHA256"}, {"ChecksumAlgorithm": "CRC32"}):
        s3.put_object(**where("again"), Body=BODY, **again)
        assert f"Checksum{again['ChecksumAlgorithm']}" in kept(s3, "again")
        assert ask_api(gateway, "GET", "branches/main/diff").json()["results"] == []
        assert s3.get_object(**where("again"))["Body"].read() == BODY
    # Other bytes get a checksum of their own.
    s3.put_object(**where("again"), Body=b"other")
    assert kept(s3, "again") == of_crc32(b"other")
    ask_api(gateway, "POST", "branches/main/commits", json={"message": "other bytes"})
    assert kept(s3, "again") == of_crc32(b"other")
