"""Requests that are not as they should be: the right error, and nothing stored."""

import importlib
import logging
import pkgutil
from collections.abc import Iterator
from hashlib import sha256
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.auth import KeyPair
from lakebed.base.errors import LakebedError
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID, RepositoryID, TagID
from lakebed.server.http import refusals
from lakebed.server.http.admission import ANONYMOUS, Admission, FairPool, Holder, Overloaded
from lakebed.server.http.refusals import RefusalLog
from lakebed.server.s3.errors import ErrorCode
from lakebed.server.s3.metadata import metadata_headers
from lakebed.server.s3.operations import OPERATIONS, Handler
from lakebed.server.s3.operations.get_object import AT_ONCE_BYTES_MAX
from lakebed.server.s3.request import S3Reply, S3Request
from lakebed.server.s3.router import S3Operation
from lakebed.server.s3.translation import as_s3_error
from tests.server.kit import ADMIN, REPOSITORY
from tests.server.s3.gateway_client import HOST, GatewayClient, gateway_client

BUCKET = f"/{REPOSITORY}"
KEY = f"{BUCKET}/main/key"


@pytest.fixture(scope="module")
def gate() -> Iterator[GatewayClient]:
    with gateway_client() as opened:
        yield opened


def test_there_is_a_handler_for_every_operation() -> None:
    assert OPERATIONS.keys() == set(S3Operation)


def test_errors_that_a_request_can_cause_have_a_code() -> None:
    for module in pkgutil.walk_packages(lakebed.__path__, "lakebed."):
        if module.name.endswith(".errors"):
            importlib.import_module(module.name)

    def below(root: type[LakebedError]) -> list[type[LakebedError]]:
        return [root, *(error for child in root.__subclasses__() for error in below(child))]

    def code(error: type[LakebedError]) -> ErrorCode:
        instance = error.__new__(error)
        instance.args = ("why",)
        return as_s3_error(instance).code

    unexpected = {
        error.__name__
        for error in below(LakebedError)
        if error.__module__
        in {
            "lakebed.engine.errors",
            "lakebed.lake.errors",
            "lakebed.block.errors",
        }
        and code(error) is ErrorCode.INTERNAL_ERROR
    }
    # Of operations that S3 does not have; families; and what is wrong with the server itself.
    assert unexpected == {
        "EngineError", "MergeConflict", "DirtyBranch", "NoChanges", "DefaultBranch", "Refused",
        "MissingFile", "BlockError", "AlreadyExists", "PreconditionFailed", "StorageClosed",
        "TooManyExpire", "CommitRefused", "RefsLeftOut", "Locked",
    }  # fmt: skip


def test_an_unexpected_error_is_answered_without_its_details(
    gate: GatewayClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_request: S3Request) -> S3Reply:
        raise RuntimeError("the secret is hunter2")

    broken = {**OPERATIONS, S3Operation.LIST_BUCKETS: Handler(fail)}
    monkeypatch.setattr("lakebed.server.s3.gateway.OPERATIONS", broken)
    answer = gate.ask("GET", "/")
    assert (answer.status, answer.code) == (500, "InternalError")
    assert b"hunter2" not in answer.body
    assert "the secret is hunter2" in caplog.text


