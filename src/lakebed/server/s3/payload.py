"""The body of a request, verified while it is read.

The signed header ``x-amz-content-sha256`` contains the SHA-256 of the body or the name of another
verification. In addition, a client may send an MD5 and one more checksum, as headers or as a
trailer behind the body. A `Payload` read to its end without an error has exactly the bytes sent.
Nothing derived from the bytes may become visible before the end.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Final

from lakebed.lake.checksums import Checksum, Digest, MD5Digest
from lakebed.server.http.request import while_reading
from lakebed.server.s3.body_checksums import (
    HEADER_PREFIX,
    ExpectedChecksum,
    algorithm_of,
    checksum_values,
    expect_checksum,
    expect_md5,
    expect_sha256,
)
from lakebed.server.s3.chunked import ChunkDecoder
from lakebed.server.s3.environ import Environ, environ_key, parse_number
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4 import SigningScope
from lakebed.server.s3.sigv4_fields import UNSIGNED_PAYLOAD

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LENGTH_DIGITS_MAX: Final = 15


@dataclass(frozen=True, slots=True)
class _ChunkedMode:
    signed: bool
    trailers: bool


_CHUNKED_MODES: Final = {
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": _ChunkedMode(signed=True, trailers=False),
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": _ChunkedMode(signed=True, trailers=True),
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": _ChunkedMode(signed=False, trailers=True),
}


class Payload(Iterable[bytes]):
    """The bytes of a body, in pieces; iterate once.

    Iterating raises `S3Error`, at the end at the latest, if the body differs from its announcement.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        size: int,
        *,
        checksums: dict[str, str],
        trailer: str = "",
        md5: MD5Digest | None = None,
    ) -> None:
        """Wrap the pieces, whose iterator verifies them, and their announced size.

        `trailer` is the name of the checksum in the trailer; empty if none.
        """
        self.size = size
        self.checksums = checksums
        """Headers like ``x-amz-checksum-crc32`` for the answer; complete after the last byte."""
        names = [*checksums, trailer]
        self.algorithm = names[0].removeprefix(HEADER_PREFIX) or None
        """The algorithm of the request's checksum, or None if the request has none."""
        self.md5 = md5
        """The MD5 of the bytes read so far, or None if not computed."""
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def verified(self) -> Checksum | None:
        """Return the checksum sent by the client, or None; known after the last byte."""
        for name, value in self.checksums.items():
            return Checksum(name.removeprefix(HEADER_PREFIX), value)
        return None

    def read(self, size_max: int) -> bytes:
        """Return all bytes of a small body.

        Raises:
            S3Error: `ENTITY_TOO_LARGE`: more than `size_max` bytes; other codes: the body differs
                from its announcement.
        """
        if self.size > size_max:
            raise S3Error(
                ErrorCode.ENTITY_TOO_LARGE,
                f"the body has {self.size} bytes; at most {size_max} are allowed",
            )
        with while_reading(self.size):
            return b"".join(self)


def open_body(
    environ: Environ,
    raw: Iterable[bytes],
    *,
    payload: str,
    scope: SigningScope | None,
    has_checksums: bool = True,
) -> Payload:
    """Return the body of a request with a verified signature.

    `payload` and `scope` are those of `sigv4.Verified`. `has_checksums` tells whether headers with
    checksums refer to the body, the usual case.

    Raises:
        S3Error: Headers that describe the body are missing or invalid.
    """
    given = checksum_values(environ) if has_checksums else {}
    expected = expected_checksums(given)
    content_md5 = environ.get("HTTP_CONTENT_MD5")
    digest = None if content_md5 is None else md5(usedforsecurity=False)
    if content_md5 is not None and digest is not None:
        expected.append(expect_md5(content_md5, digest))
    if mode := _CHUNKED_MODES.get(payload):
        return _chunked_body(environ, raw, mode, scope, expected, given, digest)
    if _SHA256.fullmatch(payload):
        expected.append(expect_sha256(payload))
    elif payload != UNSIGNED_PAYLOAD:
        ways = ", ".join([UNSIGNED_PAYLOAD, *_CHUNKED_MODES])
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            f'x-amz-content-sha256 is "{payload[:100]}"; it must be a SHA-256 or one of {ways}',
        )
    size = _length(environ, "Content-Length")
    digests = [item.digest for item in expected]
    pieces = _proved(raw, size, digests, [item.check for item in expected])
    return Payload(pieces, size, checksums=given, md5=digest)


