"""Signatures of S3 requests, in headers and queries, and bodies in signed chunks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import strategies as st

from lakebed.server.s3 import sigv2
from lakebed.server.s3.chunked import ChunkDecoder
from lakebed.server.s3.environ import Environ, query_parameters
from lakebed.server.s3.errors import S3Error
from lakebed.server.s3.payload import open_body
from lakebed.server.s3.router import is_s3_request, route
from lakebed.server.s3.sigv4 import verify
from tests.fuzz.inputs import damaged, in_pieces, mostly, piece_sizes, texts, wire_text
from tests.fuzz.target import Targets, attempt
from tests.server.s3.kit import (
    ACCESS_KEY,
    NOW,
    SCOPE,
    SECRET,
    environ_of,
    secret_for,
    signed_chunks,
    unsigned_chunks,
)

targets: Final = Targets()

DOMAIN: Final = "s3.example.org"
TIME: Final = NOW.strftime("%Y%m%dT%H%M%SZ")
CREDENTIAL: Final = f"{ACCESS_KEY}/{TIME[:8]}/us-east-1/s3/aws4_request"
AUTHORIZATION: Final = (
    f"AWS4-HMAC-SHA256 Credential={CREDENTIAL},"
    f"SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature={'0' * 64}"
)
HEADER_WORDS: Final = [
    "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 ", "AWS ", "Credential=", CREDENTIAL, "SignedHeaders=",
    "host", "x-amz-date", "Signature=", "0" * 64, ",", ";", "/", "=", " ", "\t", "\x85", "ÿ", "",
]  # fmt: skip
QUERY: Final = "&".join(
    [
        "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        f"X-Amz-Credential={quote(CREDENTIAL, safe='')}",
        f"X-Amz-Date={TIME}",
        "X-Amz-Expires=60",
        "X-Amz-SignedHeaders=host",
        f"X-Amz-Signature={'0' * 64}",
    ]
)
EXPIRES: Final = int(NOW.timestamp()) + 60
OLD_QUERY: Final = f"AWSAccessKeyId={ACCESS_KEY}&Expires={EXPIRES}&Signature=AAAA"
QUERY_WORDS: Final = [
    "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Signature",
    "X-Amz-SignedHeaders", "AWSAccessKeyId", "Expires", "Signature", "response-", "partNumber=1",
    "uploadId=1", "uploads", "acl", "x-id=1", "x-amz-", "content-type", "=", "&", "%", "%2", "%00",
    "%ff", "%e2%82%ac", "+", "9" * 20, "-1", "\xe9", ACCESS_KEY,
]  # fmt: skip
ADDED: Final = [
    "response-content-type=a", "response-%e2%82%ac=1", "partNumber=1", "uploadId=%C3%BC", "x-id=1",
    "content-type=a", "x-amz-meta-a=", "acl", "prefix=a+b", "a", "=", "%3d=%26",
]  # fmt: skip
OLD_AUTHORIZATION: Final = f"AWS {ACCESS_KEY}:AAAA"
OLD_HEADER_WORDS: Final = ["AWS ", "AWS", ACCESS_KEY, ":", "AAAA", "=", " ", "ÿ", ""]
OLD_DATE: Final = format_datetime(NOW, usegmt=True)
OLD_DATE_WORDS: Final = [
    *OLD_DATE.split(" "), " ", ",", ":", "-0000", "+9999", "UTC", "0", "9" * 20, TIME, "²", "",
]  # fmt: skip
METHODS: Final = st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"])
PAYLOADS: Final = [
    "UNSIGNED-PAYLOAD", sha256().hexdigest(), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
]  # fmt: skip
paths: Final = st.sampled_from(["/", "/lake", "/lake/main/a", "//", "/lake/main/\xe9"]) | wire_text
hosts: Final = st.sampled_from(["127.0.0.1", DOMAIN, f"lake.{DOMAIN}", f"Ä.{DOMAIN}", ""])


@st.composite
def environs(draw: st.DrawFn, kinds: Sequence[str]) -> Environ:
    """Requests that say, somewhere and somehow, that they are signed."""
    environ: Environ = {
        "REQUEST_METHOD": draw(mostly(st.sampled_from(["GET", "PUT"]), METHODS)),
        "PATH_INFO": draw(mostly(st.just("/lake/main/a"), paths)),
        "HTTP_HOST": draw(mostly(st.just("127.0.0.1"), hosts)),
        "QUERY_STRING": "",
    }
    kind = draw(st.sampled_from(kinds))
    if kind in {"header", "both"}:
        environ["HTTP_AUTHORIZATION"] = draw(texts(HEADER_WORDS, st.just(AUTHORIZATION)))
        environ["HTTP_X_AMZ_DATE"] = draw(texts(["2026", "T", "Z", "0", "9", "²"], st.just(TIME)))
        environ["HTTP_X_AMZ_CONTENT_SHA256"] = draw(st.sampled_from(PAYLOADS) | wire_text)
    if kind == "old header":
        environ["HTTP_AUTHORIZATION"] = draw(texts(OLD_HEADER_WORDS, st.just(OLD_AUTHORIZATION)))
        date = draw(st.sampled_from(["HTTP_DATE", "HTTP_X_AMZ_DATE"]))
        environ[date] = draw(texts(OLD_DATE_WORDS, st.just(OLD_DATE)))
        environ["QUERY_STRING"] = draw(texts(QUERY_WORDS))
    elif kind != "header":
        signed = OLD_QUERY if kind == "old query" else QUERY
        added = st.lists(st.sampled_from(ADDED), unique=True, max_size=3)
        sound = added.map(lambda parameters: "&".join([signed, *parameters]))
        environ["QUERY_STRING"] = draw(
            st.one_of(sound, damaged(sound, QUERY_WORDS), texts(QUERY_WORDS))
        )
    names = ["HTTP_X_AMZ_META_A", "HTTP_X_AMZ_COPY_SOURCE", "CONTENT_TYPE", "HTTP_CONTENT_MD5"]
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        environ[name] = draw(wire_text)
    return environ


@targets.add(environs(["header", "query", "both"]))
def signatures_of_version_4(environ: Environ) -> None:
    """No request is accepted whose signature was guessed."""
    accepted = attempt(S3Error, verify, environ, secret_for, now=NOW)
    assert accepted is None


@targets.add(environs(["old query", "old header"]))
def signatures_of_version_2(environ: Environ) -> None:
    is_s3_request(environ, domain=DOMAIN)
    asked = attempt(S3Error, route, environ, domain=DOMAIN)
    if asked is not None and sigv2.has_signature(environ, asked):
        assert attempt(S3Error, sigv2.verify, environ, asked, secret_for, now=NOW) is None


def _signed(method: str, path: str, query: str, in_query: bool) -> Environ:
    url = f"http://127.0.0.1:8000/{quote(path, safe='/~')}?{quote(query, safe='=&~')}"
    headers = {"x-amz-meta-a": "some value"}
    request = AWSRequest(method, url, headers=headers, data=b"")
    credentials = Credentials(ACCESS_KEY, SECRET)
    if in_query:
        S3SigV4QueryAuth(credentials, "s3", "eu-west-1", expires=60).add_auth(request)
    else:
        S3SigV4Auth(credentials, "s3", "eu-west-1").add_auth(request)
    return environ_of(method, request.url or "", dict(request.headers.items()))


@st.composite
def tampered(draw: st.DrawFn) -> tuple[Environ, Environ]:
    """A request as it was signed, and what arrived: one of its strings was changed."""
    path = draw(st.text(st.sampled_from("a/ +%~ü"), max_size=8))
    query = draw(st.sampled_from(["", "prefix=x", "uploads", "a=&b=ü"]))
    sent = _signed(draw(METHODS), path, query, draw(st.booleans()))
    name = draw(st.sampled_from(sorted(sent)))
    words = [" ", "%20", "+", "&", "=", "/", "a", "\xfc", "%C3%BC", ""]
    return sent, {**sent, name: draw(damaged(st.just(sent[name]), words))}


def _meaning(environ: Environ) -> object:
    """What a request asks for, whatever its spelling."""
    query = sorted(query_parameters(environ["QUERY_STRING"]))
    authorization = environ.get("HTTP_AUTHORIZATION", "").replace(" ", "")
    others = {
        name: b" ".join(value.encode("latin-1").split())
        for name, value in environ.items()
        if name not in {"QUERY_STRING", "HTTP_AUTHORIZATION"}
    }
    others["PATH_INFO"] = others["PATH_INFO"] or b"/"
    return query, authorization, others


@targets.add(tampered())
def changed_requests(pair: tuple[Environ, Environ]) -> None:
    """Whatever is accepted means what was signed."""
    sent, arrived = pair
    now = datetime.now(UTC)
    verify(sent, secret_for, now=now)
    if attempt(S3Error, verify, arrived, secret_for, now=now) is not None:
        assert _meaning(arrived) == _meaning(sent)


CHUNK_WORDS: Final = [
    b"0", b"1", b"a", b"fffffffffffffff", b";", b"chunk-signature=", b"0" * 64, b"\r\n", b"\n",
    b"\r", b"x-amz-checksum-crc32:AAAAAA==", b"x-amz-trailer-signature:", b":", b" ", b"\xff", b"",
]  # fmt: skip
chunk_lists: Final = st.lists(st.binary(min_size=1, max_size=20), max_size=4)
trailer_maps: Final = st.dictionaries(
    st.sampled_from(["x-amz-checksum-crc32", "x-amz-checksum-sha256", "other"]),
    st.sampled_from(["AAAAAA==", "x", ""]),
    max_size=2,
)


@st.composite
def signed_bodies(draw: st.DrawFn) -> tuple[bytes, bytes, bool, int]:
    """The bytes that were signed, a body that may hold them, whether with trailers; piece size."""
    chunks, with_trailers = draw(chunk_lists), draw(st.booleans())
    sound = signed_chunks(chunks, SCOPE, draw(trailer_maps) if with_trailers else None)
    body = draw(texts(CHUNK_WORDS, st.just(sound)))
    return b"".join(chunks), body, with_trailers, draw(piece_sizes)


@targets.add(signed_bodies())
def signed_streams(case: tuple[bytes, bytes, bool, int]) -> None:
    """Whatever is accepted is what was signed."""
    content, body, with_trailers, size = case

    def read() -> bytes:
        pieces = in_pieces(body, size)
        return b"".join(ChunkDecoder(pieces, scope=SCOPE, has_trailers=with_trailers))

    assert attempt(S3Error, read) in {None, content}


@st.composite
def unsigned_bodies(draw: st.DrawFn) -> tuple[bytes, bytes, int]:
    chunks = draw(chunk_lists)
    sound = unsigned_chunks(chunks, draw(trailer_maps))
    return b"".join(chunks), draw(texts(CHUNK_WORDS, st.just(sound))), draw(piece_sizes)


@targets.add(unsigned_bodies())
def unsigned_streams(case: tuple[bytes, bytes, int]) -> None:
    """The pieces in which a body comes make no difference."""
    _, body, size = case

    def read(size: int) -> bytes:
        return b"".join(ChunkDecoder(in_pieces(body, size), scope=None, has_trailers=True))

    assert attempt(S3Error, read, size) == attempt(S3Error, read, 1 << 18)


@st.composite
def announced(draw: st.DrawFn) -> tuple[dict[str, Any], bytes, str]:
    """Headers that describe a body, the body, and how it proves itself."""
    body = draw(st.sampled_from([b"", b"x", unsigned_chunks([b"x"], {}), signed_chunks([], SCOPE)]))
    values = st.sampled_from(["", "AAAAAA==", "1B2M2Y8AsgTpgAmY7PhCfg==", "x", "=", "\xff", "-1"])
    names = [
        "HTTP_CONTENT_MD5", "HTTP_X_AMZ_CHECKSUM_CRC32", "HTTP_X_AMZ_CHECKSUM_CRC64NVME",
        "HTTP_X_AMZ_CHECKSUM_MD4", "HTTP_X_AMZ_CHECKSUM_ALGORITHM", "HTTP_X_AMZ_SDK_CHECKSUM",
    ]  # fmt: skip
    environ = draw(st.dictionaries(st.sampled_from(names), values | wire_text, max_size=3))
    numbers = st.sampled_from(
        [str(len(body)), "0", "1", "", "-1", "1e3", "²", "9" * 16, "9" * 5000]
    )
    environ["CONTENT_LENGTH"] = draw(numbers)
    environ["HTTP_X_AMZ_DECODED_CONTENT_LENGTH"] = draw(numbers)
    trailers = ["", "x-amz-checksum-crc32", " X-Amz-Checksum-Sha256 ", "other", "x-amz-checksum-"]
    environ["HTTP_X_AMZ_TRAILER"] = draw(st.sampled_from(trailers) | wire_text)
    return environ, body, draw(st.sampled_from(PAYLOADS) | wire_text)


@targets.add(announced())
def announced_bodies(case: tuple[dict[str, Any], bytes, str]) -> None:
    """Whatever is accepted has as many bytes as were announced."""
    environ, body, payload = case

    def read() -> tuple[int, bytes]:
        opened = open_body(environ, [body], payload=payload, scope=SCOPE)
        return opened.size, opened.read(1 << 16)

    found = attempt(S3Error, read)
    assert found is None or found[0] == len(found[1])