def test_a_refused_signature_is_logged_without_the_signature(
    gate: GatewayClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fresh = RefusalLog(clock=lambda: 0.0, later=lambda _seconds, _action: None)
    monkeypatch.setattr(refusals, "_LOG", fresh)  # tests before this one were refused too
    wrong = KeyPair(access_key_id=ADMIN.access_key_id, secret_access_key="wrong-secret")
    unknown = KeyPair(access_key_id="AKIAUNKNOWN", secret_access_key="wrong-secret")
    assert gate.ask("GET", "/", pair=wrong).code == "SignatureDoesNotMatch"
    assert gate.ask("GET", "/", pair=unknown).code == "InvalidAccessKeyId"
    expired = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=" + "5" * 64
    assert gate.ask("GET", f"/?{expired}", pair=None).status == 400
    ours = [each for each in caplog.records if each.name == refusals.__name__]
    reasons = [record.getMessage() for record in ours]
    assert [reason.split(": ")[1] for reason in reasons] == [
        "SignatureDoesNotMatch",
        "access key AKIAUNKNOWN is unknown",
        "AuthorizationQueryParametersError",
    ]
    for secret in ("wrong-secret", "5" * 64):
        assert not any(secret in reason for reason in reasons)
    assert "wrong-secret" not in caplog.text


def test_a_broken_body_is_logged(gate: GatewayClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakebed.server.s3"):
        headers = {"x-amz-checksum-crc32": "AAAAAA=="}
        assert gate.ask("PUT", KEY, b"body", headers=headers).code == "BadDigest"
    assert "body refused: BadDigest" in caplog.text


def test_missing_bytes_of_an_object_are_logged(
    gate: GatewayClient, caplog: pytest.LogCaptureFixture
) -> None:
    target = f"{BUCKET}/main/lost"
    assert gate.ask("PUT", target, b"x" * (AT_ONCE_BYTES_MAX + 1)).status == 200
    stats = gate.services.catalog.objects.stat(RepositoryID(REPOSITORY), "main", b"lost")
    gate.services.foundation.block.delete(stats.address)
    assert gate.ask("GET", target).code == "NoSuchVersion"
    assert "the bytes of an object are missing" in caplog.text


@pytest.mark.parametrize(
    ("target", "headers", "text"),
    [
        (f"{BUCKET}?max-keys=many", {}, 'max-keys must be a number, not "many"'),
        (f"{BUCKET}?encoding-type=zip", {}, 'encoding-type must be "url", not "zip"'),
        (f"{BUCKET}?prefix=a&prefix=b", {}, 'the parameter "prefix" is in the query twice'),
        (f"{BUCKET}?analytics", {}, "GET with ?analytics is not supported here"),
        (f"{BUCKET}?versions&prefix=main%2F&version-id-marker=null", {}, "needs the key-marker"),
        (f"{KEY}?versionId=main", {}, '"main" is no version id: use the id of a commit'),
        (f"{KEY}?versionId={'0' * 64}", {}, f"no commit {'0' * 64} has this object"),
        (f"{BUCKET}/main/no%20such%20key", {}, "'no such key'"),
        (f"{BUCKET}/main", {}, 'the key "main" must be <ref>/<path of an object>'),
        (f"{KEY}?partNumber=none", {}, 'partNumber must be a number, not "none"'),
        (
            KEY,
            {"x-amz-request-payer": "a"},
            "the header x-amz-request-payer is not supported; leave it out",
        ),
        (
            KEY,
            {"x-amz-acl": "public-read"},
            'private, or left out; "public-read" is not supported',
        ),
        (f"{KEY}?x-amz-meta-a=b", {}, "the parameter x-amz-meta-a is not supported; leave it out"),
        (f"{BUCKET}/main/{'x' * 1025}", {}, "the object path has 1025 bytes; at most 1024"),
    ],
)
def test_a_message_says_what_was_wrong(
    gate: GatewayClient, target: str, headers: dict[str, str], text: str
) -> None:
    gate.ask("PUT", KEY, b"there")
    document = ET.fromstring(gate.ask("GET", target, headers=headers).body)
    said = (document.findtext("Message") or "") + (document.findtext("Detail") or "")
    assert text in said
    assert "b'" not in said


@pytest.mark.parametrize(
    ("method", "query", "headers"),
    [
        ("PUT", "", {}),
        ("PUT", "", {"x-amz-copy-source": KEY}),
        ("PUT", "?tagging", {}),
        ("POST", "?uploads", {}),
        ("DELETE", "", {}),
    ],
)
def test_a_key_to_write_needs_a_path(
    gate: GatewayClient, method: str, query: str, headers: dict[str, str]
) -> None:
    gate.ask("PUT", KEY, b"there")
    body = b"<Tagging><TagSet/></Tagging>" if query == "?tagging" else b""
    answer = gate.ask(method, f"{BUCKET}/hello.txt{query}", body, headers=headers)
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    document = ET.fromstring(answer.body)
    said = document.findtext("Detail") or document.findtext("Message")
    assert said == 'the key "hello.txt" must be <branch>/<path of an object>'


def test_an_empty_marker_lists_all_parts(gate: GatewayClient) -> None:
    created = gate.ask("POST", f"{KEY}?uploads").body.decode()
    upload_id = created.partition("<UploadId>")[2].partition("<")[0]
    assert gate.ask("PUT", f"{KEY}?partNumber=1&uploadId={upload_id}", b"part").status == 200
    listed = gate.ask("GET", f"{KEY}?uploadId={upload_id}&part-number-marker=").body
    assert b"<PartNumber>1</PartNumber>" in listed


def test_a_body_that_is_not_the_one_signed_is_not_stored(gate: GatewayClient) -> None:
    digest = sha256(b"signed").hexdigest()
    answer = gate.ask("PUT", KEY, b"signed")
    assert answer.status == 200
    # The same signature with another body of that length.
    captured: list[dict[str, str]] = []
    original = gate.send

    def swap(environ: dict[str, str], _body: bytes) -> object:
        captured.append(environ)
        return original(environ, b"forged")

    gate.send = swap  # type: ignore[method-assign,assignment]
    try:
        answer = gate.ask("PUT", KEY, b"signed")
    finally:
        del gate.send
    assert captured[0]["HTTP_X_AMZ_CONTENT_SHA256"] == digest
    assert answer.code == "XAmzContentSHA256Mismatch"
    assert gate.ask("GET", KEY).body == b"signed"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, "BadDigest"),
        ({"content-md5": "nonsense"}, "InvalidDigest"),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, "BadDigest"),
        ({"x-amz-checksum-crc32": "?"}, "InvalidRequest"),
        ({"x-amz-checksum-crc32": "AAAAAB=="}, "InvalidRequest"),
    ],
)
def test_checksums_are_checked(gate: GatewayClient, headers: dict[str, str], code: str) -> None:
    target = f"{BUCKET}/main/never"
    assert gate.ask("PUT", target, b"body", headers=headers).code == code
    assert gate.ask("GET", target).code == "NoSuchKey"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-acl", "public-read"),
        ("x-amz-acl", "private,public-read"),
        ("x-amz-copy-source-server-side-encryption-customer-key", "a2V5"),
        ("x-amz-expected-bucket-owner", "111122223333"),
        ("x-amz-grant-read", 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'),
        ("x-amz-if-match-initiated-time", "Sun, 15 Nov 2026 12:00:00 GMT"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-request-payer", "requester"),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "alias/lake"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-website-redirect-location", "/elsewhere"),
        ("x-amz-write-offset-bytes", "10"),
        ("x-amz-of-next-year", "1"),
    ],
)
def test_headers_that_ask_for_what_lakebed_does_not_do_are_refused(
    gate: GatewayClient, name: str, value: str
) -> None:
    target = f"{BUCKET}/main/promised"
    answer = gate.ask("PUT", target, b"x", headers={name: value})
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert f"the header {name} " in answer.body.decode()
    in_query = gate.ask("PUT", f"{target}?{name}={quote(value, safe='')}", b"x")
    assert (in_query.status, in_query.code) == (501, "NotImplemented")
    assert gate.ask("GET", target).code == "NoSuchKey"


