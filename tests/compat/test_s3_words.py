"""Old clients, and what clients of lakeFS expect of S3, against a real server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from lakebed.block import S3Settings
from lakebed.lake.places import parse_namespace
from lakebed.server.app import open_services
from lakebed.server.config_files import load
from tests.compat.s3_tools import PART_BYTES, AwsCli, Rclone
from tests.kit.object_stores import BUCKET
from tests.kit.s3_gateway import Client, Gateway
from tests.server.kit import ADMIN, REPOSITORY
from tests.server.s3.gateway_client import GatewayClient


@pytest.fixture(scope="module")
def old(gateway: Gateway) -> Client:
    """A client that signs by version 2, in headers."""
    return gateway.client(signature_version="s3")


def test_raw_utf_8_in_metadata_is_signed_and_kept(gateway: Gateway) -> None:
    url = f"{gateway.url}/{gateway.repository}/main/colour"
    request = AWSRequest("PUT", url, headers={"x-amz-meta-colour": "grün ✓"}, data=b"x")
    keys = Credentials(gateway.access_key, gateway.secret_key)
    S3SigV4Auth(keys, "s3", gateway.region).add_auth(request)
    raw = {name.encode(): value.encode() for name, value in request.headers.items()}
    answer = httpx.put(url, headers=raw, content=b"x", timeout=60)
    assert answer.status_code == 200, answer.text
    found = gateway.client().head_object(Bucket=gateway.repository, Key="main/colour")
    assert found["Metadata"]["colour"] == "=?utf-8?q?gr=C3=BCn_=E2=9C=93?="
    changed = {**raw, b"x-amz-meta-colour": "grau ✓".encode()}
    assert httpx.put(url, headers=changed, content=b"x", timeout=60).status_code == 403


def error_of(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error: Any = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_a_client_of_version_2_does_all_that_clients_do(gateway: Gateway, old: Client) -> None:
    bucket = gateway.repository
    signed: list[bytes] = []
    old.meta.events.register(
        "before-send.s3", lambda request, **_: signed.append(request.headers["Authorization"])
    )
    assert bucket in {each["Name"] for each in old.list_buckets()["Buckets"]}
    key = "main/old/a b+c=d*e~(ü)"
    old.put_object(
        Bucket=bucket, Key=key, Body=b"hello", Metadata={"a": "two  spaces"}, ContentType="text/x"
    )
    found = old.get_object(Bucket=bucket, Key=key, Range="bytes=1-3")
    assert (found["Body"].read(), found["Metadata"]) == (b"ell", {"a": "two  spaces"})
    assert old.head_object(Bucket=bucket, Key=key)["ContentType"] == "text/x"
    old.copy_object(Bucket=bucket, Key="main/old/copy", CopySource={"Bucket": bucket, "Key": key})
    large = bytes(range(256)) * (PART_BYTES // 256) + b"the last part"
    config = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
    old.upload_fileobj(BytesIO(large), bucket, "main/old/large", Config=config)
    assert old.get_object(Bucket=bucket, Key="main/old/large")["Body"].read() == large
    for listing in (old.list_objects, old.list_objects_v2):
        listed = listing(Bucket=bucket, Prefix="main/old/", Delimiter="/")["Contents"]
        assert [each["Key"] for each in listed] == [key, "main/old/copy", "main/old/large"]
    url = old.generate_presigned_url("get_object", {"Bucket": bucket, "Key": key})
    assert httpx.get(url, timeout=60).content == b"hello"
    doomed = [{"Key": each["Key"]} for each in listed]
    assert "Errors" not in old.delete_objects(Bucket=bucket, Delete={"Objects": doomed})
    assert {each.partition(b" ")[0] for each in signed} == {b"AWS"}


def test_rclone_copies_a_folder_by_version_2(gateway: Gateway, tmp_path: Path) -> None:
    tool = Rclone(
        gateway,
        RCLONE_CONFIG_LAKE_V2_AUTH="true",
        RCLONE_CONFIG_LAKE_ACCESS_KEY_ID=gateway.access_key,
        RCLONE_CONFIG_LAKE_SECRET_ACCESS_KEY=gateway.secret_key,
    )
    prefix, back = "main/rclone by 2", tmp_path / "back"
    files = {name: name.encode() for name in ["a b", "a+b=c", "100%", "ü/ö", "x&y;z", "(1)@$!*'~"]}
    files["large"] = bytes(PART_BYTES + 1)
    for name, content in files.items():
        file = tmp_path / "source" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    tool.upload(tmp_path / "source", prefix)
    tool.download(prefix, back)
    assert {name: (back / name).read_bytes() for name in files} == files
    tool.remove(prefix)
    assert "Contents" not in gateway.client().list_objects_v2(Bucket="lake", Prefix=f"{prefix}/")


def test_a_wrong_secret_of_version_2_is_refused(gateway: Gateway) -> None:
    wrong = Gateway(gateway.served, secret_key="wrong").client(signature_version="s3")
    with pytest.raises(ClientError) as caught:
        wrong.list_objects(Bucket=gateway.repository)
    assert error_of(caught)[0] == "SignatureDoesNotMatch"


def test_encoded_words_are_text_for_the_api(gateway: Gateway, old: Client) -> None:
    bucket, word = gateway.repository, "=?utf-8?q?gr=C3=BCn?="
    for client, key in ((old, "main/words/old"), (gateway.client(), "main/words/new")):
        client.put_object(Bucket=bucket, Key=key, Body=b"", Metadata={"colour": word})
        stat = httpx.get(
            f"{gateway.url}/api/v1/repositories/{bucket}/refs/main/objects/stat",
            params={"path": key.removeprefix("main/")},
            auth=(gateway.access_key, gateway.secret_key),
            timeout=60,
        ).json()
        assert stat["metadata"] == {"X-Amz-Meta-colour": "grün"}
        assert client.head_object(Bucket=bucket, Key=key)["Metadata"] == {"colour": word}


def test_a_bucket_is_made_by_the_command_line(gateway: Gateway) -> None:
    aws = AwsCli(gateway)
    assert "make_bucket: by-hand" in aws.run("aws", "s3", "mb", "s3://by-hand")
    assert "by-hand" in aws.run("aws", "s3", "ls")


def test_refusals_have_the_wording_of_lakefs(gateway: Gateway) -> None:
    s3, bucket = gateway.client(), gateway.repository
    key = {"Bucket": bucket, "Key": "main/words/there"}
    s3.put_object(**key, Body=b"there")
    not_supported = ("ERRLakeFSNotSupported", "This operation is not supported in LakeFS")
    calls: list[tuple[Any, dict[str, Any], tuple[str, str]]] = [
        (s3.put_bucket_policy, {"Bucket": bucket, "Policy": "{}"}, not_supported),
        (
            s3.put_object,
            {**key, "Body": b"", "IfNoneMatch": "other"},
            (
                "NotImplemented",
                "A header you provided implies functionality that is not implemented",
            ),
        ),
        (
            s3.get_object,
            {"Bucket": bucket, "Key": "nobranch/a"},
            ("NoSuchKey", "The specified key does not exist."),
        ),
        (
            s3.list_objects_v2,
            {"Bucket": "nowhere"},
            ("NoSuchBucket", "The specified bucket does not exist"),
        ),
    ]
    for call, arguments, expected in calls:
        with pytest.raises(ClientError) as caught:
            call(**arguments)
        assert error_of(caught) == expected


def test_an_endpoint_that_ends_as_the_apis_is_named(gateway: Gateway) -> None:
    class Mistaken(Gateway):
        url = f"{gateway.url}/api/v1"

    with pytest.raises(ClientError) as caught:
        Mistaken(gateway.served).client().list_objects_v2(Bucket="not-exists")
    assert error_of(caught)[0] == "ErrNoSuchBucketPossibleAPIEndpoint"


def test_a_presigned_url_of_local_storage_says_when_the_object_was_written(
    gateway: Gateway,
) -> None:
    gateway.client().put_object(Bucket=gateway.repository, Key="main/words/dated", Body=b"now")
    stat = httpx.get(
        f"{gateway.url}/api/v1/repositories/{gateway.repository}/refs/main/objects/stat",
        params={"path": "words/dated", "presign": True},
        auth=(gateway.access_key, gateway.secret_key),
        timeout=60,
    ).json()
    answer = httpx.get(stat["physical_address"], timeout=60)
    written = parsedate_to_datetime(answer.headers["last-modified"])
    assert 0 <= datetime.now(UTC).timestamp() - written.timestamp() < 60


@pytest.fixture
def on_s3(seaweedfs_settings: S3Settings) -> Iterator[GatewayClient]:
    """The gateway in this process, on a storage that signs URLs."""
    found = seaweedfs_settings
    settings = load(
        environment={},
        flags={
            "database.url": "memory://",
            "auth.secret_key": "0123456789abcdef0123456789abcdef",
            "blockstore.type": "s3",
            "blockstore.s3.endpoint": found.endpoint,
            "blockstore.s3.access_key_id": found.access_key_id,
            "blockstore.s3.secret_access_key": found.secret_access_key,
            "blockstore.s3.path_style": True,
        },
    )
    services = open_services(settings)
    try:
        services.auth.setup("admin", ADMIN)
        services.catalog.repositories.create(
            REPOSITORY, parse_namespace(f"s3://{BUCKET}/redirected"), committer="admin"
        )
        yield GatewayClient(services)
    finally:
        services.close()


def test_a_client_that_can_is_sent_to_the_storage(on_s3: GatewayClient) -> None:
    key, agent = f"/{REPOSITORY}/main/far", {"user-agent": "x s3RedirectionSupport y"}
    assert on_s3.ask("PUT", key, b"far away").status == 200
    etag = on_s3.ask("HEAD", key, headers=agent).headers["etag"]
    answer = on_s3.ask("GET", key, headers={**agent, "range": "bytes=0-2"})
    assert (answer.status, answer.body) == (307, b"")
    assert httpx.get(answer.headers["location"], timeout=60).content == b"far away"
    ranged = httpx.get(answer.headers["location"], headers={"Range": "bytes=0-2"}, timeout=60)
    assert (ranged.status_code, ranged.content) == (206, b"far")
    # Others are served, and so is what the storage does not know.
    assert on_s3.ask("GET", key).body == b"far away"
    assert on_s3.ask("GET", key, headers={**agent, "if-none-match": etag}).status == 304
    for query in ("response-content-type=text%2Fplain", "partNumber=1"):
        assert on_s3.ask("GET", f"{key}?{query}", headers=agent).body == b"far away"
    assert on_s3.ask("GET", f"{key}-not", headers=agent).code == "NoSuchKey"
    nobody = on_s3.user("nobody")
    assert on_s3.ask("GET", key, headers=agent, pair=nobody).code == "AccessDenied"
