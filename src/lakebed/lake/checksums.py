"""S3 checksums of objects and parts.

The client computes a checksum; the gateway compares it with the received bytes and stores it with
the entry (see `entry_metadata`); readers compare it with the bytes they receive. This detects
corruption in transit and in the storage.
"""

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha1, sha256
from typing import Any, Final, NamedTuple, Protocol

from lakebed.base.errors import MissingExtraError
from lakebed.block.streams import HashedChunks


class Digest(Protocol):
    """A checksum in progress, with the interface of `hashlib`."""

    def update(self, data: bytes, /) -> None:
        """Add more bytes."""

    def digest(self) -> bytes:
        """Return the checksum of the bytes so far."""


class MD5Digest(Digest, Protocol):
    """An MD5 in progress."""

    def hexdigest(self) -> str:
        """Return the MD5 of the bytes so far, in hexadecimal."""


def _crt() -> Any:
    """Return the library for checksums missing from Python; servers have it installed."""
    try:
        from awscrt import checksums  # only servers have it
    except ImportError as error:
        raise MissingExtraError("a checksum of S3", "server") from error
    return checksums


class _Crc:
    """A cyclic redundancy check in progress."""

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
    "crc32c": lambda: _Crc(_crt().crc32c, 4),
    "crc64nvme": lambda: _Crc(_crt().crc64nvme, 8),
    "sha1": lambda: sha1(usedforsecurity=False),
    "sha256": sha256,
}
"""Checksum algorithms by their S3 names, in lower case."""

_SIZES: Final = {"crc32": 4, "crc32c": 4, "crc64nvme": 8, "sha1": 20, "sha256": 32}
"""Bytes per digest."""

_COMBINABLE: Final = ("crc32", "crc32c", "crc64nvme")
"""Algorithms for which the checksum of a whole follows from the checksums of its parts."""

_COMPOSITE: Final = re.compile(r"(.+)-([1-9][0-9]{0,4})", re.ASCII)
"""The value of a composite checksum: base 64, which has no hyphen, then the number of parts."""


class ChecksumType(StrEnum):
    """The input of an object's checksum."""

    COMPOSITE = "COMPOSITE"
    """The checksums of the object's parts; the value ends in the number of parts."""
    FULL_OBJECT = "FULL_OBJECT"
    """All bytes of the object."""


class Scheme(NamedTuple):
    """The way to derive an object's checksum from the checksums of its parts."""

    algorithm: str
    """One of `ALGORITHMS`."""
    type: ChecksumType


SCHEMES: Final = frozenset(
    [Scheme(name, ChecksumType.FULL_OBJECT) for name in _COMBINABLE]
    + [Scheme(name, ChecksumType.COMPOSITE) for name in ALGORITHMS if name != "crc64nvme"]
)
"""The schemes supported by S3."""


class Checksum(NamedTuple):
    """A checksum of an object, or of a part."""

    algorithm: str
    """One of `ALGORITHMS`."""
    value: str
    """Base 64; a composite value ends in the number of parts, as in ``AAAAAA==-3``."""

    @property
    def type(self) -> ChecksumType:
        """The input of the checksum, as shown by its value."""
        is_composite = _COMPOSITE.fullmatch(self.value) is not None
        return ChecksumType.COMPOSITE if is_composite else ChecksumType.FULL_OBJECT

    def is_announced_by(self, sent: "Checksum") -> bool:
        """Whether a client sent this checksum; some omit the number of parts."""
        return sent in {self, Checksum(self.algorithm, self.value.partition("-")[0])}

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.value}"

    @classmethod
    def of(cls, algorithm: str, digest: bytes) -> "Checksum":
        return cls(algorithm, b64encode(digest).decode())

    @classmethod
    def parse(cls, text: str) -> "Checksum | None":
        """Parse the stored form; return None if it is invalid."""
        algorithm, _, value = text.partition(":")
        composite = _COMPOSITE.fullmatch(value)
        digest = decode_base64(composite[1] if composite else value)
        if digest is None or len(digest) != _SIZES.get(algorithm):
            return None
        return cls(algorithm, value)


class Proof(Protocol):
    """Verification of bytes against an announced checksum while they are read."""

    @property
    def algorithm(self) -> str | None:
        """Algorithm of the announced checksum, or None; known before the first byte."""

    @property
    def md5(self) -> MD5Digest | None:
        """MD5 of the bytes so far, or None if it is not computed while reading."""

    def verified(self) -> Checksum | None:
        """Return the verified checksum, or None without one; known after the last byte."""


def hashed_by(proof: Proof | None, chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return chunks that the storage need not hash if `proof` does."""
    return chunks if proof is None or proof.md5 is None else HashedChunks(chunks, proof.md5)


def of_parts(scheme: Scheme, parts: Iterable[tuple[Checksum, int]]) -> Checksum:
    """Combine the checksums and sizes of an object's parts into the object's checksum.

    Does not read the object: the CRC of the whole follows from the CRCs of the parts.
    """
    algorithm = scheme.algorithm
    digests = [(b64decode(checksum.value), size) for checksum, size in parts]
    if scheme.type is ChecksumType.COMPOSITE:
        whole = ALGORITHMS[algorithm]()
        whole.update(b"".join(digest for digest, _ in digests))
        bare = Checksum.of(algorithm, whole.digest())
        return Checksum(algorithm, f"{bare.value}-{len(digests)}")
    combine = getattr(_crt(), f"combine_{algorithm}")
    value = 0
    for digest, size in digests:
        value = combine(value, int.from_bytes(digest, "big"), size)
    return Checksum.of(algorithm, value.to_bytes(_SIZES[algorithm], "big"))


def tee(chunks: Iterable[bytes], digests: Sequence[Digest]) -> Iterator[bytes]:
    """Yield the chunks unchanged, feeding each to the digests."""
    for chunk in chunks:
        for digest in digests:
            digest.update(chunk)
        yield chunk


def decode_base64(value: str) -> bytes | None:
    """Decode strict base 64; return None if `value` is invalid."""
    try:
        digest = b64decode(value, validate=True)
    except ValueError:
        return None
    return digest if b64encode(digest).decode() == value else None
