"""The checksums that clients of S3 send with the bytes of an object, and ask for with them.

Whoever uploads computes one; the gateway compares it with the bytes that arrive; it is kept with
the entry (see `properties`); and whoever reads compares it with the bytes that come back. So what
went wrong anywhere between, in the storage too, does not go unseen.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from enum import StrEnum
from hashlib import sha1, sha256
from typing import Final, NamedTuple, Protocol

from awscrt import checksums as crt


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
"""By the names that S3 gives them, in lower case."""

_SIZES: Final = {name: len(new().digest()) for name, new in ALGORITHMS.items()}


class ChecksumType(StrEnum):
    """What a checksum is made of."""

    FULL_OBJECT = "FULL_OBJECT"
    """All bytes."""


class Checksum(NamedTuple):
    """A checksum of an object."""

    algorithm: str
    """One of `ALGORITHMS`."""
    value: str
    """In base 64."""

    @property
    def type(self) -> ChecksumType:
        """What it is made of."""
        return ChecksumType.FULL_OBJECT

    def __str__(self) -> str:
        """As it is kept."""
        return f"{self.algorithm}:{self.value}"

    @classmethod
    def of(cls, algorithm: str, digest: bytes) -> "Checksum":
        """Return a digest as headers spell it."""
        return cls(algorithm, b64encode(digest).decode())

    @classmethod
    def parse(cls, text: str) -> "Checksum | None":
        """Return a checksum that was kept; None: it is none."""
        algorithm, _, value = text.partition(":")
        digest = decoded(value)
        if digest is None or len(digest) != _SIZES.get(algorithm):
            return None
        return cls(algorithm, value)


def decoded(value: str) -> bytes | None:
    """Return the bytes that a text spells in base 64, in the one right way; None: it does not."""
    try:
        digest = b64decode(value, validate=True)
    except ValueError:
        return None
    return digest if b64encode(digest).decode() == value else None