def test_an_append_does_not_replace_the_object(gate: GatewayClient) -> None:
    target = f"{BUCKET}/main/log"
    assert gate.ask("PUT", target, b"0123456789").status == 200
    headers = {"x-amz-write-offset-bytes": "10"}
    assert gate.ask("PUT", target, b"x", headers=headers).code == "NotImplemented"
    assert gate.ask("GET", target).body == b"0123456789"


def test_a_secret_in_a_header_is_not_repeated(gate: GatewayClient) -> None:
    headers = {"x-amz-server-side-encryption-customer-key": "aHVzaCBodXNo"}
    answer = gate.ask("PUT", KEY, b"x", headers=headers)
    assert answer.code == "NotImplemented"
    assert b"aHVzaCBodXNo" not in answer.body


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-acl", "bucket-owner-full-control"),  # Spark and Airflow, where it is configured
        ("x-amz-acl", "private"),  # rclone and s3cmd, with every object
        ("x-amz-api-version", "2006-03-01"),  # the SDK for C++, as in PyArrow
        ("x-amz-meta-s3cmd-attrs", "uid:1000"),
        ("x-amz-object-lock-mode", ""),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),  # boto3
        ("x-amz-storage-class", "STANDARD"),  # s3cmd
        ("x-amz-tagging-directive", "COPY"),  # aws s3 cp
        ("x-amz-te", "append-md5"),  # the SDK for Java
        ("x-amz-user-agent", "aws-sdk-js/3"),  # browsers cannot set User-Agent
    ],
)
def test_headers_that_clients_send_by_themselves_are_accepted(
    gate: GatewayClient, name: str, value: str
) -> None:
    assert gate.ask("PUT", f"{BUCKET}/main/usual", b"x", headers={name: value}).status == 200


