"""Encryption by the storage: every write requests it, and answers show it where it is true."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import (
    Address,
    Between,
    Encryption,
    InvalidArgument,
    Namespace,
    Part,
    S3Settings,
    open_block,
)
from lakebed.block.drivers.s3 import store as s3_store
from lakebed.block.drivers.s3.store import S3BlockStore
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.places import parse_namespace
from lakebed.lake.tasks import run_inline
from lakebed.server.app import open_services
from lakebed.server.config_files import load
from tests.kit.object_stores import BUCKET, client_of
from tests.server.kit import ADMIN
from tests.server.s3.gateway_client import Answer, GatewayClient

REPOSITORY, MAIN = RepositoryID("lake"), BranchID("main")
KEY = "arn:aws:kms:us-east-1:111122223333:key/0a1b"
HEADER = "x-amz-server-side-encryption"
KEY_HEADER = f"{HEADER}-aws-kms-key-id"
PART = 5 << 20

OURS = Encryption("aws:kms", KEY)
AES = Encryption("AES256")


def encrypted(settings: S3Settings, encryption: Encryption) -> S3Settings:
    return replace(
        settings,
        server_side_encryption=encryption.algorithm,
        server_side_encryption_kms_key_id=encryption.kms_key_id,
    )


def at_storage(client: Any, address: Address) -> Encryption | None:
    """Return the encryption that the storage itself reports."""
    found = client.head_object(Bucket=address.parts.bucket, Key=address.path)
    if "ServerSideEncryption" not in found:
        return None
    return Encryption(found["ServerSideEncryption"], found.get("SSEKMSKeyId"))


@pytest.fixture
def namespace() -> Namespace:
    return Namespace.parse(f"s3://{BUCKET}/{uuid.uuid4().hex}/")


@pytest.mark.parametrize("encryption", [AES, OURS, Encryption("aws:kms")])
def test_every_write_of_the_driver_requests_the_encryption(
    moto_settings: S3Settings, namespace: Namespace, encryption: Encryption,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    client = client_of(moto_settings)
    with open_block(encrypted(moto_settings, encryption)) as block:
        assert block.encryption == encryption
        written = {
            name: namespace.address(name)
            for name in ("put", "stream", "create", "replace", "by content", "copy", "parts")
        }
        block.put(written["put"], [b"data"])
        block.put(written["stream"], [b"x" * PART] * 4)
        block.create(written["create"], b"data")
        block.replace(written["replace"], b"2", block.create(written["replace"], b"1"))
        block.create_by_content([(written["by content"], b"data")])
        block.copy(written["put"], written["copy"])
        upload = block.create_upload(written["parts"])
        part = block.put_part(written["parts"], upload, 1, [b"data"], size=4)
        block.complete_upload(written["parts"], upload, [part])
        assert {name: at_storage(client, each) for name, each in written.items()} == dict.fromkeys(
            written, encryption
        )
        monkeypatch.setattr(s3_store, "_COPY_BYTES_MAX", 1)
        block.copy(written["put"], written["copy"])
        assert at_storage(client, written["copy"]) == encryption
        with block.get(written["copy"], byte_range=Between(1, 3)) as stream:
            assert b"".join(stream) == b"at"


def test_a_presigned_put_needs_no_header_and_leaves_encryption_to_the_bucket(
    moto_settings: S3Settings, namespace: Namespace
) -> None:
    client, address = client_of(moto_settings), namespace.address("object")
    with open_block(encrypted(moto_settings, OURS)) as block:
        url = block.presign_put(address, expires_seconds=60)
        assert parse_qs(urlsplit(url).query)["X-Amz-SignedHeaders"] == ["host"]
        headers = {"Content-Type": "application/data"}
        with closing(urlopen(Request(url, b"data", headers, method="PUT"))):
            assert block.read(address) == b"data"
    assert at_storage(client, address) is None


def test_parts_sent_by_urls_belong_to_an_encrypted_object(
    moto_settings: S3Settings, namespace: Namespace
) -> None:
    client, address = client_of(moto_settings), namespace.address("object")
    with open_block(encrypted(moto_settings, OURS)) as block:
        upload = block.create_upload(address)
        url = block.presign_part(address, upload, 1, expires_seconds=60)
        headers = {"Content-Type": "application/data"}
        with closing(urlopen(Request(url, b"data", headers, method="PUT"))):
            (part,) = block.list_parts(address, upload)
            block.complete_upload(address, upload, [Part(part.number, part.etag)])
    assert at_storage(client, address) == OURS


def test_a_key_is_refused_without_kms() -> None:
    key_alone = S3Settings(server_side_encryption_kms_key_id=KEY)
    for settings in (key_alone, replace(key_alone, server_side_encryption="AES256")):
        with pytest.raises(InvalidArgument, match="server_side_encryption_kms_key_id"):
            S3BlockStore(settings, ThreadRuntime())


@pytest.fixture
def lake(request: pytest.FixtureRequest, moto_settings: S3Settings) -> Iterator[GatewayClient]:
    """The gateway in this process, with the encryption that the test names."""
    yield from _lake(moto_settings, request.param)


def _lake(
    found: S3Settings, encryption: Encryption | None, prefix: str = ""
) -> Iterator[GatewayClient]:
    chosen: dict[str, object] = {}
    if encryption is not None:
        chosen["blockstore.s3.server_side_encryption"] = encryption.algorithm
        if encryption.kms_key_id is not None:
            chosen["blockstore.s3.server_side_encryption_kms_key_id"] = encryption.kms_key_id
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
            **chosen,
        },
    )
    services = open_services(settings, run_in_background=run_inline)
    try:
        services.auth.setup("admin", ADMIN)
        services.catalog.repositories.create(
            REPOSITORY,
            parse_namespace(f"s3://{BUCKET}/{prefix or uuid.uuid4().hex}"),
            committer="admin",
        )
        yield GatewayClient(services)
    finally:
        services.close()


def shown(answer: Answer) -> dict[str, str]:
    """Return the headers about encryption of a successful answer."""
    assert answer.status in {200, 206, 304}, answer.body
    return {name: value for name, value in answer.headers.items() if name.startswith(HEADER)}


EXPECTED = {AES: {HEADER: "AES256"}, OURS: {HEADER: "aws:kms", KEY_HEADER: KEY}}


@pytest.mark.parametrize("lake", [AES, OURS], indirect=True)
def test_answers_show_the_configured_encryption(lake: GatewayClient) -> None:
    expected = EXPECTED[lake.services.catalog.encryption]  # type: ignore[index]
    target = f"/{REPOSITORY}/main/a"
    assert shown(lake.ask("PUT", target, b"data")) == expected
    # The request may ask for it.
    assert shown(lake.ask("PUT", target, b"data", headers=expected)) == expected
    for method in ("GET", "HEAD"):
        assert shown(lake.ask(method, target)) == expected
        assert shown(lake.ask(method, target, headers={"range": "bytes=1-2"})) == expected
    copied = lake.ask(
        "PUT",
        f"/{REPOSITORY}/main/b",
        headers={**expected, "x-amz-copy-source": target, "x-amz-metadata-directive": "REPLACE"},
    )
    assert shown(copied) == expected
    assert shown(lake.ask("HEAD", f"/{REPOSITORY}/main/b")) == expected

    target = f"/{REPOSITORY}/main/parts"
    created = lake.ask("POST", f"{target}?uploads", headers=expected)
    assert shown(created) == expected
    upload = ET.fromstring(created.body).findtext("{*}UploadId")
    part = lake.ask("PUT", f"{target}?partNumber=1&uploadId={upload}", b"data")
    body = (
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        f"<ETag>{part.headers['etag']}</ETag></Part></CompleteMultipartUpload>"
    ).encode()
    assert shown(lake.ask("POST", f"{target}?uploadId={upload}", body)) == expected
    assert shown(lake.ask("GET", f"{target}?partNumber=1")) == expected
    request = CommitRequest(committer="ann", message="m")
    committed = lake.services.catalog.commits.commit(REPOSITORY, MAIN, request)
    for name in ("a", "b", "parts"):
        answer = lake.ask("HEAD", f"/{REPOSITORY}/{committed.commit.id}/{name}")
        assert shown(answer) == expected
        assert not any(name.startswith("x-amz-meta") for name in answer.headers)


@pytest.mark.parametrize(
    ("lake", "expected"),
    [(None, []), (AES, ["AES256"]), (OURS, ["aws:kms", KEY])],
    indirect=["lake"],
)
def test_a_client_can_query_the_configured_encryption(
    lake: GatewayClient, expected: list[str]
) -> None:
    answer = lake.ask("GET", f"/{REPOSITORY}?encryption")
    if not expected:
        assert answer.code == "ServerSideEncryptionConfigurationNotFoundError"
        return
    default = "{*}Rule/{*}ApplyServerSideEncryptionByDefault/{*}"
    found = ET.fromstring(answer.body)
    assert [each.text for each in found.findall(f"{default}SSEAlgorithm")] == expected[:1]
    assert [each.text for each in found.findall(f"{default}KMSMasterKeyID")] == expected[1:]


@pytest.mark.parametrize("lake", [OURS], indirect=True)
@pytest.mark.parametrize(
    ("header", "value"),
    [
        (HEADER, "AES256"),
        (HEADER, "aws:kms:dsse"),
        (KEY_HEADER, "alias/other"),
        (f"{HEADER}-bucket-key-enabled", "true"),
        (f"{HEADER}-context", "e30="),
        (f"{HEADER}-customer-algorithm", "AES256"),
    ],
)
def test_a_request_for_another_encryption_is_refused(
    lake: GatewayClient, header: str, value: str
) -> None:
    target = f"/{REPOSITORY}/main/a"
    answer = lake.ask("PUT", target, b"data", headers={header: value})
    assert (answer.status, answer.code) == (501, "NotImplemented")
    accepted = {HEADER: "aws:kms", KEY_HEADER: "the configured one"}.get(header)
    said = f'must be {accepted}, or left out; "{value}" is' if accepted else "is not supported; "
    assert f"the header {header} {said}" in ET.fromstring(answer.body).findtext("Detail", "")
    assert KEY.encode() not in answer.body  # requests are refused before they are authenticated
    assert lake.ask("HEAD", target).status == 404


@pytest.mark.parametrize("lake", [OURS], indirect=True)
def test_objects_that_others_wrote_are_not_said_to_be_encrypted(
    lake: GatewayClient, moto_settings: S3Settings
) -> None:
    client, catalog = client_of(moto_settings), lake.services.catalog
    folder = uuid.uuid4().hex
    client.put_object(Bucket=BUCKET, Key=f"{folder}/a", Body=b"data")
    address = Address.parse(f"s3://{BUCKET}/{folder}/a")
    catalog.external.stage(
        REPOSITORY, MAIN, b"imported", address, checksum="c", size=4, content_type="text/plain"
    )
    issued = catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked", presign=True)
    client.put_object(Bucket=BUCKET, Key=issued.address.path, Body=b"data")
    catalog.links.link(REPOSITORY, MAIN, b"linked", issued.address, checksum="c")
    for name in ("imported", "linked"):
        target = f"/{REPOSITORY}/main/{name}"
        assert shown(lake.ask("GET", target)) == {}
    for name in ("imported", "linked"):
        source = {"x-amz-copy-source": f"/{REPOSITORY}/main/{name}"}
        target = f"/{REPOSITORY}/main/copy"
        # A copy shares the bytes of its source, unless it must be encrypted.
        assert shown(lake.ask("PUT", target, headers=source)) == {}
        assert shown(lake.ask("GET", target)) == {}
        copied = lake.ask("PUT", target, headers={**source, **EXPECTED[OURS]})
        assert shown(copied) == shown(lake.ask("GET", target)) == EXPECTED[OURS]
        found = catalog.objects.stat(REPOSITORY, "main", b"copy")
        assert at_storage(client, found.address) == OURS
