"""Decoder for ``aws-chunked`` bodies: chunks with sizes, optional signatures and trailers.

    <size>;chunk-signature=<signature>CRLF
    <bytes>CRLF
    ...
    0;chunk-signature=<signature>CRLF
    x-amz-checksum-crc32c:<value>CRLF               only if trailers were announced
    x-amz-trailer-signature:<signature>CRLF         only if trailers are signed
    CRLF

Each signature covers the previous one, so chunks cannot be changed, dropped, repeated or moved. A
signed chunk is passed on only after verification of its signature; it is buffered until then, so
its size is limited. Unsigned chunks are passed on as they arrive. The encoding marks its own end: a
truncated body is refused.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NoReturn

from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4 import SigningScope

SIGNED_CHUNK_BYTES_MAX: Final = 8 << 20
"""Clients send 64 or 128 KiB."""

_LINE_BYTES_MAX: Final = 1024
_TRAILER_LINES_MAX: Final = 16
_TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"
_NOTHING: Final = sha256().hexdigest()

_UNSIGNED_HEADER: Final = re.compile(rb"([0-9a-fA-F]{1,15})\r\n")
_SIGNED_HEADER: Final = re.compile(rb"([0-9a-fA-F]{1,15});chunk-signature=([0-9a-f]{64})\r\n")
_TRAILER: Final = re.compile(r"([A-Za-z0-9-]+)[ \t]*:[ \t]*([!-~]*)[ \t]*\r?\n")


class ChunkDecoder:
    """Iterator over the decoded bytes of an ``aws-chunked`` body; iterate once."""

    def __init__(
        self, raw: Iterable[bytes], *, scope: SigningScope | None, has_trailers: bool
    ) -> None:
        """Create a decoder; `scope` is that of the first chunk, None for unsigned chunks."""
        self.trailers: dict[str, str] = {}
        """Values by name in lower case; complete after the last byte."""
        self._source = _Source(raw)
        self._scope = scope
        self._has_trailers = has_trailers
        self._signature = scope.signature if scope else ""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the decoded bytes in pieces.

        Raises:
            S3Error: The body is truncated or malformed, or a signature is wrong.
        """
        last = False
        while not last:
            if self._scope is None:
                size = self._unsigned_size()
                yield from self._source.take(size)
            else:
                size, pieces = self._signed_chunk(self._scope)
                yield from pieces
            last = size == 0
            if not last and self._source.exactly(2) != b"\r\n":
                _malformed("a line break must follow its bytes")
        self._read_end()

    def _unsigned_size(self) -> int:
        header = _UNSIGNED_HEADER.fullmatch(self._source.line())
        if header is None:
            _malformed("its first line must be its size in hexadecimal")
        return int(header[1], 16)

    def _signed_chunk(self, scope: SigningScope) -> tuple[int, list[bytes]]:
        """Return the size and bytes of the next chunk, after verification of its signature."""
        header = _SIGNED_HEADER.fullmatch(self._source.line())
        if header is None:
            _malformed("its first line must be <size>;chunk-signature=<signature>")
        size = int(header[1], 16)
        if size > SIGNED_CHUNK_BYTES_MAX:
            _malformed(f"it has {size} bytes; at most {SIGNED_CHUNK_BYTES_MAX} are allowed")
        pieces = list(self._source.take(size))
        digest = sha256()
        for piece in pieces:
            digest.update(piece)
        self._check_signature(
            scope, header[2].decode(), "AWS4-HMAC-SHA256-PAYLOAD", _NOTHING, digest.hexdigest()
        )
        return size, pieces

    def _check_signature(self, scope: SigningScope, signature: str, kind: str, *lines: str) -> None:
        if not compare_digest(scope.sign(kind, self._signature, *lines), signature):
            raise S3Error(
                ErrorCode.SIGNATURE_DOES_NOT_MATCH, "a chunk or the trailer has a wrong signature"
            )
        self._signature = signature

    def _read_end(self) -> None:
        """Read the trailers to the end of the body."""
        if not self._has_trailers:
            if self._source.exactly(2) != b"\r\n":
                _malformed("an empty line must follow the last chunk")
        elif self._scope is None:
            self._read_trailers()
        else:
            self._read_signed_trailers(self._scope)
        if not self._source.is_at_end():
            _malformed("the body continues after the last chunk")

    def _read_trailers(self) -> None:
        for _ in range(_TRAILER_LINES_MAX):
            line = self._source.line()
            if line == b"\r\n":
                return
            self._add_trailer(*_trailer(line))
        _malformed_trailer(f"it has more than {_TRAILER_LINES_MAX} lines")

    def _read_signed_trailers(self, scope: SigningScope) -> None:
        for _ in range(_TRAILER_LINES_MAX):
            line = self._source.line()
            if line == b"\r\n":  # some clients put an empty line before the signature
                continue
            name, value = _trailer(line)
            if name != _TRAILER_SIGNATURE:
                self._add_trailer(name, value)
                continue
            signed = "".join(f"{name}:{value}\n" for name, value in self.trailers.items())
            digest = sha256(signed.encode()).hexdigest()
            self._check_signature(scope, value, "AWS4-HMAC-SHA256-TRAILER", digest)
            if self._source.exactly(2) != b"\r\n":
                _malformed_trailer("an empty line must follow it")
            return
        _malformed_trailer(f"it has more than {_TRAILER_LINES_MAX} lines")

    def _add_trailer(self, name: str, value: str) -> None:
        if name in self.trailers:
            _malformed_trailer(f"it contains {name} twice")
        self.trailers[name] = value


class _Source:
    """Buffered reader of lines and counted bytes; buffers one piece."""

    def __init__(self, raw: Iterable[bytes]) -> None:
        self._raw = iter(raw)
        self._data = b""
        self._at = 0

    def line(self) -> bytes:
        """Return the next line, with its end."""
        while (end := self._data.find(b"\n", self._at, self._at + _LINE_BYTES_MAX)) < 0:
            if len(self._data) - self._at >= _LINE_BYTES_MAX:
                _malformed(f"a line has more than {_LINE_BYTES_MAX} bytes")
            rest = self._data[self._at :]
            self._advance()
            self._data, self._at = rest + self._data, 0
        line = self._data[self._at : end + 1]
        self._at = end + 1
        return line

    def take(self, size: int) -> Iterator[bytes]:
        while size:
            if self._at == len(self._data):
                self._advance()
            piece = self._data[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def exactly(self, size: int) -> bytes:
        return b"".join(self.take(size))

    def is_at_end(self) -> bool:
        """Whether the stream ends here."""
        return self._at == len(self._data) and not any(self._raw)

    def _advance(self) -> None:
        """Replace the buffer by the next piece."""
        self._data, self._at = next((piece for piece in self._raw if piece), b""), 0
        if not self._data:
            raise S3Error(ErrorCode.INCOMPLETE_BODY, "the body ended before its last chunk")


def _trailer(line: bytes) -> tuple[str, str]:
    found = _TRAILER.fullmatch(line.decode("latin-1"))
    if found is None:
        _malformed_trailer("each line must be <name>:<value>")
    return found[1].lower(), found[2]


def _malformed(reason: str) -> NoReturn:
    raise S3Error(ErrorCode.INVALID_REQUEST, f"a chunk of the body is malformed: {reason}")


def _malformed_trailer(reason: str) -> NoReturn:
    raise S3Error(ErrorCode.MALFORMED_TRAILER, f"the trailer is malformed: {reason}")
