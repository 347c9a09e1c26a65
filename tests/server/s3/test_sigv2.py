"""botocore presigns by version 2, Lakebed verifies."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from botocore.auth import HmacV1QueryAuth
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


def verified(environ: Environ, now: datetime | None = None) -> str:
    asked = route(environ, domain=DOMAIN)
    now = now or datetime.now(UTC)
    return sigv2.verify(environ, asked, secret_for, now=now).identity


def refusal(environ: Environ, now: datetime | None = None) -> ErrorCode:
    with pytest.raises(S3Error) as caught:
        verified(environ, now)
    return caught.value.code


@given(keys, st.sampled_from(["GET", "PUT"]), st.sampled_from(["", "?response-content-type=a%2Fb"]))
def test_what_botocore_presigns_is_accepted(key: str, method: str, query: str) -> None:
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
