"""What drivers share: measuring bytes on their way, and building the batches of a listing."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import md5
from typing import Final, NamedTuple

import pyarrow as pa

from lakebed.block.errors import InvalidArgument
from lakebed.block.store import LIST_SCHEMA

CHUNK_BYTES: Final = 1 << 20
"""How much of an object `get` yields at a time, at most."""

LIST_BATCH_ROWS: Final = 4096
"""How many rows a batch of a listing has, at most."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Meter:
    """Counts and hashes the chunks of a stream as they go through."""

    def __init__(self) -> None:
        self.size = 0
        self._md5 = md5(usedforsecurity=False)

    @property
    def md5(self) -> str:
        """The MD5 of the bytes seen so far, in hexadecimal."""
        return self._md5.hexdigest()

    def through(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks as they are."""
        for chunk in chunks:
            self.size += len(chunk)
            self._md5.update(chunk)
            yield chunk


def exactly(size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield chunks that hold `size` bytes together.

    Raises:
        InvalidArgument: They hold more, or have ended with fewer.
    """
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