def _chunked_body(
    environ: Environ,
    raw: Iterable[bytes],
    mode: _ChunkedMode,
    scope: SigningScope | None,
    expected: list[ExpectedChecksum],
    checksums: dict[str, str],
    content_md5: MD5Digest | None,
) -> Payload:
    size = _length(environ, "x-amz-decoded-content-length")
    assert scope is not None, "only signatures of version 4 announce a body in chunks"
    decoder = ChunkDecoder(raw, scope=scope if mode.signed else None, has_trailers=mode.trailers)
    digests = [item.digest for item in expected]
    checks = [item.check for item in expected]
    announced = environ.get("HTTP_X_AMZ_TRAILER", "").strip().lower() if mode.trailers else ""
    if announced:
        digest = algorithm_of(announced)()
        digests.append(digest)
        checks.append(lambda: _check_trailer(decoder, announced, digest, checksums))
    elif mode.trailers:
        checks.append(lambda: _refuse_trailer(decoder))
    pieces = _proved(decoder, size, digests, checks)
    return Payload(pieces, size, checksums=checksums, trailer=announced, md5=content_md5)


def _check_trailer(
    decoder: ChunkDecoder, name: str, digest: Digest, checksums: dict[str, str]
) -> None:
    """Compare the checksum of the body with that of the trailer."""
    if decoder.trailers.keys() != {name}:
        raise S3Error(
            ErrorCode.MALFORMED_TRAILER,
            f"the trailer must contain only {name}, as announced by x-amz-trailer",
        )
    found = expect_checksum(name, decoder.trailers[name])
    if digest.digest() != found.value:
        raise found.mismatch
    checksums[name] = decoder.trailers[name]


def _refuse_trailer(decoder: ChunkDecoder) -> None:
    """Check that the body has no trailer."""
    if decoder.trailers:
        raise S3Error(
            ErrorCode.MALFORMED_TRAILER,
            "the body has an unannounced trailer; announce it by x-amz-trailer",
        )


def _proved(
    pieces: Iterable[bytes],
    size: int,
    digests: Sequence[Digest],
    checks: Sequence[Callable[[], None]],
) -> Iterator[bytes]:
    """Yield the pieces, update the digests, and run the checks after the last piece.

    One generator for all checks: each further one would cost time per piece.
    """
    left = size
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise S3Error(
                ErrorCode.INCOMPLETE_BODY, f"the body has more than the {size} bytes announced"
            )
        for digest in digests:
            digest.update(piece)
        yield piece
    if left:
        raise S3Error(
            ErrorCode.INCOMPLETE_BODY, f"the body ended {left} bytes before the {size} announced"
        )
    for check in checks:
        check()


def expected_checksums(checksums: Mapping[str, str]) -> list[ExpectedChecksum]:
    """Return the checks for the headers with checksums; at most one is allowed."""
    expected = [expect_checksum(name, value) for name, value in checksums.items()]
    if len(expected) > 1:
        raise S3Error(ErrorCode.INVALID_REQUEST, "send one x-amz-checksum- header, not several")
    return expected


def _length(environ: Environ, header: str) -> int:
    text = environ.get(environ_key(header.lower()), "")
    length = parse_number(text, digits_max=_LENGTH_DIGITS_MAX)
    if length is None:
        raise S3Error(
            ErrorCode.MISSING_CONTENT_LENGTH,
            f'{header} must be the number of bytes of the body, not "{text[:100]}"'
            if text
            else f"the request needs a {header} header",
        )
    return length
