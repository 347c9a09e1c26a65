"""Forms with an object, signed by a policy, as boto3 makes them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

import boto3
import pytest
from botocore.config import Config

from lakebed.auth import Action, Effect, KeyPair, Statement
from tests.server.kit import ADMIN, REPOSITORY
from tests.server.s3.gateway_client import HOST, Answer, GatewayClient, gateway_client
from tests.server.s3.kit import environ_of

BUCKET = f"/{REPOSITORY}"
KEY = "main/posted"


@pytest.fixture(scope="module")
def gate() -> Iterator[GatewayClient]:
    with gateway_client() as opened:
        yield opened


def signed(
    fields: Mapping[str, str] | None = None,
    conditions: list[Any] | None = None,
    *,
    key: str = KEY,
    seconds: int = 60,
    pair: KeyPair = ADMIN,
) -> dict[str, str]:
    """Return the fields of a form; each of `fields` has its condition in the policy."""
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{HOST}",
        aws_access_key_id=pair.access_key_id,
        aws_secret_access_key=pair.secret_access_key,
        region_name="us-east-1",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    fields = dict(fields or {})
    own = [{name: value} for name, value in fields.items()]
    made = client.generate_presigned_post(
        REPOSITORY, key, Fields=fields, Conditions=own + (conditions or []), ExpiresIn=seconds
    )
    found: dict[str, str] = made["fields"]
    return found


def body_of(fields: Mapping[str, str], content: bytes, filename: str = "a.csv") -> bytes:
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    disposition = f'form-data; name="file"; filename="{filename}"'
    head = f"--b\r\nContent-Disposition: {disposition}\r\n\r\n"
    return "".join([*parts, head]).encode() + content + b"\r\n--b--\r\n"


def post(
    gate: GatewayClient,
    fields: Mapping[str, str],
    content: bytes = b"data",
    filename: str = "a.csv",
) -> Answer:
    return send(gate, body_of(fields, content, filename))


def send(gate: GatewayClient, body: bytes, more: Mapping[str, str] | None = None) -> Answer:
    headers = {
        "content-type": "multipart/form-data; boundary=b",
        "content-length": str(len(body)),
        **(more or {}),
    }
    return gate.send(environ_of("POST", f"http://{HOST}{BUCKET}", headers), body)


def stored(gate: GatewayClient, key: str = KEY) -> Answer:
    return gate.ask("GET", f"{BUCKET}/{key}")


def test_a_form_stores_its_file_as_a_put_would(gate: GatewayClient) -> None:
    fields = {
        "Content-Type": "text/csv",
        "Cache-Control": "no-cache",
        "x-amz-meta-colour": "grün",
        "acl": "private",
        "tagging": "<Tagging><TagSet><Tag><Key>a</Key><Value>b c</Value></Tag></TagSet></Tagging>",
    }
    answer = post(gate, signed(fields), b"a,b\r\n")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["location"] == f"http://{HOST}{BUCKET}/{KEY}"
    found = stored(gate)
    assert found.body == b"a,b\r\n"
    assert found.headers["etag"] == answer.headers["etag"]
    assert found.headers["content-type"] == "text/csv"
    assert found.headers["cache-control"] == "no-cache"
    assert found.headers["x-amz-meta-colour"] == "=?utf-8?q?gr=C3=BCn?="
    assert found.headers["x-amz-tagging-count"] == "1"
    assert b"<Value>b c</Value>" in gate.ask("GET", f"{BUCKET}/{KEY}?tagging").body


def test_headers_of_the_request_are_not_stored_with_the_object(gate: GatewayClient) -> None:
    sent = {"cache-control": "max-age=0", "content-encoding": "gzip", "x-amz-meta-a": "b"}
    assert send(gate, body_of(signed(), b"data"), sent).status == 204
    assert stored(gate).headers.keys().isdisjoint(sent)


@pytest.mark.parametrize("filename", ["new file.csv", "folder/new file.csv", "C:\\x\\new file.csv"])
def test_a_key_can_contain_the_name_of_the_file(gate: GatewayClient, filename: str) -> None:
    fields = signed(key="main/in/${filename}")
    assert post(gate, fields, b"new", filename.replace("\\", "\\\\")).status == 204
    assert stored(gate, "main/in/new%20file.csv").body == b"new"


def test_what_a_form_asks_to_be_answered(gate: GatewayClient) -> None:
    answers = {
        status: post(gate, signed({"success_action_status": status}))
        for status in ("200", "201", "204", "500")
    }
    assert [answer.status for answer in answers.values()] == [200, 201, 204, 204]
    made = ET.fromstring(answers["201"].body)
    assert made.findtext("{*}Key") == KEY
    assert made.findtext("{*}Location") == f"http://{HOST}{BUCKET}/{KEY}"
    for url, separator in (("https://app.example/done", "?"), ("http://app.example/?a=b", "&")):
        answer = post(gate, signed({"success_action_redirect": url}))
        assert answer.status == 303
        etag = answer.headers["etag"].strip('"')
        expected = f"{url}{separator}bucket={REPOSITORY}&key=main%2Fposted&etag=%22{etag}%22"
        assert answer.headers["location"] == expected
    for no_url in ("javascript:alert(1)", "https://a b"):
        assert post(gate, signed({"success_action_redirect": no_url})).status == 204


@pytest.mark.parametrize(
    ("size", "code"), [(2, "EntityTooSmall"), (3, ""), (5, ""), (6, "EntityTooLarge")]
)
def test_the_policy_limits_the_size(gate: GatewayClient, size: int, code: str) -> None:
    key = f"main/sized-{size}"
    answer = post(gate, signed(None, [["content-length-range", 3, 5]], key=key), b"x" * size)
    assert (answer.status, answer.code if answer.body else "") == (400 if code else 204, code)
    assert (stored(gate, key).status == 200) == (not code)


def with_policy(
    change: Callable[[dict[str, Any]], object], fields: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a form whose policy is changed and signed again."""
    from botocore.auth import S3SigV4PostAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    policy = {
        "expiration": (datetime.now(UTC) + timedelta(minutes=1)).isoformat(),
        "conditions": [{"bucket": REPOSITORY}, {"key": KEY}],
    }
    change(policy)
    request = AWSRequest("POST", f"http://{HOST}{BUCKET}")
    request.context["s3-presign-post-fields"] = {"key": KEY, **(fields or {})}
    request.context["s3-presign-post-policy"] = policy
    pair = Credentials(ADMIN.access_key_id, ADMIN.secret_access_key)
    S3SigV4PostAuth(pair, "s3", "us-east-1").add_auth(request)
    found: dict[str, str] = request.context["s3-presign-post-fields"]
    return found