@pytest.mark.parametrize("secret", [ADMIN.secret_access_key, "of another"])
def test_session_tokens_are_refused(gate: GatewayClient, secret: str) -> None:
    target = f"{BUCKET}/main/temporary"
    pair = KeyPair(access_key_id=ADMIN.access_key_id, secret_access_key=secret)
    in_header = gate.ask("PUT", target, b"x", pair=pair, headers={"x-amz-security-token": "t"})
    assert (in_header.status, in_header.code) == (400, "InvalidToken")
    presigned = f"{target}?{_presigned(target, pair, token='t')}"
    in_query = gate.ask("PUT", presigned, b"x", pair=None)
    assert (in_query.status, in_query.code) == (400, "InvalidToken")
    assert gate.ask("GET", target).code == "NoSuchKey"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize("target", [KEY, f"{BUCKET}?list-type=2", f"{BUCKET}/", "/nowhere/a"])
@pytest.mark.parametrize("accept", [{}, {"accept": "*/*"}])
def test_requests_that_are_not_signed_are_refused(
    gate: GatewayClient, method: str, target: str, accept: dict[str, str]
) -> None:
    answer = gate.ask(method, target, pair=None, headers=accept)
    assert (answer.status, answer.headers["content-type"]) == (403, "application/xml")
    if method != "HEAD":
        assert answer.code == "AccessDenied"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_gets_the_page_at_any_path(gate: GatewayClient, method: str) -> None:
    headers = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answer = gate.ask(method, "/repositories/lake/objects", pair=None, headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")


@pytest.mark.parametrize("token", [None, ""])
def test_an_url_that_is_presigned_without_a_token_is_accepted(
    gate: GatewayClient, token: str | None
) -> None:
    target = f"{BUCKET}/main/permanent"
    presigned = f"{target}?{_presigned(target, ADMIN, token=token)}"
    assert gate.ask("PUT", presigned, b"x", pair=None).status == 200


def _presigned(target: str, pair: KeyPair, *, token: str | None) -> str:
    """Return the query of a presigned PUT, as boto3 makes it."""
    credentials = Credentials(pair.access_key_id, pair.secret_access_key, token)
    request = AWSRequest("PUT", f"http://{HOST}{target}")
    S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=60).add_auth(request)
    return str(urlsplit(request.url).query)


def test_deletes_on_other_conditions_than_the_etag_delete_nothing(gate: GatewayClient) -> None:
    target = f"{BUCKET}/main/kept"
    gate.ask("PUT", target, b"kept")
    for headers in ({"if-none-match": "*"}, {"x-amz-if-match-size": "1"}):
        assert gate.ask("DELETE", target, headers=headers).code == "NotImplemented"
    body = b"<Delete><Object><Key>main/kept</Key><Size>4</Size></Object></Delete>"
    assert gate.ask("POST", f"{BUCKET}?delete", body).code == "NotImplemented"
    item = b"<Object><Key>main/kept</Key><ETag>%d</ETag></Object>"
    body = b"<Delete>%b%b</Delete>" % (item % 1, item % 2)
    assert gate.ask("POST", f"{BUCKET}?delete", body).code == "MalformedXML"
    assert gate.ask("GET", target).body == b"kept"


def test_a_delete_is_made_if_the_etag_is_that_of_the_object(gate: GatewayClient) -> None:
    target = f"{BUCKET}/main/conditional"
    etag = gate.ask("PUT", target, b"one").headers["etag"]
    refused = gate.ask("DELETE", target, headers={"if-match": '"other"'})
    assert (refused.status, refused.code) == (412, "PreconditionFailed")
    assert gate.ask("GET", target).body == b"one"
    for mark in (etag, "*"):
        gate.ask("PUT", target, b"one")
        assert gate.ask("DELETE", target, headers={"if-match": mark}).status == 204
        assert gate.ask("GET", target).code == "NoSuchKey"
        assert gate.ask("DELETE", target, headers={"if-match": mark}).code == "NoSuchKey"
    folder = f"{BUCKET}/main/"
    assert gate.ask("DELETE", folder, headers={"if-match": "*"}).code == "NoSuchKey"
    assert gate.ask("DELETE", folder).status == 204


