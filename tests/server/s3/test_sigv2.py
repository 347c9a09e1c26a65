"""botocore signs and presigns by version 2, Lakebed verifies."""

import hmac
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lakebed.server.s3 import sigv2
from lakebed.server.s3.environ import Environ, query_parameters
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.router import route
from tests.server.s3.kit import ACCESS_KEY, SECRET, environ_of, one_bit_changed, secret_for

DOMAIN = "s3.local.lakefs.io"
HOST = "127.0.0.1:8000"
keys = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)


def presigned(
    method: str, target: str, headers: dict[str, str] | None = None, expires: int = 60
) -> Environ:
    request = AWSRequest(method, f"http://{HOST}{target}", headers=headers or {})
    HmacV1QueryAuth(Credentials(ACCESS_KEY, SECRET), expires=expires).add_auth(request)
    assert request.url
    return environ_of(method, request.url, headers or {})


def signed(method: str, target: str, headers: dict[str, str] | None = None) -> Environ:
    """A request that is signed in its headers."""
    request = AWSRequest(method, f"http://{HOST}{target}", headers=headers or {})
    HmacV1Auth(Credentials(ACCESS_KEY, SECRET)).add_auth(request)
    return environ_of(method, f"http://{HOST}{target}", dict(request.headers.items()))


def signed_by_hand(host: str, target: str, resource: str, headers: dict[str, str]) -> Environ:
    """A GET as Amazon describes it; `headers` hold x-amz-date at most."""
    lines = ["GET", "", "", ""] if headers else ["GET", "", "", format_datetime(datetime.now(UTC))]
    lines += [f"{name}:{value}" for name, value in sorted(headers.items())]
    text = "\n".join([*lines, resource]).encode()
    signature = b64encode(hmac.digest(SECRET.encode(), text, "sha1")).decode()
    dated = headers or {"date": lines[3]}
    authorization = {"authorization": f"AWS {ACCESS_KEY}:{signature}"}
    return environ_of("GET", f"http://{host}{target}", dated | authorization)


def verified(environ: Environ, now: datetime | None = None) -> str:
    asked = route(environ, domain=DOMAIN)
    now = now or datetime.now(UTC)
    return sigv2.verify(environ, asked, secret_for, now=now).identity


def refusal(environ: Environ, now: datetime | None = None) -> ErrorCode:
    with pytest.raises(S3Error) as caught:
        verified(environ, now)
    return caught.value.code


@given(keys, st.sampled_from(["GET", "PUT"]), st.sampled_from(["", "?response-content-type=a%2Fb"]))
def test_urls_presigned_by_botocore_are_accepted(key: str, method: str, query: str) -> None:
    headers = {"content-type": "text/plain", "x-amz-meta-a": "b c"} if method == "PUT" else {}
    environ = presigned(method, f"/lake/main/{quote(key, safe='/~')}{query}", headers)
    assert verified(environ) == "jane"


def test_a_signed_parameter_may_have_any_name() -> None:
    environ = presigned("GET", "/lake/main/a?response-content-type=a")
    environ["QUERY_STRING"] += "&response-%E2%82%AC=x"
    assert refusal(environ) is ErrorCode.SIGNATURE_DOES_NOT_MATCH


def test_one_bit_changed_anywhere_is_refused() -> None:
    headers = {"content-type": "text/plain", "content-md5": "XUFAKrxLKna5cZ2REBfFkg=="}
    environ = presigned("PUT", "/lake/main/a%20b?partNumber=1&uploadId=abc", headers)
    assert verified(environ) == "jane"
    for name, value in environ.items():
        if name == "HTTP_HOST":
            continue
        for changed in one_bit_changed(value):
            mutant = {**environ, name: changed}
            try:
                verified(mutant)
            except S3Error:
                continue
            assert name == "QUERY_STRING"
            same = sorted(query_parameters(changed)) == sorted(query_parameters(value))
            assert same, changed


