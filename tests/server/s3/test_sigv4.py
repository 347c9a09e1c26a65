"""botocore signs, Lakebed verifies; a change of a request's meaning must break its signature."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.server.s3.environ import Environ, query_parameters
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4 import CLOCK_SKEW_MAX, verify
from lakebed.server.s3.sigv4_fields import ALGORITHM, EXPIRES_SECONDS_MAX
from tests.server.s3.kit import ACCESS_KEY, NOW, SECRET, environ_of, one_bit_changed, secret_for

CREDENTIALS = Credentials(ACCESS_KEY, SECRET)
REGION = "eu-west-1"

keys = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
spiky_keys = st.text(st.sampled_from(["/", " ", "+", "%", "~", "ü", "*", "'", "a", "="]))
parameters = st.lists(
    st.tuples(st.sampled_from(["prefix", "marker", "uploads", "x y", "ä+"]), keys), max_size=4
)
headers = st.dictionaries(
    st.sampled_from(["x-amz-meta-a", "x-amz-meta-b", "content-type", "content-md5", "x-custom"]),
    # botocore signs characters, the wire carries bytes; they are the same in ASCII only.
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
)


def url_of(path: str, query: list[tuple[str, str]]) -> str:
    text = "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in query)
    return f"http://127.0.0.1:8000/{quote(path, safe='/~')}{'?' if text else ''}{text}"


def signed(method: str, url: str, extra: dict[str, str] | None = None) -> Environ:
    request = AWSRequest(method, url, headers=extra or {}, data=b"")
    S3SigV4Auth(CREDENTIALS, "s3", REGION).add_auth(request)
    return environ_of(method, url, dict(request.headers.items()))


def presigned(
    method: str, url: str, extra: dict[str, str] | None = None, expires: int = 60
) -> Environ:
    request = AWSRequest(method, url, headers=extra or {})
    S3SigV4QueryAuth(CREDENTIALS, "s3", REGION, expires=expires).add_auth(request)
    assert request.url
    return environ_of(method, request.url, dict(request.headers.items()))


def time_of(environ: Environ) -> datetime:
    found = (
        environ.get("HTTP_X_AMZ_DATE")
        or dict(query_parameters(environ["QUERY_STRING"]))[b"X-Amz-Date"].decode()
    )
    return datetime.strptime(found, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def refusal(environ: Environ, now: datetime | None = None) -> ErrorCode:
    with pytest.raises(S3Error) as caught:
        verify(environ, secret_for, now=now or time_of(environ))
    return caught.value.code


def is_accepted(environ: Environ, now: datetime) -> bool:
    try:
        verify(environ, secret_for, now=now)
    except S3Error:
        return False
    return True


@example("GET", "a", [], {"x-amz-meta-a": " one  two   three "})
@given(st.sampled_from(["GET", "PUT", "DELETE"]), keys | spiky_keys, parameters, headers)
def test_requests_signed_by_botocore_are_accepted(
    method: str, key: str, query: list[tuple[str, str]], extra: dict[str, str]
) -> None:
    environ = signed(method, url_of(key, query), extra)
    verified = verify(environ, secret_for, now=time_of(environ))
    assert verified.identity == "jane"
    assert verified.payload == environ["HTTP_X_AMZ_CONTENT_SHA256"]


@given(keys | spiky_keys, st.dictionaries(st.sampled_from(["prefix", "versionId"]), keys), headers)
def test_urls_presigned_by_botocore_are_accepted(
    key: str, query: dict[str, str], extra: dict[str, str]
) -> None:
    environ = presigned("GET", url_of(key, list(query.items())), extra)
    verified = verify(environ, secret_for, now=time_of(environ))
    assert verified.identity == "jane"
    assert verified.payload == "UNSIGNED-PAYLOAD"


def meaning(environ: Environ) -> object:
    """What a request asks for, whatever its spelling; its signature is left out."""
    query = sorted(query_parameters(environ["QUERY_STRING"]))
    folded = {
        name: " ".join(value.split(" "))
        for name, value in environ.items()
        if name not in {"QUERY_STRING", "HTTP_AUTHORIZATION"}
    }
    return query, folded


@pytest.mark.parametrize("sign", [signed, presigned])
def test_one_bit_changed_anywhere_is_refused(sign: Callable[..., Environ]) -> None:
    extra = {"x-amz-meta-a": "some value", "content-md5": "XUFAKrxLKna5cZ2REBfFkg=="}
    environ = sign("PUT", url_of("main/a b+c%ü//d", [("prefix", "x y/ü"), ("empty", "")]), extra)
    now = time_of(environ)
    assert is_accepted(environ, now)
    tried = 0
    for name, value in environ.items():
        for changed in one_bit_changed(value):
            mutant = {**environ, name: changed}
            tried += 1
            if is_accepted(mutant, now):
                # Another spelling of the same, as of a hexadecimal digit in lower case.
                assert meaning(mutant) == meaning(environ), (name, changed)
    assert tried > 3000


@pytest.mark.parametrize("sign", [signed, presigned])
def test_an_amz_header_cannot_be_added(sign: Callable[..., Environ]) -> None:
    environ = sign("PUT", url_of("main/a", []))
    environ["HTTP_X_AMZ_COPY_SOURCE"] = "/secret/main/a"
    assert refusal(environ) is ErrorCode.ACCESS_DENIED


@pytest.mark.parametrize("sign", [signed, presigned])
def test_a_signed_header_or_parameter_cannot_be_taken_away(sign: Callable[..., Environ]) -> None:
    environ = sign("PUT", url_of("main/a", [("uploadId", "1")]), {"x-amz-meta-a": "1"})
    without_header = {name: value for name, value in environ.items() if "META" not in name}
    without_parameter = {
        **environ,
        "QUERY_STRING": environ["QUERY_STRING"].replace("uploadId=1", "").strip("&"),
    }
    assert refusal(without_header) is ErrorCode.SIGNATURE_DOES_NOT_MATCH
    assert refusal(without_parameter, time_of(environ)) is ErrorCode.SIGNATURE_DOES_NOT_MATCH


def test_the_host_must_be_signed() -> None:
    environ = signed("GET", url_of("main/a", []))
    environ["HTTP_AUTHORIZATION"] = environ["HTTP_AUTHORIZATION"].replace("host;", "")
    assert refusal(environ) is ErrorCode.AUTHORIZATION_HEADER_MALFORMED


def test_a_request_is_good_for_fifteen_minutes_either_way() -> None:
    environ = signed("GET", url_of("main/a", []))
    time = time_of(environ)
    second = timedelta(seconds=1)
    assert is_accepted(environ, time + CLOCK_SKEW_MAX)
    assert is_accepted(environ, time - CLOCK_SKEW_MAX)
    skewed = ErrorCode.REQUEST_TIME_TOO_SKEWED
    assert refusal(environ, time + CLOCK_SKEW_MAX + second) is skewed
    assert refusal(environ, time - CLOCK_SKEW_MAX - second) is skewed


def test_a_presigned_url_is_good_until_it_expires() -> None:
    environ = presigned("GET", url_of("main/a", []), expires=3600)
    time = time_of(environ)
    assert is_accepted(environ, time + timedelta(seconds=3600))
    assert refusal(environ, time + timedelta(seconds=3601)) is ErrorCode.ACCESS_DENIED
    early = time - CLOCK_SKEW_MAX - timedelta(seconds=1)
    assert refusal(environ, early) is ErrorCode.REQUEST_TIME_TOO_SKEWED


@pytest.mark.parametrize("expires", [0, -1, EXPIRES_SECONDS_MAX + 1])
def test_a_presigned_url_lives_a_second_to_a_week(expires: int) -> None:
    environ = presigned("GET", url_of("main/a", []), expires=expires)
    assert refusal(environ) is ErrorCode.AUTHORIZATION_QUERY_PARAMETERS
    week = presigned("GET", url_of("main/a", []), expires=EXPIRES_SECONDS_MAX)
    assert is_accepted(week, time_of(week) + timedelta(days=7))


def test_a_request_without_a_signature_is_refused() -> None:
    assert refusal(environ_of("GET", url_of("a", []), {}), NOW) is ErrorCode.ACCESS_DENIED


def test_an_unknown_key_and_a_wrong_secret_are_refused() -> None:
    environ = signed("GET", url_of("main/a", []))
    unknown = environ["HTTP_AUTHORIZATION"].replace(ACCESS_KEY, "AKIAOTHER")
    code = refusal({**environ, "HTTP_AUTHORIZATION": unknown})
    assert code is ErrorCode.INVALID_ACCESS_KEY_ID
    with pytest.raises(S3Error) as wrong:
        verify(environ, lambda _: ("jane", SECRET + "x"), now=time_of(environ))
    assert wrong.value.code is ErrorCode.SIGNATURE_DOES_NOT_MATCH


def test_a_request_signed_in_two_places_is_refused() -> None:
    environ = {**presigned("GET", url_of("a", [])), "HTTP_AUTHORIZATION": ALGORITHM + " x"}
    assert refusal(environ) is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("/s3/", "/sts/"), ErrorCode.AUTHORIZATION_HEADER_MALFORMED),
        (("aws4_request", "aws5_request"), ErrorCode.AUTHORIZATION_HEADER_MALFORMED),
        ((f"{ACCESS_KEY}/20", f"{ACCESS_KEY}/19"), ErrorCode.AUTHORIZATION_HEADER_MALFORMED),
        ((f"/{REGION}/", "/us-east-1/"), ErrorCode.SIGNATURE_DOES_NOT_MATCH),
        ((ALGORITHM, "AWS4-ECDSA-P256-SHA256"), ErrorCode.INVALID_REQUEST),
        ((ALGORITHM, "AWS"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_signature_of_another_scope_is_refused(change: tuple[str, str], code: ErrorCode) -> None:
    environ = signed("GET", url_of("main/a", []))
    environ["HTTP_AUTHORIZATION"] = environ["HTTP_AUTHORIZATION"].replace(*change)
    assert refusal(environ) is code


def test_amazons_own_example() -> None:
    environ = environ_of(
        "GET",
        "http://examplebucket.s3.amazonaws.com/test.txt",
        {
            "Range": "bytes=0-9",
            "x-amz-content-sha256": (
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
            ),
            "x-amz-date": "20130524T000000Z",
            "Authorization": (
                f"{ALGORITHM} Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request,"
                "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature="
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
            ),
        },
    )
    assert verify(environ, secret_for, now=time_of(environ)).identity == "jane"


latin = st.text(st.characters(max_codepoint=255), max_size=60)
fields = st.sampled_from(
    [
        f"Credential={ACCESS_KEY}/20261115/r/s3/aws4_request",
        "SignedHeaders=host",
        "SignedHeaders=",
        f"Signature={'0' * 64}",
        "Signature=",
        "=",
        "",
    ]
)


@given(
    st.just(f"{ALGORITHM} ") | latin,
    st.lists(fields | latin).map(",".join),
    latin,
    st.sampled_from(["20261115T120000Z", "20269999T999999Z", ""]) | latin,
)
def test_any_header_is_refused_with_an_s3_error(
    algorithm: str, rest: str, query: str, time: str
) -> None:
    environ = environ_of("GET", "http://h/", {"x-amz-date": time, "x-amz-content-sha256": "x"})
    environ |= {"HTTP_AUTHORIZATION": algorithm + rest, "QUERY_STRING": query}
    refusal(environ, NOW)


query_fields = st.sampled_from(
    [
        f"X-Amz-Algorithm={ALGORITHM}",
        f"X-Amz-Credential={ACCESS_KEY}/20261115/r/s3/aws4_request",
        "X-Amz-Date=20261115T120000Z",
        "X-Amz-Expires=60",
        "X-Amz-Expires=%00",
        "X-Amz-SignedHeaders=host",
        f"X-Amz-Signature={'0' * 64}",
        "X-Amz-Signature=%FF",
    ]
)


@given(st.lists(query_fields | latin, max_size=9).map("&".join), latin)
def test_any_query_is_refused_with_an_s3_error(query: str, path: str) -> None:
    environ = environ_of("GET", "http://h/", {})
    environ |= {"QUERY_STRING": query, "PATH_INFO": path}
    refusal(environ, NOW)
