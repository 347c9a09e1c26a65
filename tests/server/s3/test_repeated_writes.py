"""Conditional writes with the id that SDKs send with all attempts of one request."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from lakebed.auth import Effect, KeyPair, Statement
from tests.server.kit import ADMIN, REPOSITORY
from tests.server.s3.gateway_client import Answer, GatewayClient, gateway_client

ID = "amz-sdk-invocation-id"
UUID = "1f6ad1c0-67a5-4d5c-9a07-5b9c4f0f2b11"
ONLY_NEW = {"If-None-Match": "*"}
ONCE = {**ONLY_NEW, ID: UUID}
EVERYTHING = Statement(effect=Effect.ALLOW, actions=("fs:*",), resource="*")


@pytest.fixture
def s3() -> Iterator[GatewayClient]:
    with gateway_client() as found:
        yield found


def put(
    s3: GatewayClient, headers: dict[str, str], body: bytes = b"", pair: KeyPair = ADMIN
) -> Answer:
    return s3.ask("PUT", f"/{REPOSITORY}/main/lock", body, headers=headers, pair=pair)


def test_a_repeat_gets_the_answer_of_the_first_attempt(s3: GatewayClient) -> None:
    first = put(s3, ONCE)
    again = put(s3, ONCE)
    assert (first.status, again.status) == (200, 200)
    assert again.headers["etag"] == first.headers["etag"]


@pytest.mark.parametrize(
    "headers",
    [ONLY_NEW, {**ONLY_NEW, ID: UUID.replace("1f", "2f")}],
    ids=["no id", "another id"],
)
def test_another_client_with_the_same_credentials_and_bytes_is_refused(
    s3: GatewayClient, headers: dict[str, str]
) -> None:
    assert put(s3, ONCE).status == 200
    assert put(s3, headers).status == 412
    assert put(s3, headers).status == 412


@pytest.mark.parametrize("no_id", ["", "1", "my-client", "x" * 36, UUID * 2])
def test_an_id_that_is_not_random_identifies_no_request(s3: GatewayClient, no_id: str) -> None:
    headers = {**ONLY_NEW, ID: no_id}
    assert put(s3, headers).status == 200
    assert put(s3, headers).status == 412


def test_another_user_with_the_same_id_is_refused(s3: GatewayClient) -> None:
    ann, bob = s3.user("ann", EVERYTHING), s3.user("bob", EVERYTHING)
    assert put(s3, ONCE, pair=ann).status == 200
    assert put(s3, ONCE, pair=bob).status == 412
    assert put(s3, ONCE, pair=ann).status == 200


def test_a_repeat_of_a_copy(s3: GatewayClient) -> None:
    assert put(s3, {}, b"x").status == 200
    source = {"x-amz-copy-source": f"/{REPOSITORY}/main/lock"}
    at = f"/{REPOSITORY}/main/copy"
    for _ in range(2):
        assert s3.ask("PUT", at, headers={**ONCE, **source}).status == 200
    assert s3.ask("PUT", at, headers={**ONLY_NEW, **source}).status == 412


def test_an_upload_in_parts_is_completed_on_its_condition(s3: GatewayClient) -> None:
    at = f"/{REPOSITORY}/main/lock"
    created = ET.fromstring(s3.ask("POST", f"{at}?uploads").body)
    upload = f"{at}?uploadId={created.findtext('{*}UploadId')}"
    etag = s3.ask("PUT", f"{upload}&partNumber=1", b"part").headers["etag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    assert put(s3, {}, b"there").status == 200
    refused = s3.ask("POST", upload, body, headers=ONLY_NEW)
    assert (refused.status, refused.code) == (412, "PreconditionFailed")
    assert s3.ask("GET", at).body == b"there"
    assert s3.ask("DELETE", at).status == 204
    assert s3.ask("POST", upload, body, headers=ONLY_NEW).status == 200
    assert s3.ask("GET", at).body == b"part"


def test_a_write_without_a_condition_keeps_no_id(s3: GatewayClient) -> None:
    assert put(s3, {ID: UUID}).status == 200
    assert put(s3, ONCE).status == 412
