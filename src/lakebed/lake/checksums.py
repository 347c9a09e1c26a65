"""The checksums that clients of S3 send with the bytes of an object, and ask for with them.

The uploader computes one; the gateway compares it with the bytes that arrive; it is kept with the
entry (see `entry_metadata`); and the reader compares it with the bytes that come back. So damage
anywhere on the way, in the storage too, is found.
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
    """A checksum under way, as `hashlib` has them."""

    def update(self, data: bytes, /) -> None:
        """Take in some more bytes."""

    def digest(self) -> bytes:
        """Return the checksum of the bytes so far."""


class MD5Digest(Digest, Protocol):
    """An MD5 under way."""

    def hexdigest(self) -> str:
        """Return the MD5 of the bytes so far, in hexadecimal."""


def _crt() -> Any:
    """Return the library for the checksums that Python has not; it comes with the server."""
    try:
        from awscrt import checksums  # only servers have it
    except ImportError as error:
        raise MissingExtraError("a checksum of S3", "server") from error
    return checksums


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
    "crc32c": lambda: _Crc(_crt().crc32c, 4),
    "crc64nvme": lambda: _Crc(_crt().crc64nvme, 8),
    "sha1": lambda: sha1(usedforsecurity=False),
    "sha256": sha256,
}
"""By the names that S3 gives them, in lower case."""

_SIZES: Final = {"crc32": 4, "crc32c": 4, "crc64nvme": 8, "sha1": 20, "sha256": 32}
"""How many bytes each has."""

_COMBINABLE: Final = ("crc32", "crc32c", "crc64nvme")
"""The checksums of two runs of bytes make that of both."""

_COMPOSITE: Final = re.compile(r"(.+)-([1-9][0-9]{0,4})", re.ASCII)
"""The value of a composite checksum: base 64, which has no hyphen, then the number of parts."""


class ChecksumType(StrEnum):
    """What the checksum of an object is made of."""

    COMPOSITE = "COMPOSITE"
    """The checksums of its parts; their number is added to it."""
    FULL_OBJECT = "FULL_OBJECT"
    """All of its bytes."""


class Scheme(NamedTuple):
    """How the checksum of an object in parts is made of theirs."""

    algorithm: str
    """One of `ALGORITHMS`."""
    type: ChecksumType


SCHEMES: Final = frozenset(
    [Scheme(name, ChecksumType.FULL_OBJECT) for name in _COMBINABLE]
    + [Scheme(name, ChecksumType.COMPOSITE) for name in ALGORITHMS if name != "crc64nvme"]
)
"""The ones that S3 has."""


class Checksum(NamedTuple):
    """A checksum of an object, or of a part."""

    algorithm: str
    """One of `ALGORITHMS`."""
    value: str
    """In base 64; a composite one ends in the number of parts, as in ``AAAAAA==-3``."""

    @property
    def type(self) -> ChecksumType:
        """What it is made of, which its value shows."""
        is_composite = _COMPOSITE.fullmatch(self.value) is not None
        return ChecksumType.COMPOSITE if is_composite else ChecksumType.FULL_OBJECT

    def __str__(self) -> str:
        """As it is kept."""
        return f"{self.algorithm}:{self.value}"

    @classmethod
    def of(cls, algorithm: str, digest: bytes) -> "Checksum":
        """Return a digest as headers spell it."""
        return cls(algorithm, b64encode(digest).decode())

    @classmethod
    def parse(cls, text: str) -> "Checksum | None":
        """Return a checksum from the text that was kept; None: it is not one."""
        algorithm, _, value = text.partition(":")
        composite = _COMPOSITE.fullmatch(value)
        digest = decoded(composite[1] if composite else value)
        if digest is None or len(digest) != _SIZES.get(algorithm):
            return None
        return cls(algorithm, value)


class Proof(Protocol):
    """Bytes that are compared with a checksum as they are read, if one came with them."""

    @property
    def algorithm(self) -> str | None:
        """Of the checksum that comes with them; known before the first byte."""

    @property
    def md5(self) -> MD5Digest | None:
        """Their MD5 so far, if it is computed as they are read."""

    def proved(self) -> Checksum | None:
        """Return the checksum that they were found to have; known after the last byte."""


def hashed_by(proof: Proof | None, chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return chunks that need not be hashed by the storage, if their proof does it."""
    return chunks if proof is None or proof.md5 is None else HashedChunks(chunks, proof.md5)


def of_parts(scheme: Scheme, parts: Iterable[tuple[Checksum, int]]) -> Checksum:
    """Return the checksum of an object, from those of its parts and their sizes.

    No byte of the object is read: a CRC of the whole follows from those of the parts.
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


def fed(chunks: Iterable[bytes], digests: Sequence[Digest]) -> Iterator[bytes]:
    """Yield the chunks as they are, and feed them to the digests on the way."""
    for chunk in chunks:
        for digest in digests:
            digest.update(chunk)
        yield chunk


def decoded(value: str) -> bytes | None:
    """Return the bytes that a text encodes in strict base 64; None: it does not."""
    try:
        digest = b64decode(value, validate=True)
    except ValueError:
        return None
    return digest if b64encode(digest).decode() == value else None