def test_a_url_expires_and_lives_a_week_at_most() -> None:
    environ = presigned("GET", "/lake/main/a", expires=60)
    now = datetime.now(UTC)
    assert refusal(environ, now + timedelta(seconds=62)) is ErrorCode.ACCESS_DENIED
    late = presigned("GET", "/lake/main/a", expires=8 * 24 * 3600)
    assert refusal(late) is ErrorCode.ACCESS_DENIED


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/lake?prefix=main%2F"),
        ("GET", "/"),
        ("DELETE", "/lake/main/a"),
        ("POST", "/lake?delete"),
        ("POST", "/lake/main/a?uploads"),
    ],
)
def test_version_2_signs_only_reading_and_writing_an_object(method: str, target: str) -> None:
    assert refusal(presigned(method, target)) is ErrorCode.INVALID_REQUEST


def test_headers_and_parameters_cannot_be_added() -> None:
    environ = presigned("PUT", "/lake/main/a")
    copy = {**environ, "HTTP_X_AMZ_META_A": "b"}
    assert refusal(copy) is ErrorCode.SIGNATURE_DOES_NOT_MATCH
    more = {**environ, "QUERY_STRING": environ["QUERY_STRING"] + "&partNumber=1"}
    assert refusal(more) is ErrorCode.SIGNATURE_DOES_NOT_MATCH
    other = {**environ, "QUERY_STRING": environ["QUERY_STRING"] + "&some=thing"}
    assert refusal(other) is ErrorCode.ACCESS_DENIED


@given(st.text(st.characters(max_codepoint=255)), st.text(st.characters(max_codepoint=255)))
def test_any_query_is_refused_with_an_s3_error(expires: str, signature: str) -> None:
    environ = environ_of("GET", f"http://{HOST}/lake/main/a", {})
    query = f"AWSAccessKeyId={ACCESS_KEY}&Expires={quote(expires)}&Signature={quote(signature)}"
    refusal({**environ, "QUERY_STRING": query})


@given(keys, st.sampled_from(["GET", "PUT", "HEAD", "DELETE"]))
def test_headers_signed_by_botocore_are_accepted(key: str, method: str) -> None:
    headers = {"content-type": "text/plain", "x-amz-meta-a": "b  c"}
    environ = signed(method, f"/lake/main/{quote(key, safe='/~')}", headers)
    assert verified(environ) == "jane"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/"),
        ("GET", "/lake?prefix=main%2F&delimiter=%2F&max-keys=7"),
        ("GET", "/lake?list-type=2&prefix=main%2F&encoding-type=url"),
        ("GET", "/lake?location"),
        ("GET", "/lake?uploads&prefix=main%2F"),
        ("GET", "/lake/main/a?uploadId=abc&max-parts=5"),
        ("POST", "/lake?delete"),
        ("POST", "/lake/main/a?uploads"),
        ("POST", "/lake/main/a?uploadId=abc"),
        ("PUT", "/lake/main/a?partNumber=1&uploadId=abc"),
        ("GET", "/lake/main/a?response-content-type=a%2Fb"),
    ],
)
def test_every_operation_is_signed_in_headers(method: str, target: str) -> None:
    assert verified(signed(method, target)) == "jane"


def test_a_hash_that_is_signed_is_that_of_the_body() -> None:
    for payload in ("a" * 64, "UNSIGNED-PAYLOAD"):
        environ = signed("PUT", "/lake/main/a", {"x-amz-content-sha256": payload})
        asked = route(environ, domain=DOMAIN)
        found = sigv2.verify(environ, asked, secret_for, now=datetime.now(UTC))
        assert found.payload == payload


def test_text_beyond_ascii_in_metadata_is_signed_as_its_bytes() -> None:
    """botocore refuses such values; other clients sign the UTF-8 that they send."""
    headers = {"x-amz-date": format_datetime(datetime.now(UTC)), "x-amz-meta-name": "grün"}
    target = "/lake/main/a"
    assert verified(signed_by_hand(HOST, target, target, headers)) == "jane"
    changed = {**signed_by_hand(HOST, target, target, headers), "HTTP_X_AMZ_META_NAME": "grun"}
    assert refusal(changed) is ErrorCode.SIGNATURE_DOES_NOT_MATCH