def test_each_of_many_keys_is_deleted_if_its_etag_matches(gate: GatewayClient) -> None:
    etags = {
        name: gate.ask("PUT", f"{BUCKET}/main/{name}", name.encode()).headers["etag"]
        for name in ("a", "b", "c")
    }
    items = "".join(
        f"<Object><Key>main/{name}</Key>{etag}</Object>"
        for name, etag in [
            ("a", f"<ETag>{etags['a']}</ETag>"),
            ("a", f"<ETag>{etags['a']}</ETag>"),
            ("b", f"<ETag>{etags['a']}</ETag>"),
            ("c", ""),
            ("none", "<ETag>x</ETag>"),
        ]
    )
    answer = gate.ask("POST", f"{BUCKET}?delete", f"<Delete>{items}</Delete>".encode())
    result = ET.fromstring(answer.body)
    deleted = [each.findtext("{*}Key") for each in result.iterfind("{*}Deleted")]
    errors = {
        each.findtext("{*}Key"): each.findtext("{*}Code") for each in result.iterfind("{*}Error")
    }
    assert deleted == ["main/a", "main/a", "main/c"]
    assert errors == {"main/b": "PreconditionFailed", "main/none": "NoSuchKey"}
    assert gate.ask("GET", f"{BUCKET}/main/b").body == b"b"


def test_an_invalid_key_with_an_etag_fails_alone(gate: GatewayClient) -> None:
    etag = gate.ask("PUT", f"{BUCKET}/main/valid", b"x").headers["etag"]
    items = "".join(
        f"<Object><Key>main/{name}</Key><ETag>{etag}</ETag></Object>"
        for name in ("valid", "x" * 5000)
    )
    answer = gate.ask("POST", f"{BUCKET}?delete", f"<Delete>{items}</Delete>".encode())
    assert answer.status == 200
    result = ET.fromstring(answer.body)
    assert [each.text for each in result.iterfind("{*}Deleted/{*}Key")] == ["main/valid"]
    assert [each.text for each in result.iterfind("{*}Error/{*}Code")] == ["KeyTooLongError"]


def test_buckets_are_listed_in_pages() -> None:
    with gateway_client(default_namespace_prefix="mem://lakes") as gate:
        for name in ("one", "other"):
            gate.ask("PUT", f"/{name}")
        whole = ET.fromstring(gate.ask("GET", "/").body)
        assert whole.find("{*}ContinuationToken") is None
        names = [each.text for each in whole.iterfind(".//{*}Name")]
        assert names == sorted([REPOSITORY, "one", "other"])
        found, token = [], ""
        for _ in names:
            page = ET.fromstring(gate.ask("GET", f"/?max-buckets=1{token}").body)
            (only,) = page.iterfind(".//{*}Name")
            found.append(only.text)
            token = f"&continuation-token={quote(page.findtext('{*}ContinuationToken') or '')}"
        assert found == names
        assert page.find("{*}ContinuationToken") is None
        page = ET.fromstring(gate.ask("GET", "/?prefix=o&max-buckets=5").body)
        assert [each.text for each in page.iterfind(".//{*}Name")] == ["one", "other"]
        assert page.findtext("{*}Prefix") == "o"
        for wrong in ("max-buckets=0", "max-buckets=10001", "continuation-token=%21"):
            assert gate.ask("GET", f"/?{wrong}").code == "InvalidArgument"


@pytest.mark.parametrize(
    ("setting", "root", "text"),
    [
        ("accelerate", "AccelerateConfiguration", ""),
        ("logging", "BucketLoggingStatus", ""),
        ("notification", "NotificationConfiguration", ""),
        ("requestPayment", "RequestPaymentConfiguration", "BucketOwner"),
    ],
)
def test_settings_that_are_not_set(gate: GatewayClient, setting: str, root: str, text: str) -> None:
    answer = gate.ask("GET", f"{BUCKET}?{setting}")
    document = ET.fromstring(answer.body)
    found = (answer.status, document.tag.partition("}")[2], "".join(document.itertext()))
    assert found == (200, root, text)
    assert gate.ask("PUT", f"{BUCKET}?{setting}", b"x").code == "ERRLakeFSNotSupported"