@pytest.mark.parametrize(
    ("condition", "fields", "said"),
    [
        ({"x-amz-meta-a": "b"}, {}, "does not meet the condition"),
        ({"x-amz-meta-a": "b"}, {"x-amz-meta-a": "c"}, "does not meet the condition"),
        (["eq", "$x-amz-meta-a", "b"], {"x-amz-meta-a": "bb"}, "does not meet the condition"),
        (
            ["starts-with", "$X-Amz-Meta-A", "b"],
            {"x-amz-meta-a": "c"},
            "does not meet the condition",
        ),
        (["eq", "$bucket", "other"], {}, "does not meet the condition"),
        (["eq", "$key", "main/other"], {}, "does not meet the condition"),
        ({}, {"x-amz-meta-a": "b"}, "no condition for x-amz-meta-a"),
        ({}, {"success_action_status": "201"}, "no condition for success_action_status"),
    ],
)
def test_a_form_that_does_not_fit_its_policy_is_refused(
    gate: GatewayClient, condition: object, fields: dict[str, str], said: str
) -> None:
    made = with_policy(lambda policy: policy["conditions"].append(condition), fields)
    gate.ask("DELETE", f"{BUCKET}/{KEY}")
    answer = post(gate, made)
    assert (answer.status, answer.code) == (403, "AccessDenied")
    assert said in answer.body.decode()
    assert stored(gate).code == "NoSuchKey"


def test_a_policy_names_its_bucket(gate: GatewayClient) -> None:
    answer = post(gate, with_policy(lambda policy: policy["conditions"].pop(0)))
    assert (answer.status, answer.code) == (403, "AccessDenied")
    assert b"no condition for bucket" in answer.body


@pytest.mark.parametrize(
    "condition",
    [
        ["starts-with", "$x-amz-meta-a", "b"],
        ["starts-with", "$X-Amz-Meta-A", ""],
        ["eq", "$x-amz-meta-a", "bc"],
        {"X-Amz-Meta-a": "bc"},
    ],
)
def test_a_form_that_fits_its_policy_is_stored(gate: GatewayClient, condition: object) -> None:
    made = with_policy(
        lambda policy: policy["conditions"].append(condition), {"x-amz-meta-A": "bc"}
    )
    assert post(gate, {**made, "x-ignore-me": "x"}).status == 204


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: policy.pop("expiration"),
        lambda policy: policy.update(expiration="soon"),
        lambda policy: policy["conditions"].append("all"),
        lambda policy: policy["conditions"].append(["ends-with", "$key", "d"]),
        lambda policy: policy["conditions"].append(["eq", "key", "main/posted"]),
        lambda policy: policy["conditions"].append(["content-length-range", "a", 2]),
    ],
)
def test_an_invalid_policy_is_refused(gate: GatewayClient, change: Callable[[Any], object]) -> None:
    answer = post(gate, with_policy(change))
    assert (answer.status, answer.code) == (400, "InvalidPolicyDocument")


