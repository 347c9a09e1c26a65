"""The checksums that clients send with a body, and what it means that one does not match."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import md5, sha1, sha256
from typing import Final, Protocol

from awscrt import checksums as crt

from lakebed.server.s3.errors import ErrorCode, S3Error

HEADER_PREFIX: Final = "x-amz-checksum-"


class Digest(Protocol):
    """A checksum under way, as `hashlib` has them."""

    def update(self, data: bytes, /) -> None:
        """Take in some more bytes."""

    def digest(self) -> bytes:
        """Return the checksum of the bytes so far."""


class _Crc:
    """A cyclic redundancy check under way."""

    def __init__(self, function: Callable[[bytes, int], int], size: int) -> None:
        self._function = function
        self._size = size
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


ALGORITHMS: Final[Mapping[str, Callable[[], Digest]]] = {
    "crc32": lambda: _Crc(zlib.crc32, 4),
    "crc32c": lambda: _Crc(crt.crc32c, 4),
    "crc64nvme": lambda: _Crc(crt.crc64nvme, 8),
    "sha1": lambda: sha1(usedforsecurity=False),
    "sha256": sha256,
}
"""By the names that follow `HEADER_PREFIX`."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a checksum of a body must be."""

    digest: Digest
    """Fed with the body by whoever reads it."""
    value: bytes
    mismatch: S3Error
    """What to raise if it is something else."""

    def check(self) -> None:
        """Compare, after the last byte.

        Raises:
            S3Error: The checksum is another.
        """
        if self.digest.digest() != self.value:
            raise self.mismatch


def expected_checksum(name: str, encoded: str) -> Expected:
    """Return what a header or trailer of a name like ``x-amz-checksum-crc32`` asks for.

    Raises:
        S3Error: `INVALID_REQUEST`: there is no such checksum, or this cannot be its value.
    """
    digest = algorithm(name)()
    value = _decoded(encoded)
    if value is None or len(value) != len(digest.digest()):
        raise S3Error(ErrorCode.INVALID_REQUEST, f"the value of {name} is not such a checksum")
    mismatch = S3Error(ErrorCode.BAD_DIGEST, f"the body does not have the {name} given")
    return Expected(digest, value, mismatch)


def algorithm(name: str) -> Callable[[], Digest]:
    """Return the algorithm of a header or trailer of a name like ``x-amz-checksum-crc32``.

    Raises:
        S3Error: `INVALID_REQUEST`: there is none.
    """
    found = ALGORITHMS.get(name.removeprefix(HEADER_PREFIX))
    if found is None or not name.startswith(HEADER_PREFIX):
        raise S3Error(ErrorCode.INVALID_REQUEST, f"{name[:100]!r} is not a checksum")
    return found


def expected_md5(encoded: str) -> Expected:
    """Return what a Content-MD5 header asks for.

    Raises:
        S3Error: `INVALID_DIGEST`: it is no MD5.
    """
    digest = md5(usedforsecurity=False)
    value = _decoded(encoded)
    if value is None or len(value) != digest.digest_size:
        raise S3Error(ErrorCode.INVALID_DIGEST)
    return Expected(
        digest, value, S3Error(ErrorCode.BAD_DIGEST, "the body does not have the Content-MD5 given")
    )


def expected_sha256(hexadecimal: str) -> Expected:
    """Return what an x-amz-content-sha256 header with a digest asks for."""
    mismatch = S3Error(ErrorCode.CONTENT_SHA256_MISMATCH)
    return Expected(sha256(), bytes.fromhex(hexadecimal), mismatch)


def fed(chunks: Iterator[bytes], digests: list[Digest]) -> Iterator[bytes]:
    """Yield the chunks as they are, and feed them to the digests on the way."""
    for chunk in chunks:
        for digest in digests:
            digest.update(chunk)
        yield chunk


def encoded(digest: bytes) -> str:
    """Return a checksum as headers spell it."""
    return b64encode(digest).decode()


def _decoded(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None