def test_an_acl_that_changes_nothing_is_accepted(gate: GatewayClient) -> None:
    gate.ask("PUT", KEY, b"there")
    for target in (f"{KEY}?acl", f"{BUCKET}?acl"):
        own = gate.ask("GET", target).body
        assert gate.ask("PUT", target, own).status == 200  # s3cmd copies the ACL of a source
        assert gate.ask("PUT", target, headers={"x-amz-acl": "private"}).status == 200
        public = gate.ask("PUT", target, headers={"x-amz-acl": "public-read"})
        assert (public.status, public.code) == (501, "NotImplemented")
        grantee = b"<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>"
        shared = own.replace(
            b"<ID>admin</ID><DisplayName>admin</DisplayName></Grantee>", grantee + b"</Grantee>"
        )
        assert shared != own
        refused = gate.ask("PUT", target, shared)
        assert (refused.status, refused.code) == (405, "ERRLakeFSNotSupported")
        assert b"global/AllUsers" in refused.body
        assert gate.ask("PUT", target).code == "MalformedXML"
    assert gate.ask("PUT", f"{BUCKET}/main/none?acl", own).code == "NoSuchKey"


def test_a_range_of_the_last_0_bytes_is_not_satisfiable(gate: GatewayClient) -> None:
    gate.ask("PUT", KEY, b"there")
    answer = gate.ask("GET", KEY, headers={"range": "bytes=-0"})
    assert (answer.status, answer.code) == (416, "InvalidRange")
    assert answer.headers["content-range"] == "bytes */5"