def test_an_expired_policy_is_refused(gate: GatewayClient) -> None:
    answer = post(gate, signed(seconds=-1))
    assert (answer.status, answer.code) == (403, "AccessDenied")
    assert b"the policy has expired" in answer.body


def test_a_form_must_be_signed(gate: GatewayClient) -> None:
    fields = signed(key="main/forged")
    policy = json.loads(b64decode(fields["policy"]))
    policy["conditions"].append(["starts-with", "$x-amz-meta-a", ""])
    forged = b64encode(json.dumps(policy).encode()).decode()
    stranger = KeyPair(access_key_id="AKIAUNKNOWN", secret_access_key="x")
    wrong = KeyPair(access_key_id=ADMIN.access_key_id, secret_access_key="wrong")
    for made, code in (
        ({**fields, "policy": forged}, "SignatureDoesNotMatch"),
        ({**fields, "x-amz-date": "20200101T000000Z"}, "InvalidArgument"),
        (signed(key="main/forged", pair=wrong), "SignatureDoesNotMatch"),
        (signed(key="main/forged", pair=stranger), "InvalidAccessKeyId"),
        ({"key": "main/forged"}, "AccessDenied"),
        ({"key": "k", "policy": "", "AWSAccessKeyId": "a", "signature": "s"}, "InvalidRequest"),
        ({**fields, "x-amz-security-token": "t"}, "InvalidToken"),
        ({**fields, "x-amz-signature": "0" * 64}, "SignatureDoesNotMatch"),
    ):
        assert post(gate, made).code == code
    assert stored(gate, "main/forged").code == "NoSuchKey"


def test_a_form_needs_the_permission_to_write(gate: GatewayClient) -> None:
    arn = f"arn:lakefs:fs:::repository/{REPOSITORY}/object/posted"
    allowed = Statement(effect=Effect.ALLOW, actions=(Action.WRITE_OBJECT,), resource=arn)
    assert post(gate, signed(pair=gate.user("writer", allowed))).status == 204
    other = signed(key="main/other", pair=gate.user("other-writer", allowed))
    assert post(gate, other).code == "AccessDenied"
    assert stored(gate, "main/other").code == "NoSuchKey"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"acl": "public-read"}, 501),
        ({"x-amz-storage-class": "GLACIER"}, 501),
        ({"x-amz-server-side-encryption": "AES256"}, 501),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, 400),
        ({"tagging": "<Tagging"}, 400),
    ],
)
def test_what_a_put_would_refuse_is_refused(
    gate: GatewayClient, fields: dict[str, str], status: int
) -> None:
    gate.ask("DELETE", f"{BUCKET}/{KEY}")
    assert post(gate, signed(fields)).status == status
    assert stored(gate).code == "NoSuchKey"


def test_a_checksum_in_a_form_is_verified_and_kept(gate: GatewayClient) -> None:
    assert post(gate, signed({"x-amz-checksum-crc32": "rfPzYw=="}), b"data").status == 204
    found = gate.ask("HEAD", f"{BUCKET}/{KEY}", headers={"x-amz-checksum-mode": "ENABLED"})
    assert found.headers["x-amz-checksum-crc32"] == "rfPzYw=="


def test_forms_that_are_none(gate: GatewayClient) -> None:
    whole = body_of(signed(key="main/cut"), b"data" * 100)
    large = body_of({**signed(key="main/cut"), "x-ignore-": "x" * (20 << 10)}, b"data")
    twice = whole.replace(
        b"--b\r\n", b'--b\r\nContent-Disposition: form-data; name="KEY"\r\n\r\nx\r\n--b\r\n', 1
    )
    no_file = whole.replace(b'name="file"', b'name="fill"')
    for body in (b"", b"x", large, twice, no_file):
        answer = send(gate, body)
        assert answer.status == 400
        assert answer.code in {"MalformedPOSTRequest", "IncompleteBody"}
    assert send(gate, large).code == send(gate, twice).code == "MalformedPOSTRequest"
    assert send(gate, whole[:-300]).status == 400
    assert stored(gate, "main/cut").code == "NoSuchKey"
    assert send(gate, whole).status == 204
    signed_by_header = gate.ask("POST", BUCKET, b"x")
    assert signed_by_header.code == "MalformedPOSTRequest"
