"""Clients that people have, as they come, against a real server."""

import hashlib
import json
import os
import shlex
from itertools import pairwise
from pathlib import Path

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import fs as arrow_fs

from tests.compat.s3_tools import CLIENTS, EXTENDED_TOOLS, TOOLS, AwsCli, Mc, S3cmd, Tool
from tests.kit.rounds import rounds
from tests.kit.s3_gateway import Gateway

SMALL_FILES = rounds(100, long=1000)
LARGE_BYTES = rounds(12, long=200) << 20
SPIKY = ["a b", "a+b", "100%", "%41", "ü/ö", "x&y=z;", "quote'", "~tilde", "dir/a,b", "(1)@$!"]


@pytest.fixture(
    params=[
        *TOOLS,
        *(pytest.param(name, marks=pytest.mark.extended) for name in EXTENDED_TOOLS),
    ]
)
def name(request: pytest.FixtureRequest) -> str:
    """Of a client."""
    found: str = request.param
    return found


@pytest.fixture
def tool(name: str, gateway: Gateway) -> Tool:
    return {**TOOLS, **EXTENDED_TOOLS}[name](gateway)


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
    longest = tool.key_bytes_max - len(prefix) - len("/")
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


def test_s3cmd_copies_moves_and_modifies(gateway: Gateway, tmp_path: Path) -> None:
    """After a copy, s3cmd copies the ACL of the source."""
    tool, folder = S3cmd(gateway), "s3://lake/main/s3cmd"
    make(tmp_path, "file", b"hello")
    tool.s3cmd("put", f"{tmp_path}/file", f"{folder}/a")
    tool.s3cmd("cp", f"{folder}/a", f"{folder}/b")
    tool.s3cmd("mv", f"{folder}/b", f"{folder}/c")
    tool.s3cmd("modify", "--add-header=x-amz-meta-colour: blue", f"{folder}/c")
    tool.s3cmd("setacl", "--acl-private", f"{folder}/c")
    assert keys_below(gateway, "main/s3cmd") == ["main/s3cmd/a", "main/s3cmd/c"]
    found = gateway.client().get_object(Bucket="lake", Key="main/s3cmd/c")
    assert found["Body"].read() == b"hello"
    assert found["Metadata"]["colour"] == "blue"
    with pytest.raises(AssertionError, match=r"405 \(ERRLakeFSNotSupported\)"):
        tool.s3cmd("setacl", "--acl-public", f"{folder}/c")


@pytest.mark.extended
@pytest.mark.parametrize("size", [3, 6 << 20, 40 << 20])
def test_mc_uploads_a_stream_of_unknown_length(gateway: Gateway, tmp_path: Path, size: int) -> None:
    """The SDK for Go ends the upload with a composite checksum without the number of parts."""
    content = os.urandom(size)
    make(tmp_path, "file", content)
    Mc(gateway).mc("pipe", f"lake/lake/main/piped-{size}", stdin=f"{tmp_path}/file")
    found = gateway.client().get_object(Bucket="lake", Key=f"main/piped-{size}")
    assert found["Body"].read() == content


@pytest.mark.extended
@pytest.mark.parametrize("algorithm", ["CRC32C", "CRC32", "SHA256", "CRC64NVME"])
def test_mc_copies_with_a_checksum(gateway: Gateway, tmp_path: Path, algorithm: str) -> None:
    content = os.urandom(70 << 20)
    make(tmp_path, "large", content)
    target = f"lake/lake/main/mc/{algorithm}"
    Mc(gateway).mc("cp", "--checksum", algorithm, f"{tmp_path}/large", target)
    found = gateway.client().get_object(Bucket="lake", Key=f"main/mc/{algorithm}")
    assert found["Body"].read() == content


@pytest.mark.extended
def test_mc_sets_tags_and_shares_uploads(gateway: Gateway, tmp_path: Path) -> None:
    tool = Mc(gateway)
    make(tmp_path, "file", b"hello")
    tool.mc("cp", "--tags", "team=data&level=1", f"{tmp_path}/file", "lake/lake/main/tagged")
    tool.mc("tag", "set", "lake/lake/main/tagged", "team=lake")
    assert "lake" in tool.mc("tag", "list", "lake/lake/main/tagged")
    tool.mc("tag", "remove", "lake/lake/main/tagged")
    assert tool.mc("event", "list", "lake/lake") == ""
    # A command of curl with the fields of a form.
    shared = tool.mc("--json", "share", "upload", "lake/lake/main/shared")
    words = shlex.split(json.loads(shared)["share"].replace("<FILE>", str(tmp_path / "file")))
    fields = [word for before, word in pairwise(words) if before == "-F"]
    pairs = dict(field.split("=", 1) for field in fields)
    assert pairs.pop("file") == f"@{tmp_path}/file"
    url = next(word for word in words if word.startswith("http"))
    with (tmp_path / "file").open("rb") as file:
        answer = httpx.post(url, data=pairs, files={"file": file}, timeout=60)
    assert answer.status_code == 204, answer.text
    found = gateway.client().get_object(Bucket="lake", Key="main/shared")
    assert found["Body"].read() == b"hello"


@pytest.mark.extended
def test_restic_backs_up_and_restores(gateway: Gateway, tmp_path: Path) -> None:
    for number in range(20):
        make(tmp_path / "source", f"folder/{number}", os.urandom(number * 100_000))

    def restic(*arguments: str) -> str:
        return Mc(gateway).run(
            CLIENTS / "restic",
            f"--repo=s3:{gateway.url}/lake/main/restic",
            f"--cache-dir={tmp_path}/cache",
            "--option=s3.bucket-lookup=path",
            *arguments,
            RESTIC_PASSWORD="secret",
        )

    restic("init")
    restic("backup", f"{tmp_path}/source")
    make(tmp_path / "source", "folder/1", b"changed")
    restic("backup", f"{tmp_path}/source")
    restic("forget", "--keep-last=1", "--prune")
    restic("check", "--read-data")
    restic("restore", "latest", f"--target={tmp_path}/back")
    back = tmp_path / "back" / str(tmp_path / "source").lstrip("/")
    assert digests(back) == digests(tmp_path / "source")


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
