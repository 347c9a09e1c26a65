"""Requests as a WSGI server hands them over, and a client that sends bodies in signed chunks."""

import hmac
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import unquote_to_bytes, urlsplit

from lakebed.server.s3.environ import Environ
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4 import SigningScope

ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SCOPE = SigningScope(b"k" * 32, "20261115T120000Z", "20261115/us-east-1/s3/aws4_request", "a" * 64)


def secret_for(access_key_id: str) -> tuple[str, str]:
    if access_key_id != ACCESS_KEY:
        raise S3Error(ErrorCode.INVALID_ACCESS_KEY_ID)
    return "jane", SECRET


def environ_of(method: str, url: str, headers: Mapping[str, str]) -> Environ:
    parts = urlsplit(url)
    environ: Environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": unquote_to_bytes(parts.path).decode("latin-1"),
        "QUERY_STRING": parts.query,
        "HTTP_HOST": parts.netloc,
    }
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        on_the_wire = value.encode().decode("latin-1")
        environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = on_the_wire
    return environ


def signed_chunks(
    chunks: Sequence[bytes], scope: SigningScope, trailers: Mapping[str, str] | None = None
) -> bytes:
    """Return a body as a client signs it, written from Amazon's description, not from our code."""

    def sign(kind: str, *lines: str) -> str:
        text = "\n".join([kind, scope.time, scope.scope, *lines]).encode()
        return hmac.new(scope.key, text, sha256).hexdigest()

    empty, signature, body = sha256(b"").hexdigest(), scope.signature, b""
    for chunk in [*chunks, b""]:
        digest = sha256(chunk).hexdigest()
        signature = sign("AWS4-HMAC-SHA256-PAYLOAD", signature, empty, digest)
        body += b"%x;chunk-signature=%s\r\n" % (len(chunk), signature.encode())
        body += chunk + b"\r\n" if chunk else b""
    if trailers is not None:
        lines = "".join(f"{name}:{value}\n" for name, value in trailers.items()).encode()
        signature = sign("AWS4-HMAC-SHA256-TRAILER", signature, sha256(lines).hexdigest())
        body += lines.replace(b"\n", b"\r\n")
        body += b"x-amz-trailer-signature:%s\r\n" % signature.encode()
    return body + b"\r\n"


def unsigned_chunks(chunks: Sequence[bytes], trailers: Mapping[str, str]) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n"
    body += b"".join(f"{name}:{value}\r\n".encode() for name, value in trailers.items())
    return body + b"\r\n"


def one_bit_changed(text: str) -> Iterator[str]:
    """Yield the text with one bit changed, for every bit."""
    data = text.encode("latin-1")
    for at in range(len(data)):
        for bit in range(8):
            yield (data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]).decode("latin-1")


def pieces_of(body: bytes, size: int) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))
