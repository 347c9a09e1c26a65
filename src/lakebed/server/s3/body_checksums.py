"""Checksums that a request announces for its body, and their verification."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from lakebed.lake.checksums import ALGORITHMS, Digest, MD5Digest, decode_base64
from lakebed.server.s3.environ import Environ
from lakebed.server.s3.errors import ErrorCode, S3Error

HEADER_PREFIX: Final = "x-amz-checksum-"
_ENVIRON_PREFIX: Final = "HTTP_X_AMZ_CHECKSUM_"

_NOT_VALUES: Final = frozenset(
    {"HTTP_X_AMZ_CHECKSUM_ALGORITHM", "HTTP_X_AMZ_CHECKSUM_TYPE", "HTTP_X_AMZ_CHECKSUM_MODE"}
)
"""Headers with the prefix that contain no checksum."""


@dataclass(frozen=True, slots=True)
class ExpectedChecksum:
    """A checksum that a body must have."""

    digest: Digest
    """Updated by the reader of the body."""
    value: bytes
    mismatch: S3Error
    """The error for any other checksum."""

    def check(self) -> None:
        """Compare the checksums after the last byte."""
        if self.digest.digest() != self.value:
            raise self.mismatch


def checksum_values(environ: Environ) -> dict[str, str]:
    """Return the headers of a request with checksums, like ``x-amz-checksum-crc32``."""
    return {
        HEADER_PREFIX + key.removeprefix(_ENVIRON_PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(_ENVIRON_PREFIX) and key not in _NOT_VALUES
    }


def expect_checksum(name: str, encoded: str) -> ExpectedChecksum:
    """Return the check for a header or trailer like ``x-amz-checksum-crc32``."""
    digest = algorithm_of(name)()
    value = decode_base64(encoded)
    if value is None or len(value) != len(digest.digest()):
        raise not_a_checksum(name, encoded)
    mismatch = S3Error(ErrorCode.BAD_DIGEST, f"the body does not match the {name} of the request")
    return ExpectedChecksum(digest, value, mismatch)


def algorithm_of(name: str) -> Callable[[], Digest]:
    """Return the algorithm of a header or trailer like ``x-amz-checksum-crc32``."""
    found = ALGORITHMS.get(name.removeprefix(HEADER_PREFIX))
    if found is None or not name.startswith(HEADER_PREFIX):
        known = ", ".join(HEADER_PREFIX + algorithm for algorithm in ALGORITHMS)
        raise S3Error(
            ErrorCode.INVALID_REQUEST, f'unknown checksum "{name[:100]}"; use one of {known}'
        )
    return found


def not_a_checksum(name: str, encoded: str) -> S3Error:
    """Return the error for a value that is not a checksum of its algorithm."""
    return S3Error(
        ErrorCode.INVALID_REQUEST,
        f'{name} must be a checksum of this algorithm in base 64, not "{encoded[:100]}"',
    )


def expect_md5(encoded: str, digest: MD5Digest) -> ExpectedChecksum:
    """Return the check for a Content-MD5 header, with a new MD5 `digest`."""
    value = decode_base64(encoded)
    if value is None or len(value) != len(digest.digest()):
        raise S3Error(
            ErrorCode.INVALID_DIGEST,
            f'Content-MD5 must be an MD5 in base 64, not "{encoded[:100]}"',
        )
    mismatch = S3Error(
        ErrorCode.BAD_DIGEST, "the body does not match the Content-MD5 of the request"
    )
    return ExpectedChecksum(digest, value, mismatch)


def expect_sha256(hexadecimal: str) -> ExpectedChecksum:
    """Return the check for an x-amz-content-sha256 header with a digest."""
    mismatch = S3Error(ErrorCode.CONTENT_SHA256_MISMATCH)
    return ExpectedChecksum(sha256(), bytes.fromhex(hexadecimal), mismatch)
