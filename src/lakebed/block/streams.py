"""What drivers share: measuring bytes on their way, and building the batches of a listing."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import md5
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from lakebed.block.errors import InvalidArgument
from lakebed.block.store import LIST_SCHEMA

CHUNK_BYTES: Final = 1 << 20
"""How much of an object `get` yields at a time, at most."""

LIST_BATCH_ROWS: Final = 4096
"""How many rows a batch of a listing has, at most."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class MD5(Protocol):
    """An MD5 under way, as `hashlib` has it."""

    def update(self, data: bytes, /) -> None:
        """Take in some more bytes."""

    def hexdigest(self) -> str:
        """Return the MD5 of the bytes so far, in hexadecimal."""


class HashedChunks(Iterable[bytes]):
    """Chunks that whoever makes them hashes already: to do it again would take as long."""

    def __init__(self, chunks: Iterable[bytes], md5: MD5) -> None:
        self._chunks = chunks
        self.md5 = md5
        """Of the chunks that were yielded so far."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


def _leave(_data: bytes, /) -> None:
    """Leave the hashing to whoever does it already."""


def with_md5_of(source: Iterable[bytes], wrapped: Iterable[bytes]) -> Iterable[bytes]:
    """Return chunks that yield the same bytes as others, with the MD5 of those if they have one."""
    return HashedChunks(wrapped, source.md5) if isinstance(source, HashedChunks) else wrapped


class Meter:
    """Counts and hashes the chunks of a stream as they go through."""

    def __init__(self) -> None:
        self.size = 0
        self._md5: MD5 = md5(usedforsecurity=False)

    @property
    def md5(self) -> str:
        """The MD5 of the bytes seen so far, in hexadecimal."""
        return self._md5.hexdigest()

    def through(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks as they are."""
        update = self._md5.update
        if isinstance(chunks, HashedChunks):
            self._md5, update = chunks.md5, _leave
        for chunk in chunks:
            self.size += len(chunk)
            update(chunk)
            yield chunk


def exactly(size: int, chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return chunks that hold `size` bytes together.

    Iterating raises:
        InvalidArgument: They hold more, or have ended with fewer.
    """
    return with_md5_of(chunks, _exactly(size, chunks))


def _exactly(size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    left = size
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise InvalidArgument(f"the stream holds more than the {size} bytes announced")
        yield chunk
    if left:
        raise InvalidArgument(f"the stream ended {left} bytes before the {size} bytes announced")


class ListedObject(NamedTuple):
    """One row of a listing, before it is a column."""

    address: str
    size: int
    mtime_us: int
    """Microseconds since 1970, in UTC."""
    etag: str


def list_batch(rows: list[ListedObject]) -> pa.RecordBatch:
    """Return a batch in the form of `LIST_SCHEMA`."""
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, LIST_SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=LIST_SCHEMA)


def moment(microseconds: int) -> datetime:
    """Return a time given in microseconds since 1970, exactly."""
    return _EPOCH + timedelta(microseconds=microseconds)
