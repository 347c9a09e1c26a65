"""What S3 and lakeFS answer, status for status and word for word."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from lakebed.engine.model import RepositoryID
from lakebed.server.s3.errors import ErrorCode, S3Error, error_body
from lakebed.server.s3.metadata import metadata_headers
from tests.server.kit import REPOSITORY
from tests.server.s3.gateway_client import Answer, GatewayClient, gateway_client

BUCKET = f"/{REPOSITORY}"
KEY = f"{BUCKET}/main/key"


@pytest.fixture(scope="module")
def gate() -> Iterator[GatewayClient]:
    with gateway_client() as opened:
        yield opened


def words(answer: Answer) -> tuple[int, str, str]:
    error = ET.fromstring(answer.body)
    return answer.status, error.findtext("Code") or "", error.findtext("Message") or ""


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/nowhere?prefix=main", (404, "NoSuchBucket")),
        ("GET", "/nowhere/main/key", (404, "NoSuchBucket")),
        ("GET", f"{BUCKET}/main/none", (404, "NoSuchKey")),
        ("GET", f"{BUCKET}/nobranch/key", (404, "NoSuchKey")),
        ("GET", f"{BUCKET}/main~~/key", (404, "NoSuchKey")),
        ("GET", f"{BUCKET}/nobranch/key?tagging", (404, "NoSuchKey")),
        ("PUT", f"{BUCKET}/nobranch/key", (404, "NoSuchBucket")),
        ("PUT", f"{BUCKET}?tagging", (405, "ERRLakeFSNotSupported")),
        ("PUT", f"{BUCKET}?policy", (405, "ERRLakeFSNotSupported")),
        ("DELETE", f"{BUCKET}?policy", (405, "ERRLakeFSNotSupported")),
        ("GET", f"{BUCKET}?analytics", (405, "ERRLakeFSNotSupported")),
        ("DELETE", BUCKET, (405, "ERRLakeFSNotSupported")),
        ("POST", KEY, (405, "MethodNotAllowed")),
    ],
)
def test_codes_and_messages(
    gate: GatewayClient, method: str, target: str, expected: tuple[int, str]
) -> None:
    said = {
        "NoSuchBucket": "The specified bucket does not exist",
        "NoSuchKey": "The specified key does not exist.",
        "ERRLakeFSNotSupported": "This operation is not supported in LakeFS",
        "MethodNotAllowed": "The specified method is not allowed against this resource.",
    }
    assert words(gate.ask(method, target)) == (*expected, said[expected[1]])


def test_the_head_of_an_object_at_a_missing_ref_is_404(gate: GatewayClient) -> None:
    assert gate.ask("HEAD", f"{BUCKET}/nobranch/key").status == 404


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/api/v1"),
        ("GET", "/api/v1/"),
        ("GET", "/api/v1/lake?list-type=2&prefix=main%2F"),
        ("GET", "/api/v1/lake/main/key"),
        ("PUT", "/api/v1/lake/main/key"),
        ("DELETE", "/api/v1/lake/main/key"),
    ],
)
def test_an_endpoint_that_is_the_apis_is_named(
    gate: GatewayClient, method: str, target: str
) -> None:
    assert words(gate.ask(method, target)) == (
        404,
        "ErrNoSuchBucketPossibleAPIEndpoint",
        (
            'Repository "api" not found; this can happen if your endpoint URL mistakenly ends in'
            ' "/api/v1".'
        ),
    )
    assert gate.ask(method, target.replace("v1", "v2")).code != "ErrNoSuchBucketPossibleAPIEndpoint"


def test_our_own_sentence_is_in_a_second_element(gate: GatewayClient) -> None:
    error = ET.fromstring(gate.ask("PUT", f"{BUCKET}/nobranch/key").body)
    assert [each.tag for each in error] == ["Code", "Message", "Detail", "Resource", "RequestId"]
    assert "nobranch" in (error.findtext("Detail") or "")
    body = b"<Delete><Object><Key>nobranch/a</Key></Object></Delete>"
    deleted = ET.fromstring(gate.ask("POST", f"{BUCKET}?delete", body).body)
    [failed] = [each for each in deleted if each.tag.endswith("Error")]
    texts = {each.tag.partition("}")[2]: each.text or "" for each in failed}
    assert texts["Message"] == "The specified bucket does not exist"
    assert "nobranch" in texts["Detail"]


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_has_a_message(code: ErrorCode) -> None:
    bare = [S3Error(code)] if code.message else []
    for error in (*bare, S3Error(code, "own words")):
        document = ET.fromstring(error_body(error, resource="/", request_id="1"))
        said = [document.findtext("Message"), document.findtext("Detail")]
        assert said[0]
        assert str(error) in said
        assert said[0] != said[1]
        if code.message:
            assert said[0] == code.message


@pytest.mark.parametrize("mark", ['"etag"', "etag", "**"])
def test_a_write_if_no_object_matches_takes_a_star_alone(gate: GatewayClient, mark: str) -> None:
    target = f"{BUCKET}/main/conditional"
    answer = gate.ask("PUT", target, b"x", headers={"if-none-match": mark})
    assert (answer.status, answer.code) == (501, "NotImplemented")
    copy = {"if-none-match": mark, "x-amz-copy-source": KEY}
    assert gate.ask("PUT", target, headers=copy).status == 501
    assert gate.ask("GET", target).code == "NoSuchKey"


def test_a_storage_that_cannot_presign_is_read_by_the_server(gate: GatewayClient) -> None:
    gate.ask("PUT", KEY, b"here")
    answer = gate.ask("GET", KEY, headers={"user-agent": "Hadoop/3 s3RedirectionSupport"})
    assert (answer.status, answer.body) == (200, b"here")


def stored(gate: GatewayClient) -> dict[str, str]:
    stats = gate.services.catalog.objects.stat(RepositoryID(REPOSITORY), "main", b"key")
    return dict(stats.metadata)


def test_an_empty_condition_of_a_write_is_none(gate: GatewayClient) -> None:
    for body in (b"one", b"two"):
        assert gate.ask("PUT", KEY, body, headers={"if-none-match": ""}).status == 200
    assert gate.ask("GET", KEY).body == b"two"


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("=?UTF-8?B?Z3LDvG4=?=", "grün"),
        ("=?utf-8?q?gr=C3=BCn_blau?=", "grün blau"),
        ("=?ISO-8859-1?Q?gr=FCn?=", "grün"),
        ("=?UTF-8?B?Z3I=?= =?UTF-8?B?w7xu?=", "grün"),
        ("very =?UTF-8?B?Z3LDvG4=?= here", "very grün here"),
        ("grün", "grün"),
        ("=?UTF-8?B?a?=", "=?UTF-8?B?a?="),
        ("=?utf-16?B?Z3LDvG4=?=", "=?utf-16?B?Z3LDvG4=?="),
        ("=?UTF-8?B?/w==?=", "=?UTF-8?B?/w==?="),
        ("=?", "=?"),
        ("plain", "plain"),
    ],
)
def test_encoded_words_are_kept_as_text_and_sent_as_words(
    gate: GatewayClient, sent: str, text: str
) -> None:
    assert gate.ask("PUT", KEY, b"x", headers={"x-amz-meta-colour": sent}).status == 200
    assert stored(gate)["X-Amz-Meta-colour"] == text
    shown = gate.ask("HEAD", KEY).headers["x-amz-meta-colour"]
    assert shown.startswith("=?utf-8?q?") != text.isascii()
    gate.ask("PUT", KEY, b"x", headers={"x-amz-meta-colour": shown})
    assert stored(gate)["X-Amz-Meta-colour"] == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=b?c_d ü", "=?utf-8?q?a=3Db=3Fc=5Fd_=C3=BC?="),
        ("\x01", "=?utf-8?q?=01?="),
        (
            "ü" + "23456789 " * 6 + "12345",
            "=?utf-8?q?=C3=BC" + "23456789_" * 6 + "123?= =?utf-8?q?45?=",
        ),
        (
            "😀" * 8 + " more",
            f"=?utf-8?q?{'=F0=9F=98=80' * 5}?= =?utf-8?q?{'=F0=9F=98=80' * 3}_more?=",
        ),
    ],
)
def test_encoded_words_are_those_of_go(gate: GatewayClient, text: str, words: str) -> None:
    """`mime.QEncoding` of Go returned these, and lakeFS sends them."""
    assert metadata_headers({"X-Amz-Meta-a": text}) == {"x-amz-meta-a": words}
    gate.ask("PUT", KEY, b"x", headers={"x-amz-meta-a": words})
    assert stored(gate)["X-Amz-Meta-a"] == text
