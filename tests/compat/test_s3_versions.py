"""Versions from commits, as clients list and read them."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
import pytest
import s3fs
from botocore.exceptions import ClientError

from tests.compat.s3_tools import AwsCli, Mc, Rclone
from tests.kit.s3_gateway import Gateway

FOLDER = "main/versions"
KEY = f"{FOLDER}/day.txt"


@dataclass
class Versions:
    """A server with an object of two commits and an uncommitted change."""

    gateway: Gateway
    ids: list[str]
    between: datetime
    """A time between the commits."""


@pytest.fixture(scope="module")
def versions(gateway: Gateway) -> Versions:
    s3 = gateway.client()
    ids: list[str] = []
    for text in ["mon", "tue"]:
        s3.put_object(Bucket="lake", Key=KEY, Body=text.encode())
        s3.put_object(Bucket="lake", Key=f"{FOLDER}/removed in {text}", Body=b"x")
        if text == "tue":
            s3.delete_object(Bucket="lake", Key=f"{FOLDER}/removed in mon")
        answer = httpx.post(
            f"{gateway.url}/api/v1/repositories/lake/branches/main/commits",
            json={"message": text, "date": 1_700_000_000 + 1000 * len(ids)},
            auth=(gateway.access_key, gateway.secret_key),
            timeout=60,
        )
        ids.append(answer.json()["id"])
    s3.put_object(Bucket="lake", Key=KEY, Body=b"wed!")
    return Versions(gateway, ids, datetime.fromtimestamp(1_700_000_500, UTC))


def test_boto3(versions: Versions) -> None:
    s3 = versions.gateway.client()
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket="lake", Prefix=KEY, PaginationConfig={"PageSize": 1}
    )
    found = [item for page in pages for item in page["Versions"]]
    assert [item["VersionId"] for item in found] == ["null", *versions.ids[::-1]]
    assert [item["IsLatest"] for item in found] == [True, False, False]
    texts = [
        s3.get_object(Bucket="lake", Key=KEY, VersionId=item["VersionId"])["Body"].read()
        for item in found
    ]
    assert texts == [b"wed!", b"tue", b"mon"]
    markers = s3.list_object_versions(Bucket="lake", Prefix=f"{FOLDER}/")["DeleteMarkers"]
    assert [each["Key"] for each in markers] == [f"{FOLDER}/removed in mon"]
    source = {"Bucket": "lake", "Key": KEY, "VersionId": versions.ids[0]}
    s3.copy(source, "lake", "main/restored")
    assert s3.get_object(Bucket="lake", Key="main/restored")["Body"].read() == b"mon"
    url = s3.generate_presigned_url(
        "get_object", Params={"Bucket": "lake", "Key": KEY, "VersionId": versions.ids[0]}
    )
    assert httpx.get(url, timeout=60).content == b"mon"
    for version_id, code in [(versions.ids[0], "MethodNotAllowed"), ("x", "MethodNotAllowed")]:
        with pytest.raises(ClientError) as caught:
            s3.delete_object(Bucket="lake", Key=KEY, VersionId=version_id)
        assert caught.value.response["Error"]["Code"] == code
    # What empties a bucket with versions.
    import boto3

    resource = boto3.resource(
        "s3",
        endpoint_url=versions.gateway.url,
        aws_access_key_id=versions.gateway.access_key,
        aws_secret_access_key=versions.gateway.secret_key,
        region_name=versions.gateway.region,
    )
    with pytest.raises(ClientError, match="MethodNotAllowed"):
        resource.Bucket("lake").object_versions.filter(Prefix=KEY).delete()
    assert s3.get_object(Bucket="lake", Key=KEY)["Body"].read() == b"wed!"


def test_aws_cli(versions: Versions) -> None:
    aws = AwsCli(versions.gateway)
    where = ["--bucket", "lake", "--prefix", KEY]
    found = json.loads(aws.run("aws", "s3api", "list-object-versions", *where, "--output=json"))
    assert [item["VersionId"] for item in found["Versions"]] == ["null", *versions.ids[::-1]]
    where = ["--bucket", "lake", "--key", KEY, "--version-id", versions.ids[0]]
    head = json.loads(aws.run("aws", "s3api", "head-object", *where, "--output=json"))
    assert (head["VersionId"], head["ContentLength"]) == (versions.ids[0], 3)


def test_s3fs(versions: Versions) -> None:
    gateway = versions.gateway
    fs = s3fs.S3FileSystem(
        key=gateway.access_key,
        secret=gateway.secret_key,
        endpoint_url=gateway.url,
        client_kwargs={"region_name": gateway.region},
        version_aware=True,
        skip_instance_cache=True,
    )
    path = f"lake/{KEY}"
    ids = [each["VersionId"] for each in fs.object_version_info(path)]
    assert ids == ["null", *versions.ids[::-1]]
    assert fs.cat_file(path, version_id=versions.ids[0]) == b"mon"
    with fs.open(path, version_id=versions.ids[1]) as file:
        assert file.read() == b"tue"
    assert fs.cat_file(f"{path}?versionId={versions.ids[0]}") == b"mon"
    with fs.open(path) as file:
        assert file.read() == b"wed!"
    # Listings are of versions too; only the latest are shown.
    assert fs.ls(f"lake/{FOLDER}") == [path, f"lake/{FOLDER}/removed in tue"]
    assert len(fs.ls(f"lake/{FOLDER}", versions=True)) == 5
    written = f"lake/{FOLDER}/new/file"
    with fs.open(written, "wb") as file:
        file.write(b"new")
    assert fs.cat_file(written) == b"new"
    fs.rm(f"lake/{FOLDER}/new", recursive=True)
    assert not fs.exists(written)
    assert not fs.is_bucket_versioned("lake")


def test_rclone(versions: Versions) -> None:
    rclone = Rclone(versions.gateway)
    place = f"lake:lake/{FOLDER}"
    names = rclone.rclone("lsf", "--s3-versions", place).splitlines()
    assert len(names) == 5
    old = [name for name in names if name.startswith("day-v2023-11-14")]
    assert len(old) == 2
    texts = {rclone.rclone("cat", "--s3-versions", f"{place}/{name}") for name in old}
    assert texts == {"mon", "tue"}
    at = f"--s3-version-at={versions.between.isoformat()}"
    assert rclone.rclone("lsf", at, place).splitlines() == ["day.txt", "removed in mon"]
    assert rclone.rclone("cat", at, f"{place}/day.txt") == "mon"
    with pytest.raises(AssertionError, match="MethodNotAllowed"):
        rclone.rclone("deletefile", "--s3-versions", f"{place}/{old[0]}")
    # A purge deletes objects, not versions.
    versions.gateway.client().put_object(Bucket="lake", Key=f"{FOLDER}/new/file", Body=b"new")
    rclone.rclone("purge", f"{place}/new")
    assert rclone.rclone("lsf", place).splitlines() == ["day.txt", "removed in tue"]


@pytest.mark.extended
def test_mc(versions: Versions) -> None:
    mc = Mc(versions.gateway)
    place, name = f"lake/lake/{FOLDER}/", f"lake/lake/{KEY}"
    rows = [line.split() for line in mc.mc("ls", "--versions", place).splitlines()]
    listed = [row[-4:] for row in rows if row[-1] == "day.txt"]
    expected = ["null", *versions.ids[::-1]]
    numbers = ["v3", "v2", "v1"]
    assert listed == [
        [version_id, number, "PUT", "day.txt"]
        for version_id, number in zip(expected, numbers, strict=True)
    ]
    assert mc.mc("cat", "--version-id", versions.ids[0], name) == "mon"
    at = versions.between.strftime("%Y.%m.%dT%H:%M")
    assert mc.mc("cat", "--rewind", at, name) == "mon"
    with pytest.raises(AssertionError, match="Versions are commits"):
        mc.mc("rm", "--versions", "--force", name)
    assert mc.mc("cat", name) == "wed!"
