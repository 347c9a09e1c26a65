"""The body of a request: what it must be is known before, and proved after its last byte.

How a body proves itself is the word or hash in ``x-amz-content-sha256``, which the signature of the
request covers. On top of that a client may send an MD5 and one more checksum, as headers or behind
the body. Whoever reads a `Body` to its end without an error has exactly the bytes that were sent;
nothing made of them may become visible before.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lakebed.catalog.checksums import Checksum, Digest, fed
from lakebed.server.s3.body_checksums import (
    HEADER_PREFIX,
    Expected,
    algorithm,
    expected_checksum,
    expected_md5,
    expected_sha256,
)
from lakebed.server.s3.chunked import ChunkDecoder
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4 import UNSIGNED_PAYLOAD, Environ, SigningScope

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LENGTH: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_ENVIRON_PREFIX: Final = "HTTP_X_AMZ_CHECKSUM_"

_NOT_CHECKSUMS: Final = frozenset(
    {"HTTP_X_AMZ_CHECKSUM_ALGORITHM", "HTTP_X_AMZ_CHECKSUM_TYPE", "HTTP_X_AMZ_CHECKSUM_MODE"}
)


@dataclass(frozen=True, slots=True)
class _Mode:
    """One of the words of ``x-amz-content-sha256`` for bodies in chunks."""

    signed: bool
    trailers: bool


_CHUNKED_MODES: Final = {
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": _Mode(signed=True, trailers=False),
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": _Mode(signed=True, trailers=True),
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": _Mode(signed=False, trailers=True),
}


class Body(Iterable[bytes]):
    """The bytes that a client sent, in pieces; iterate once.

    Iterating raises `S3Error` where the body is not what was announced, at its end at the latest.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        size: int,
        *,
        checksums: dict[str, str],
        trailer: str = "",
    ) -> None:
        """Take the pieces for what a client sent; `trailer` names the checksum behind them."""
        self.size = size
        """How many bytes there are; others make iterating raise."""
        self.checksums = checksums
        """Headers like ``x-amz-checksum-crc32`` to answer with; complete after the last byte."""
        names = [*checksums, trailer]
        self.algorithm = names[0].removeprefix(HEADER_PREFIX) or None
        """Of the checksum that comes with the bytes, if one does."""
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def proved(self) -> Checksum | None:
        """Return the checksum that the client sent, if it did; known after the last byte."""
        for name, value in self.checksums.items():
            return Checksum(name.removeprefix(HEADER_PREFIX), value)
        return None

    def read(self, size_max: int) -> bytes:
        """Return all bytes of a small body.

        Raises:
            S3Error: `ENTITY_TOO_LARGE`: there are more than `size_max`; or it is not what was
                announced.
        """
        if self.size > size_max:
            raise S3Error(ErrorCode.ENTITY_TOO_LARGE, f"the body is larger than {size_max} bytes")
        return b"".join(self)


def open_body(
    environ: Environ,
    raw: Iterable[bytes],
    *,
    payload: str,
    scope: SigningScope | None,
    has_checksums: bool = True,
) -> Body:
    """Return the body of a request whose signature was verified.

    Args:
        environ: The request.
        raw: Its body as it arrives.
        payload: How it proves itself, and
        scope: what the signatures of its chunks go on from: both of `sigv4.Verified`.
        has_checksums: Whether headers with checksums are about the body, as they nearly always are.

    Raises:
        S3Error: The headers that describe the body are missing or make no sense.
    """
    given = given_checksums(environ) if has_checksums else {}
    expected = _expected(environ, given)
    if mode := _CHUNKED_MODES.get(payload):
        return _chunked_body(environ, raw, mode, scope, expected, given)
    if _SHA256.fullmatch(payload):
        expected.append(expected_sha256(payload))
    elif payload != UNSIGNED_PAYLOAD:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "this x-amz-content-sha256 is not supported")
    size = _length(environ, "CONTENT_LENGTH")
    pieces = _checked(_counted(raw, size), expected)
    return Body(pieces, size, checksums=given)


def _chunked_body(
    environ: Environ,
    raw: Iterable[bytes],
    mode: _Mode,
    scope: SigningScope | None,
    expected: list[Expected],
    checksums: dict[str, str],
) -> Body:
    size = _length(environ, "HTTP_X_AMZ_DECODED_CONTENT_LENGTH")
    assert scope is not None, "a request says that its body is in chunks by version 4 only"
    decoder = ChunkDecoder(raw, scope=scope if mode.signed else None, has_trailers=mode.trailers)
    pieces = _checked(_counted(decoder, size), expected)
    announced = environ.get("HTTP_X_AMZ_TRAILER", "").strip().lower() if mode.trailers else ""
    if announced:
        pieces = _trailed(pieces, decoder, announced, algorithm(announced)(), checksums)
    elif mode.trailers:
        pieces = _untrailed(pieces, decoder)
    return Body(pieces, size, checksums=checksums, trailer=announced)


def _trailed(
    pieces: Iterator[bytes],
    decoder: ChunkDecoder,
    name: str,
    digest: Digest,
    checksums: dict[str, str],
) -> Iterator[bytes]:
    """Yield the pieces, then compare their checksum with the one in the trailer."""
    yield from fed(pieces, [digest])
    if decoder.trailers.keys() != {name}:
        raise S3Error(ErrorCode.MALFORMED_TRAILER, f"the trailer must hold {name}, and no more")
    found = expected_checksum(name, decoder.trailers[name])
    if digest.digest() != found.value:
        raise found.mismatch
    checksums[name] = decoder.trailers[name]


def _untrailed(pieces: Iterator[bytes], decoder: ChunkDecoder) -> Iterator[bytes]:
    yield from pieces
    if decoder.trailers:
        raise S3Error(ErrorCode.MALFORMED_TRAILER, "the trailer was not announced: x-amz-trailer")


def _counted(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the pieces, which must hold `size` bytes together."""
    left = size
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise S3Error(ErrorCode.INCOMPLETE_BODY, f"the body has more than {size} bytes")
        yield piece
    if left:
        raise S3Error(ErrorCode.INCOMPLETE_BODY, f"{left} of {size} bytes did not arrive")


def _checked(pieces: Iterator[bytes], expected: list[Expected]) -> Iterator[bytes]:
    yield from fed(pieces, [item.digest for item in expected])
    for item in expected:
        item.check()


def _expected(environ: Environ, checksums: dict[str, str]) -> list[Expected]:
    """What came as headers, to be checked."""
    expected = [expected_checksum(name, value) for name, value in checksums.items()]
    if len(expected) > 1:
        raise S3Error(ErrorCode.INVALID_REQUEST, "a body has one x-amz-checksum- header, not more")
    if "HTTP_CONTENT_MD5" in environ:
        expected.append(expected_md5(environ["HTTP_CONTENT_MD5"]))
    return expected


def given_checksums(environ: Environ) -> dict[str, str]:
    """Return the headers with checksums, by their names on the wire."""
    return {
        HEADER_PREFIX + key.removeprefix(_ENVIRON_PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(_ENVIRON_PREFIX) and key not in _NOT_CHECKSUMS
    }


def _length(environ: Environ, key: str) -> int:
    length = environ.get(key, "")
    if not _LENGTH.fullmatch(length):
        raise S3Error(ErrorCode.MISSING_CONTENT_LENGTH)
    return int(length)
