"""Helpers of drivers: measuring streams, and building the batches of a listing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from lakebed.block.errors import InvalidArgument, InvalidPart
from lakebed.block.store import LIST_SCHEMA, PART_NUMBER_MAX, Part, PartInfo

CHUNK_BYTES: Final = 1 << 20
"""Maximum size of a chunk of `get`."""

LIST_BATCH_ROWS: Final = 4096
"""Maximum number of rows in a batch of a listing."""


class MD5(Protocol):
    """An MD5 object of `hashlib`."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the MD5 of the bytes so far, in hexadecimal."""


class HashedChunks(Iterable[bytes]):
    """Chunks that their producer already hashes: hashing them again would take as long."""

    def __init__(self, chunks: Iterable[bytes], md5: MD5) -> None:
        self._chunks = chunks
        self.md5 = md5
        """MD5 of the chunks yielded so far."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


def _no_update(_data: bytes, /) -> None:
    """Skip the hashing, which the producer does."""


def with_md5_of(source: Iterable[bytes], wrapped: Iterable[bytes]) -> Iterable[bytes]:
    """Return `wrapped`, with the MD5 of `source` if the source is hashed."""
    return HashedChunks(wrapped, source.md5) if isinstance(source, HashedChunks) else wrapped


class Meter:
    """Counts and hashes the chunks of a stream."""

    def __init__(self) -> None:
        self.size = 0
        self._md5: MD5 = md5(usedforsecurity=False)

    @property
    def md5(self) -> str:
        """MD5 of the bytes seen so far, in hexadecimal."""
        return self._md5.hexdigest()

    def through(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        update = self._md5.update
        if isinstance(chunks, HashedChunks):
            self._md5, update = chunks.md5, _no_update
        for chunk in chunks:
            self.size += len(chunk)
            update(chunk)
            yield chunk


def exactly(size: int, chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return the chunks, checking their total size.

    Iterating raises:
        InvalidArgument: The chunks have more or fewer bytes than `size`.
    """
    return with_md5_of(chunks, _exactly(size, chunks))


def _exactly(size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    left = size
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise InvalidArgument(f"the stream has more than the {size} bytes announced")
        yield chunk
    if left:
        raise InvalidArgument(f"the stream ended {left} bytes before the {size} bytes announced")


class ListedObject(NamedTuple):
    """A row of a listing."""

    address: str
    size: int
    mtime_us: int
    """Microseconds since 1970, in UTC."""
    etag: str


def list_batch(rows: list[ListedObject]) -> pa.RecordBatch:
    """Return a batch with the columns of `LIST_SCHEMA`."""
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, LIST_SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=LIST_SCHEMA)


def check_part_number(number: int) -> None:
    """Raise `InvalidArgument` unless the number is in 1 to `PART_NUMBER_MAX`."""
    if not 1 <= number <= PART_NUMBER_MAX:
        raise InvalidArgument(f"the part number must be 1 to {PART_NUMBER_MAX}, not {number}")


def check_order(named: Sequence[Part]) -> None:
    """Raise `InvalidPart` if no part is given or the part numbers do not ascend."""
    if not named:
        raise InvalidPart("completing an upload needs at least one part")
    for before, after in pairwise(named):
        if before.number >= after.number:
            raise InvalidPart(f"part {after.number} is listed after part {before.number}")


def check_parts(named: Sequence[Part], stored: Mapping[int, PartInfo]) -> None:
    """Raise `InvalidPart` as `check_order`, or if a part is not stored with its ETag."""
    check_order(named)
    for part in named:
        if part.number not in stored:
            raise InvalidPart(f"part {part.number} was not uploaded")
        if stored[part.number].etag != part.etag:
            raise InvalidPart(f"part {part.number} was uploaded with another ETag than {part.etag}")