@pytest.mark.parametrize(
    ("host", "target", "resource"),
    [
        (HOST, "/lake/main/a", "/lake/main/a"),
        (f"{DOMAIN}:8000", "/lake/main/a", "/lake/main/a"),
        (HOST, "/lake", "/lake"),
        (HOST, "/lake?prefix=main%2F", "/lake/"),
        (HOST, "/lake/?location", "/lake/?location"),
        (f"lake.{DOMAIN}:8000", "/main/a", "/lake/main/a"),
        (f"lake.{DOMAIN}", "/?prefix=main%2F", "/lake/"),
        (f"lake.{DOMAIN}", "/?uploads=", "/lake/?uploads"),
    ],
)
def test_a_bucket_may_stand_in_the_path_or_in_the_host(
    host: str, target: str, resource: str
) -> None:
    now = datetime.now(UTC)
    for date in (None, format_datetime(now), now.strftime("%Y%m%dT%H%M%SZ")):
        environ = signed_by_hand(host, target, resource, {"x-amz-date": date} if date else {})
        assert verified(environ) == "jane"


def test_one_bit_changed_in_a_signed_header_is_refused() -> None:
    headers = {"content-type": "text/plain", "content-md5": "XUFAKrxLKna5cZ2REBfFkg=="}
    headers["x-amz-meta-a"] = "b"
    environ = signed("PUT", "/lake/main/a%20b?partNumber=1&uploadId=abc", headers)
    assert verified(environ) == "jane"
    for name, value in environ.items():
        if name == "HTTP_HOST":
            continue
        for changed in one_bit_changed(value):
            mutant = {**environ, name: changed}
            try:
                verified(mutant)
            except S3Error:
                continue
            same = sorted(query_parameters(changed)) == sorted(query_parameters(value))
            assert name == "QUERY_STRING", (name, changed)
            assert same, changed


def test_a_signature_in_a_header_is_good_for_15_minutes() -> None:
    environ = signed("GET", "/lake/main/a")
    now = datetime.now(UTC)
    for skew in (timedelta(minutes=-16), timedelta(minutes=16)):
        assert refusal(environ, now + skew) is ErrorCode.REQUEST_TIME_TOO_SKEWED
    assert verified(environ, now + timedelta(minutes=14)) == "jane"
    # The date that is signed is the one that counts.
    moved = {**environ, "HTTP_X_AMZ_DATE": format_datetime(now + timedelta(hours=1))}
    assert refusal(moved, now + timedelta(hours=1)) is ErrorCode.SIGNATURE_DOES_NOT_MATCH
    for missing in ("", "yesterday"):
        assert refusal({**environ, "HTTP_DATE": missing}) is ErrorCode.ACCESS_DENIED


def test_nothing_can_be_added_to_a_request_signed_in_headers() -> None:
    environ = signed("PUT", "/lake/main/a")
    copy = {**environ, "HTTP_X_AMZ_COPY_SOURCE": "/lake/main/b"}
    assert refusal(copy) is ErrorCode.SIGNATURE_DOES_NOT_MATCH
    part = {**environ, "QUERY_STRING": "partNumber=1&uploadId=u"}
    assert refusal(part) is ErrorCode.SIGNATURE_DOES_NOT_MATCH
    unsigned = {**signed("GET", "/lake/main/a"), "QUERY_STRING": "attributes"}
    assert refusal(unsigned) is ErrorCode.ACCESS_DENIED
    both = {**environ, "QUERY_STRING": "Expires=1&Signature=x"}
    assert refusal(both) is ErrorCode.INVALID_ARGUMENT
    chunks = {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
    assert refusal(signed("PUT", "/lake/main/a", chunks)) is ErrorCode.INVALID_REQUEST


@given(st.text(st.characters(max_codepoint=255)), st.text(st.characters(max_codepoint=255)))
def test_any_header_is_refused_with_an_s3_error(authorization: str, date: str) -> None:
    environ = environ_of("GET", f"http://{HOST}/lake/main/a", {})
    header = {"HTTP_AUTHORIZATION": f"AWS {authorization}", "HTTP_DATE": date}
    refusal({**environ, **header})
