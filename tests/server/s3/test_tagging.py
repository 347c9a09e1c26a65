"""Tags of objects: kept with the entry, and copied with it."""

from collections.abc import Iterator
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

import pytest

from lakebed.engine.model import BranchID, RepositoryID
from tests.server.kit import REPOSITORY
from tests.server.s3.gateway_client import GatewayClient, gateway_client

BUCKET = f"/{REPOSITORY}"
KEY = f"{BUCKET}/main/key"
SOURCE = {"x-amz-copy-source": KEY}
BOTH = {"a": "b c", "ü": "1+1=2"}


@pytest.fixture(scope="module")
def gate() -> Iterator[GatewayClient]:
    with gateway_client() as opened:
        yield opened


def tags(gate: GatewayClient, target: str = KEY) -> dict[str, str]:
    answer = gate.ask("GET", f"{target}?tagging")
    assert answer.status == 200, answer.body
    found = ET.fromstring(answer.body).iterfind("{*}TagSet/{*}Tag")
    return {each.findtext("{*}Key") or "": each.findtext("{*}Value") or "" for each in found}


def document(*pairs: tuple[str, str]) -> bytes:
    items = "".join(f"<Tag><Key>{key}</Key><Value>{value}</Value></Tag>" for key, value in pairs)
    return f"<Tagging><TagSet>{items}</TagSet></Tagging>".encode()


def test_tags_of_an_upload_are_kept_and_given_back(gate: GatewayClient) -> None:
    assert gate.ask("PUT", KEY, b"x", headers={"x-amz-tagging": urlencode(BOTH)}).status == 200
    assert tags(gate) == BOTH
    for method in ("GET", "HEAD"):
        assert gate.ask(method, KEY).headers["x-amz-tagging-count"] == "2"
    stats = gate.services.catalog.objects.stat(RepositoryID(REPOSITORY), "main", b"key")
    assert stats.metadata == {}
    gate.ask("PUT", KEY, b"x")
    assert tags(gate) == {}
    assert "x-amz-tagging-count" not in gate.ask("HEAD", KEY).headers


def test_tags_of_a_multipart_upload(gate: GatewayClient) -> None:
    headers = {"x-amz-tagging": "a=b"}
    created = ET.fromstring(gate.ask("POST", f"{KEY}?uploads", headers=headers).body)
    upload = f"{KEY}?uploadId={created.findtext('{*}UploadId')}"
    etag = gate.ask("PUT", f"{upload}&partNumber=1", b"part").headers["etag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    assert gate.ask("POST", upload, body).status == 200
    assert tags(gate) == {"a": "b"}


def test_tags_are_changed_and_removed_without_the_object(gate: GatewayClient) -> None:
    headers = {"x-amz-meta-m": "1", "content-type": "text/csv"}
    gate.ask("PUT", KEY, b"content", headers=headers)
    assert gate.ask("PUT", f"{KEY}?tagging", document(("a", "b"), ("c", ""))).status == 200
    assert tags(gate) == {"a": "b", "c": ""}
    assert gate.ask("PUT", f"{KEY}?tagging", document(("d", "e"))).status == 200
    found = gate.ask("GET", KEY)
    assert (found.body, found.headers["x-amz-meta-m"]) == (b"content", "1")
    assert found.headers["content-type"] == "text/csv"
    assert tags(gate) == {"d": "e"}
    assert gate.ask("DELETE", f"{KEY}?tagging").status == 204
    assert tags(gate) == {}
    for method in ("PUT", "DELETE"):
        answer = gate.ask(method, f"{BUCKET}/main/none?tagging", document())
        assert (answer.status, answer.code) == (404, "NoSuchKey")


def test_copies_have_the_tags_of_the_source_unless_told_otherwise(gate: GatewayClient) -> None:
    gate.ask("PUT", KEY, b"x", headers={"x-amz-tagging": "a=b"})
    copy = f"{BUCKET}/main/copy"
    replaced = {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-m": "1"}
    new = {"x-amz-tagging-directive": "REPLACE", "x-amz-tagging": "c=d"}
    for headers, expected in (
        ({}, {"a": "b"}),
        (replaced, {"a": "b"}),
        ({"x-amz-tagging": "c=d"}, {"a": "b"}),
        ({"x-amz-tagging-directive": "COPY"}, {"a": "b"}),
        (new, {"c": "d"}),
        (new | replaced, {"c": "d"}),
        ({"x-amz-tagging-directive": "REPLACE"}, {}),
    ):
        assert gate.ask("PUT", copy, headers=SOURCE | headers).status == 200
        assert tags(gate, copy) == expected
    other = gate.ask("PUT", copy, headers=SOURCE | {"x-amz-tagging-directive": "MOVE"})
    assert other.code == "InvalidArgument"


def test_metadata_changed_by_the_api_keeps_the_tags(gate: GatewayClient) -> None:
    gate.ask("PUT", KEY, b"x", headers={"x-amz-tagging": "a=b"})
    gate.services.catalog.copies.set_metadata(
        RepositoryID(REPOSITORY), BranchID("main"), b"key", {"k": "v"}
    )
    assert tags(gate) == {"a": "b"}
    assert gate.ask("HEAD", KEY).headers["x-amz-meta-k"] == "v"


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([("k" * 128, "v" * 256)], None),
        ([(f"{n}" + "ü" * 127, "語" * 256) for n in range(10)], None),
        ([("a b+-=._:/@é", "")], None),
        ([("k" * 129, "")], "InvalidTag"),
        ([("", "v")], "InvalidTag"),
        ([("k", "v" * 257)], "InvalidTag"),
        ([("k", "a;b")], "InvalidTag"),
        ([("k", "€")], "InvalidTag"),
        ([("k\n", "")], "InvalidTag"),
        ([("aws:k", "")], "InvalidTag"),
        ([("k", "1"), ("k", "2")], "InvalidTag"),
        ([(f"k{n}", "") for n in range(10)], None),
        ([(f"k{n}", "") for n in range(11)], "BadRequest"),
    ],
)
def test_the_limits_are_those_of_s3(
    gate: GatewayClient, pairs: list[tuple[str, str]], code: str | None
) -> None:
    gate.ask("PUT", KEY, b"x")
    answers = [
        gate.ask("PUT", f"{KEY}?tagging", document(*pairs)),
        gate.ask("PUT", KEY, b"x", headers={"x-amz-tagging": urlencode(pairs, quote_via=quote)}),
    ]
    for answer in answers:
        assert answer.status == (200 if code is None else 400), answer.body
        assert code is None or answer.code == code
    assert tags(gate) == ({} if code else dict(pairs))


def test_a_malformed_header_or_document_is_refused(gate: GatewayClient) -> None:
    gate.ask("PUT", KEY, b"x", headers={"x-amz-tagging": "a=b"})
    assert gate.ask("PUT", KEY, b"y", headers={"x-amz-tagging": "a=%FF"}).code == "InvalidArgument"
    assert gate.ask("PUT", f"{KEY}?tagging", b"<Tag/>").code == "MalformedXML"
    assert (gate.ask("GET", KEY).body, tags(gate)) == (b"x", {"a": "b"})