def test_a_completed_upload_tells_its_url(gate: GatewayClient) -> None:
    target = f"{BUCKET}/main/two%20parts"
    created = ET.fromstring(gate.ask("POST", f"{target}?uploads").body)
    upload = f"{target}?uploadId={created.findtext('{*}UploadId')}"
    etag = gate.ask("PUT", f"{upload}&partNumber=1", b"part").headers["etag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    done = ET.fromstring(gate.ask("POST", upload, body).body)
    assert done.findtext("{*}Location") == f"http://{HOST}{target}"


@pytest.mark.parametrize("token", ["", "!!", "a", "gA=="])
def test_a_continuation_token_that_the_server_did_not_make_is_refused(
    gate: GatewayClient, token: str
) -> None:
    query = f"list-type=2&prefix=main%2F&continuation-token={quote(token)}"
    assert gate.ask("GET", f"{BUCKET}?{query}").code == "InvalidArgument"


def test_texts_that_cannot_be_headers_are_left_out(gate: GatewayClient) -> None:
    gate.services.catalog.uploads.upload(
        RepositoryID(REPOSITORY),
        BranchID("main"),
        b"odd",
        [b"x"],
        content_type="text/plain\r\nSet-Cookie: a=b",
        metadata={"::lakebed::header::expires": "never\r\nSet-Cookie: a=b"},
    )
    answer = gate.ask("HEAD", f"{BUCKET}/main/odd")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "expires" not in answer.headers


def test_keys_that_cannot_be_written(gate: GatewayClient) -> None:
    refs, repository = gate.services.catalog.refs, RepositoryID(REPOSITORY)
    assert gate.ask("PUT", KEY, b"x").status == 200
    request = CommitRequest(committer="ann", message="m")
    head = gate.services.catalog.commits.commit(repository, BranchID("main"), request).commit.id
    for target, code in [
        (f"{BUCKET}/{head}/key", "NoSuchBucket"),
        (f"{BUCKET}/main", "InvalidArgument"),
        ("/nowhere/main/key", "NoSuchBucket"),
    ]:
        assert gate.ask("PUT", target, b"x").code == code
    gate.services.catalog.ref_changes.create_tag(repository, TagID("v1"), "main")
    for ref, is_ in [
        ("v1", "a tag"),
        ("main~1", "a commit"),
        (head[:10], "a commit"),
        (head, "a commit"),
        ("main@", "a view of branch main"),
    ]:
        for method in ("PUT", "DELETE"):
            answer = gate.ask(method, f"{BUCKET}/{quote(ref)}/key")
            assert (answer.status, answer.code) == (404, "NoSuchBucket")
            detail = ET.fromstring(answer.body).findtext("Detail")
            assert detail == f"branch not found: {ref} is {is_}, and only branches can be changed"
    refs.set_protection(repository, ["main"])
    try:
        assert gate.ask("PUT", KEY, b"x").code == "ErrWriteToProtectedBranch"
        assert gate.ask("DELETE", KEY).code == "ErrWriteToProtectedBranch"
    finally:
        refs.set_protection(repository, [])


def test_the_folder_of_a_branch_always_exists(gate: GatewayClient) -> None:
    assert gate.ask("PUT", f"{BUCKET}/main/", b"").status == 200
    assert gate.ask("DELETE", f"{BUCKET}/main/").status == 204
    assert gate.ask("PUT", f"{BUCKET}/main/", b"data").code == "EntityTooLarge"
    assert gate.ask("PUT", f"{BUCKET}/other/", b"").code == "NoSuchBucket"


def refuse(*_: object, **__: object) -> None:
    raise Overloaded("busy")


def test_a_request_takes_one_slot_for_who_signed_it(
    gate: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gate.ask("GET", "/").status == 200  # the credentials are cached
    slots: list[Holder] = []
    take = FairPool.take

    def watched(pool: FairPool, amount: int, holder: Holder) -> None:
        slots.append(holder)
        take(pool, amount, holder)

    monkeypatch.setattr(FairPool, "take", watched)
    assert gate.ask("GET", "/").status == 200
    unknown = KeyPair(access_key_id="AKIAUNKNOWN2", secret_access_key="a-secret")
    assert gate.ask("GET", "/", pair=unknown).status == 403
    assert slots == [(("admin", ""),), (("", "unknown"), ANONYMOUS)]
    monkeypatch.setattr(Admission, "admit", refuse)
    assert gate.ask("GET", "/").code == "SlowDown"


def test_a_small_body_is_waited_for_in_a_slot_for_bodies(
    gate: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.server.http.admission._RequestSlot.while_reading", refuse)
    assert gate.ask("POST", f"{BUCKET}?delete", b"<Delete/>").code == "SlowDown"
    assert gate.ask("GET", "/").status == 200


def test_other_requests_go_to_the_api(gate: GatewayClient) -> None:
    answer = gate.ask("GET", "/api/v1/repositories", pair=None)
    assert answer.status == 401
    assert answer.headers["content-type"] == "application/json"


def test_other_kinds_of_signatures_are_refused_as_s3_errors(gate: GatewayClient) -> None:
    for target, header in [
        ("/?AWSAccessKeyId=AK&Signature=x&Expires=1", None),  # not of an object
        ("/", "AWS3 AK:x"),
    ]:
        headers = {"authorization": header} if header else {}
        answer = gate.ask("GET", target, pair=None, headers=headers)
        assert (answer.status, answer.code) == (400, "InvalidRequest")


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=5))
def test_headers_of_any_metadata_are_printable_ascii(metadata: dict[str, str]) -> None:
    for name, value in metadata_headers(metadata).items():
        assert name.isascii()
        assert value.isascii()
        assert value == "" or value.isprintable()


def test_metadata_set_by_s3_and_by_the_api_is_shown(gate: GatewayClient) -> None:
    gate.ask("PUT", KEY, b"x", headers={"x-amz-meta-one": "plain", "x-amz-meta-two": "grüß"})
    stats = gate.services.catalog.objects.stat(RepositoryID(REPOSITORY), "main", b"key")
    assert stats.metadata["X-Amz-Meta-one"] == "plain"
    both = {**stats.metadata, "three": "by the API"}
    gate.services.catalog.copies.set_metadata(
        RepositoryID(REPOSITORY), BranchID("main"), b"key", both
    )
    headers = gate.ask("HEAD", KEY).headers
    assert headers["x-amz-meta-one"] == "plain"
    assert headers["x-amz-meta-three"] == "by the API"
    assert headers["x-amz-meta-two"].startswith("=?utf-8?q?")


@pytest.mark.parametrize("prefix", ["mem://", "mem://lakes", "mem://lakes/", "MEM://lakes/deep"])
def test_a_bucket_is_made_below_any_prefix(prefix: str) -> None:
    with gateway_client(default_namespace_prefix=prefix) as gate:
        assert gate.ask("PUT", "/made").status == 200
        made = gate.services.catalog.repositories.get(RepositoryID("made"))
    place = prefix.lower() if prefix.endswith("/") else f"{prefix.lower()}/"
    assert str(made.namespace) == f"{place}made/"
