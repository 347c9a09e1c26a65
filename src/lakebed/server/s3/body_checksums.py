"""The checksums that clients send with a body, and what it means that one does not match."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5, sha256
from typing import Final

from lakebed.catalog.checksums import ALGORITHMS, Digest, decoded
from lakebed.server.s3.errors import ErrorCode, S3Error

HEADER_PREFIX: Final = "x-amz-checksum-"


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
    value = decoded(encoded)
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
    value = decoded(encoded)
    if value is None or len(value) != digest.digest_size:
        raise S3Error(ErrorCode.INVALID_DIGEST)
    return Expected(
        digest, value, S3Error(ErrorCode.BAD_DIGEST, "the body does not have the Content-MD5 given")
    )


def expected_sha256(hexadecimal: str) -> Expected:
    """Return what an x-amz-content-sha256 header with a digest asks for."""
    mismatch = S3Error(ErrorCode.CONTENT_SHA256_MISMATCH)
    return Expected(sha256(), bytes.fromhex(hexadecimal), mismatch)
