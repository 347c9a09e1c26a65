"""Every way in which a body proves itself: whole bodies pass, changed or cut ones are refused."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import md5, sha256
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.lake.checksums import ALGORITHMS
from lakebed.server.s3.chunked import SIGNED_CHUNK_BYTES_MAX
from lakebed.server.s3.environ import Environ
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.payload import Payload, open_body
from lakebed.server.s3.sigv4 import verify
from tests.server.s3.kit import (
    SCOPE,
    environ_of,
    pieces_of,
    secret_for,
    signed_chunks,
    unsigned_chunks,
)

SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
WHOLE = b"123456789"
CHUNKS = [b"1234", b"56789"]

KNOWN = {
    # The checksums of "123456789" as the catalogues of such algorithms have them.
    "crc32": "cbf43926",
    "crc32c": "e3069283",
    "crc64nvme": "ae8b14860a799888",
    "sha1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}


def checksum(name: str, data: bytes) -> str:
    digest = ALGORITHMS[name]()
    digest.update(data)
    return b64encode(digest.digest()).decode()


def opened(
    raw: Iterable[bytes], payload: str, headers: Mapping[str, str], size: int | None = None
) -> Payload:
    environ: Environ = environ_of("PUT", "http://h/b/main/k", headers)
    if size is not None:
        chunked = payload.startswith("STREAMING")
        name = "HTTP_X_AMZ_DECODED_CONTENT_LENGTH" if chunked else "CONTENT_LENGTH"
        environ[name] = str(size)
    return open_body(environ, raw, payload=payload, scope=SCOPE)


def refusal(body: Iterable[bytes]) -> ErrorCode:
    with pytest.raises(S3Error) as caught:
        list(body)
    return caught.value.code


def case(mode: str, name: str = "crc32c") -> tuple[bytes, str, dict[str, str]]:
    """The wire form of `WHOLE` in a mode, and its headers."""
    header = f"x-amz-checksum-{name}"
    trailer = {header: checksum(name, WHOLE)}
    match mode:
        case "sha256":
            return WHOLE, sha256(WHOLE).hexdigest(), {}
        case "UNSIGNED-PAYLOAD":
            return WHOLE, mode, trailer
        case _ if mode == SIGNED:
            return signed_chunks(CHUNKS, SCOPE), mode, {}
        case _ if mode == SIGNED_TRAILER:
            return signed_chunks(CHUNKS, SCOPE, trailer), mode, {"x-amz-trailer": header}
        case _:
            return unsigned_chunks(CHUNKS, trailer), mode, {"x-amz-trailer": header}


MODES = ["sha256", "UNSIGNED-PAYLOAD", SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_checksums_match_published_values(name: str) -> None:
    digest = ALGORITHMS[name]()
    digest.update(WHOLE[:4])
    digest.update(WHOLE[4:])
    assert digest.digest().hex() == KNOWN[name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_a_whole_body_passes_however_it_arrives(mode: str, piece: int) -> None:
    raw, payload, headers = case(mode)
    body = opened(pieces_of(raw, piece), payload, headers, len(WHOLE))
    assert body.size == len(WHOLE)
    assert b"".join(body) == WHOLE


@pytest.mark.parametrize("mode", MODES)
def test_a_body_cut_at_any_byte_is_refused(mode: str) -> None:
    raw, payload, headers = case(mode)
    for end in range(len(raw)):
        refusal(opened([raw[:end]], payload, headers, len(WHOLE)))


@pytest.mark.parametrize("mode", MODES)
def test_a_body_that_goes_on_is_refused(mode: str) -> None:
    raw, payload, headers = case(mode)
    refusal(opened([raw, b"x"], payload, headers, len(WHOLE)))
    refusal(opened([raw, b"\r\n"], payload, headers, len(WHOLE)))


@pytest.mark.parametrize("mode", MODES)
def test_one_bit_changed_anywhere_never_gives_another_body(mode: str) -> None:
    raw, payload, headers = case(mode)
    for at in range(len(raw)):
        for bit in range(8):
            changed = raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]
            try:
                got = b"".join(opened([changed], payload, headers, len(WHOLE)))
            except S3Error:
                continue
            assert got == WHOLE  # a name or a size in another case


@pytest.mark.parametrize("mode", [SIGNED, SIGNED_TRAILER])
def test_no_byte_of_a_signed_chunk_is_handed_on_before_its_signature_is_proved(mode: str) -> None:
    raw, payload, headers = case(mode)
    for at in range(len(raw)):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        got = b""
        try:
            for piece in opened(pieces_of(changed, 3), payload, headers, len(WHOLE)):
                got += piece
        except S3Error:
            pass
        assert got in {b"", CHUNKS[0], WHOLE}


def test_chunks_can_be_neither_dropped_nor_moved() -> None:
    raw = signed_chunks([b"x" * 10, b"y" * 10], SCOPE)
    end_of_first, end_of_second = raw.index(b"x" * 10) + 12, raw.index(b"y" * 10) + 12
    first, second = raw[:end_of_first], raw[end_of_first:end_of_second]
    rest = raw[len(first) + len(second) :]
    assert raw == first + second + rest
    for changed in (second + first + rest, first + first + rest, second + rest, first + rest):
        assert refusal(opened([changed], SIGNED, {}, 20)) is ErrorCode.SIGNATURE_DOES_NOT_MATCH


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("mode", ["UNSIGNED-PAYLOAD", SIGNED_TRAILER, UNSIGNED_TRAILER])
def test_each_checksum_is_checked_and_echoed(mode: str, name: str) -> None:
    header = f"x-amz-checksum-{name}"
    raw, payload, headers = case(mode, name)
    body = opened([raw], payload, headers, len(WHOLE))
    list(body)
    assert body.checksums == {header: checksum(name, WHOLE)}

    wrong = {header: checksum(name, b"other")}
    if mode == "UNSIGNED-PAYLOAD":
        headers = wrong
    elif mode == SIGNED_TRAILER:
        raw = signed_chunks(CHUNKS, SCOPE, wrong)
    else:
        raw = unsigned_chunks(CHUNKS, wrong)
    assert refusal(opened([raw], payload, headers, len(WHOLE))) is ErrorCode.BAD_DIGEST


def test_the_sha256_of_the_signature_is_checked() -> None:
    body = opened([b"other"], sha256(WHOLE).hexdigest(), {}, 5)
    assert refusal(body) is ErrorCode.CONTENT_SHA256_MISMATCH


def test_content_md5_is_checked_in_every_mode() -> None:
    right = b64encode(md5(WHOLE).digest()).decode()
    wrong = b64encode(md5(b"other").digest()).decode()
    for mode in MODES:
        raw, payload, headers = case(mode)
        assert b"".join(opened([raw], payload, headers | {"content-md5": right}, 9)) == WHOLE
        body = opened([raw], payload, headers | {"content-md5": wrong}, 9)
        assert refusal(body) is ErrorCode.BAD_DIGEST


def test_an_md5_that_the_request_asks_for_is_known_to_whoever_read_the_body() -> None:
    right = md5(WHOLE)
    headers = {"content-md5": b64encode(right.digest()).decode()}
    for mode in MODES:
        raw, payload, others = case(mode)
        body = opened([raw], payload, others | headers, 9)
        assert b"".join(body) == WHOLE
        assert body.md5 is not None
        assert body.md5.hexdigest() == right.hexdigest()
        assert opened([raw], payload, others, 9).md5 is None


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-md5": "no"}, ErrorCode.INVALID_DIGEST),
        ({"x-amz-checksum-crc32": "no"}, ErrorCode.INVALID_REQUEST),
        ({"x-amz-checksum-crc32": "AAAAAAA="}, ErrorCode.INVALID_REQUEST),
        ({"x-amz-checksum-crc31": "AAAAAA=="}, ErrorCode.INVALID_REQUEST),
        (
            {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA=="},
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_malformed_checksums_are_refused(headers: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(S3Error) as caught:
        opened([], "UNSIGNED-PAYLOAD", headers, 0)
    assert caught.value.code is code


def test_the_length_announced_must_be_that_of_the_bytes() -> None:
    for mode in MODES:
        raw, payload, headers = case(mode)
        for size in (len(WHOLE) - 1, len(WHOLE) + 1):
            assert refusal(opened([raw], payload, headers, size)) is ErrorCode.INCOMPLETE_BODY
        with pytest.raises(S3Error) as caught:
            opened([raw], payload, headers)
        assert caught.value.code is ErrorCode.MISSING_CONTENT_LENGTH


@pytest.mark.parametrize("payload", ["", "x", "A" * 64, SIGNED.replace("HMAC", "ECDSA")])
def test_an_unknown_content_sha256_is_refused(payload: str) -> None:
    with pytest.raises(S3Error) as caught:
        opened([], payload, {}, 0)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_a_trailer_must_be_the_one_announced() -> None:
    right = {"x-amz-checksum-crc32": checksum("crc32", WHOLE)}
    announced = {"x-amz-trailer": "x-amz-checksum-crc32"}
    other = {"x-amz-trailer": "x-amz-checksum-sha1"}
    twice = unsigned_chunks(CHUNKS, right | {"X-Amz-Checksum-Crc32": "AAAAAA=="})
    for raw, headers in [
        (unsigned_chunks(CHUNKS, {}), announced),
        (unsigned_chunks(CHUNKS, right), other),
        (unsigned_chunks(CHUNKS, right), {}),
        (unsigned_chunks(CHUNKS, right | {"x-amz-meta-a": "b"}), announced),
        (twice, announced),
    ]:
        body = opened([raw], UNSIGNED_TRAILER, headers, len(WHOLE))
        assert refusal(body) is ErrorCode.MALFORMED_TRAILER
    with pytest.raises(S3Error):
        opened([], UNSIGNED_TRAILER, {"x-amz-trailer": "x-amz-meta-a"}, 0)


def test_a_signed_trailer_may_be_separated_by_an_empty_line() -> None:
    header = "x-amz-checksum-crc32c"
    raw = signed_chunks(CHUNKS, SCOPE, {header: checksum("crc32c", WHOLE)})
    spaced = raw.replace(b"\r\nx-amz-trailer", b"\n\r\nx-amz-trailer")
    assert spaced != raw
    body = opened([spaced], SIGNED_TRAILER, {"x-amz-trailer": header}, len(WHOLE))
    assert b"".join(body) == WHOLE


def test_the_signature_of_a_trailer_is_checked() -> None:
    raw, payload, headers = case(SIGNED_TRAILER)
    at = raw.index(b"x-amz-trailer-signature:") + len(b"x-amz-trailer-signature:")
    changed = raw[:at] + (b"0" if raw[at : at + 1] != b"0" else b"1") + raw[at + 1 :]
    body = opened([changed], payload, headers, len(WHOLE))
    assert refusal(body) is ErrorCode.SIGNATURE_DOES_NOT_MATCH


def test_amazons_own_example_of_signed_chunks() -> None:
    environ = environ_of(
        "PUT",
        "http://s3.amazonaws.com/examplebucket/chunkObject.txt",
        {
            "x-amz-date": "20130524T000000Z",
            "x-amz-storage-class": "REDUCED_REDUNDANCY",
            "Authorization": (
                "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                "aws4_request,SignedHeaders=content-encoding;content-length;host;"
                "x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class,"
                "Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
            ),
            "x-amz-content-sha256": SIGNED,
            "Content-Encoding": "aws-chunked",
            "x-amz-decoded-content-length": "66560",
            "Content-Length": "66824",
        },
    )
    verified = verify(environ, secret_for, now=datetime(2013, 5, 24, tzinfo=UTC))
    raw = (
        b"10000;chunk-signature="
        b"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
        + b"a"
        * 65536
        + b"\r\n400;chunk-signature="
        b"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
        + b"a"
        * 1024
        + b"\r\n0;chunk-signature="
        b"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
    )
    assert len(raw) == 66824
    body = open_body(environ, [raw], payload=verified.payload, scope=verified.scope)
    assert b"".join(body) == b"a" * 66560


@pytest.mark.parametrize(
    "header",
    [b"-1", b"0x5", b"1_0", b"+5", b" 5", b"5 ", b"", b"g", b"5;x=y", b"F" * 16, b"1" * 2000],
)
@pytest.mark.parametrize("mode", [SIGNED, UNSIGNED_TRAILER])
def test_malformed_sizes_of_chunks_are_refused(mode: str, header: bytes) -> None:
    suffix = b";chunk-signature=" + b"0" * 64 if mode == SIGNED else b""
    body = opened([header + suffix + b"\r\n"], mode, {}, 5)
    assert refusal(body) is ErrorCode.INVALID_REQUEST


def test_a_signed_chunk_that_would_fill_the_memory_is_refused_before_it_is_read() -> None:
    def raw() -> Iterator[bytes]:
        yield b"%x;chunk-signature=%s\r\n" % (SIGNED_CHUNK_BYTES_MAX + 1, b"0" * 64)
        raise AssertionError("it was read")

    assert refusal(opened(raw(), SIGNED, {}, 10**9)) is ErrorCode.INVALID_REQUEST


def test_lines_without_end_are_refused() -> None:
    endless = repeat(b"0" * 100)
    assert refusal(opened(endless, UNSIGNED_TRAILER, {}, 5)) is ErrorCode.INVALID_REQUEST
    trailers = chain([b"0\r\n"], (b"x-a%d:b\r\n" % number for number in range(10**9)))
    assert refusal(opened(trailers, UNSIGNED_TRAILER, {}, 0)) is ErrorCode.MALFORMED_TRAILER


def test_a_small_body_is_read_whole_or_refused_unread() -> None:
    assert opened([WHOLE], "UNSIGNED-PAYLOAD", {}, 9).read(9) == WHOLE
    with pytest.raises(S3Error) as caught:
        opened([WHOLE], "UNSIGNED-PAYLOAD", {}, 9).read(8)
    assert caught.value.code is ErrorCode.ENTITY_TOO_LARGE


wire = st.lists(
    st.binary(max_size=20)
    | st.sampled_from(
        [b"\r\n", b"0\r\n", b"5\r\nhello\r\n", b"x-amz-checksum-crc32:AAAAAA==\r\n", b"5;"]
    ),
    max_size=8,
)


@given(wire, st.sampled_from(MODES), st.integers(0, 12), st.booleans())
def test_any_body_is_whole_or_refused_with_an_s3_error(
    pieces: list[bytes], mode: str, size: int, announced: bool
) -> None:
    _, payload, _ = case(mode)
    headers = {"x-amz-trailer": "x-amz-checksum-crc32"} if announced else {}
    try:
        got = b"".join(opened(pieces, payload, headers, size))
    except S3Error:
        return
    assert len(got) == size
    assert mode not in {SIGNED, SIGNED_TRAILER}


@given(
    st.lists(st.binary(min_size=1, max_size=50), max_size=6),
    st.sampled_from([SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER]),
    st.integers(1, 30),
)
def test_any_chunks_come_back_whole(chunks: list[bytes], mode: str, piece: int) -> None:
    whole = b"".join(chunks)
    header = "x-amz-checksum-sha256"
    trailer = {header: checksum("sha256", whole)}
    if mode == UNSIGNED_TRAILER:
        raw = unsigned_chunks(chunks, trailer)
    else:
        raw = signed_chunks(chunks, SCOPE, trailer if mode == SIGNED_TRAILER else None)
    headers = {} if mode == SIGNED else {"x-amz-trailer": header}
    assert b"".join(opened(pieces_of(raw, piece), mode, headers, len(whole))) == whole
