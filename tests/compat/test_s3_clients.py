"""Clients that people have, as they come, against a real server."""

import hashlib
import os
from pathlib import Path

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import fs as arrow_fs

from tests.compat.s3_tools import TOOLS, AwsCli, Tool
from tests.kit.rounds import rounds
from tests.kit.s3_gateway import Gateway

SMALL_FILES = rounds(100, long=1000)
LARGE_BYTES = rounds(12, long=200) << 20
SPIKY = ["a b", "a+b", "100%", "%41", "ü/ö", "x&y=z;", "quote'", "~tilde", "dir/a,b", "(1)@$!"]


@pytest.fixture(params=TOOLS)
def name(request: pytest.FixtureRequest) -> str:
    """Of a client."""
    found: str = request.param
    return found


@pytest.fixture
def tool(name: str, gateway: Gateway) -> Tool:
    return TOOLS[name](gateway)


def digests(folder: Path) -> dict[str, str]:
    found = {}
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            found[str(file.relative_to(folder))] = digest
    return found


def make(folder: Path, name: str, content: bytes) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def keys_below(gateway: Gateway, prefix: str) -> list[str]:
    found = gateway.client().list_objects_v2(Bucket=gateway.repository, Prefix=f"{prefix}/")
    return [item["Key"] for item in found.get("Contents", []) if not item["Key"].endswith("/")]


def test_a_folder_goes_there_and_back(tool: Tool, gateway: Gateway, tmp_path: Path) -> None:
    prefix = f"main/tools/{type(tool).__name__}"
    source, back = tmp_path / "source", tmp_path / "back"
    back.mkdir()
    for spiky in SPIKY:
        make(source, spiky, spiky.encode())
    # A key as long as keys can be.
    longest = 1024 - len(prefix.removeprefix("main/")) - len("/")
    parts = ["k" * 200] * 4
    parts.append("k" * (longest - len("/".join(parts)) - 1))
    make(source, "/".join(parts), b"long")
    for number in range(SMALL_FILES):
        make(source, f"small/{number:04d}", f"content {number}".encode())
    make(source, "empty", b"")
    with (source / "large").open("wb") as file:
        for _ in range(LARGE_BYTES >> 20):
            file.write(os.urandom(1 << 20))

    tool.upload(source, prefix)
    tool.download(prefix, back)
    assert digests(back) == digests(source)
    assert len(gateway.client().list_objects_v2(Bucket="lake", Prefix=f"{prefix}/")["Contents"])
    tool.remove(prefix)
    assert keys_below(gateway, prefix) == []


@pytest.mark.parametrize("key", ["main/twice//a", "main//begins", "main/ends//"])
@pytest.mark.parametrize("name", ["aws-cli", "boto3", "minio", "s3fs"], indirect=True)
def test_keys_without_names_between_slashes(
    tool: Tool, gateway: Gateway, tmp_path: Path, key: str
) -> None:
    """Of those clients that can send them: the others take such a key for another."""
    content = f"{type(tool).__name__} {key}".encode()
    make(tmp_path, "file", content)
    tool.upload_file(tmp_path / "file", key)
    assert tool.read(key) == content
    listed = gateway.client().list_objects_v2(Bucket="lake", Prefix=key)["Contents"]
    assert [item["Key"] for item in listed] == [key]


def test_aws_cli_lists_and_presigns(gateway: Gateway, tmp_path: Path) -> None:
    aws = AwsCli(gateway)
    make(tmp_path, "two words", b"hello")
    aws.run("aws", "s3", "cp", "--quiet", f"{tmp_path}/two words", "s3://lake/main/cli/two words")
    assert "PRE main/" in aws.run("aws", "s3", "ls", "s3://lake/")
    assert "5 two words" in aws.run("aws", "s3", "ls", "s3://lake/main/cli/")
    # This client still signs URLs in the way of version 2, if nobody tells it otherwise.
    url = aws.run("aws", "s3", "presign", "s3://lake/main/cli/two words")
    assert "AWSAccessKeyId" in url
    answer = httpx.get(url.strip(), timeout=60)
    assert (answer.status_code, answer.content) == (200, b"hello")


def test_a_partitioned_dataset_is_read_back_from_a_commit(gateway: Gateway) -> None:
    storage = arrow_fs.S3FileSystem(
        access_key=gateway.access_key,
        secret_key=gateway.secret_key,
        endpoint_override=gateway.url,
        region=gateway.region,
    )
    frame = pd.DataFrame({"day": ["mon", "tue"] * 500, "value": range(1000)})
    options = {
        "key": gateway.access_key,
        "secret": gateway.secret_key,
        "endpoint_url": gateway.url,
    }
    frame.to_parquet("s3://lake/main/days", partition_cols=["day"], storage_options=options)
    commit = httpx.post(
        f"{gateway.url}/api/v1/repositories/lake/branches/main/commits",
        json={"message": "days"},
        auth=(gateway.access_key, gateway.secret_key),
        timeout=60,
    ).json()["id"]
    storage.delete_dir("lake/main/days")
    table = ds.dataset(f"lake/{commit}/days", filesystem=storage, partitioning="hive").to_table()
    again = table.to_pandas().sort_values("value")
    assert again["value"].tolist() == list(range(1000))
    assert set(again["day"]) == {"mon", "tue"}
    assert isinstance(table, pa.Table)
    # What is committed is not written to.
    with pytest.raises(OSError, match="The specified bucket does not exist"):
        storage.open_output_stream(f"lake/{commit}/new").close()
