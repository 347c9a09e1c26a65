"""Streams to and from a cloud."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError

from lakebed.block.address import Address
from lakebed.block.drivers.cloud.errors import panics_explained
from lakebed.block.errors import InvalidArgument, StorageUnavailable
from lakebed.block.streams import CHUNK_BYTES, Meter, with_md5_of

if TYPE_CHECKING:  # this exists for type checkers only
    from obstore import GetResult


class _SourceError(Exception):
    """Stand-in for the caller's exception, raised through a library."""


class MeasuredChunks(Iterator[bytes]):
    """Iterator over the caller's chunks that measures them and records their exception.

    The library that pulls the chunks must not see the caller's own exceptions: it would take a lost
    connection of the caller for its own and wait for a response to half a request, or a
    FileNotFoundError for the storage's response. The library sees an unknown exception instead, and
    `reraising` raises the caller's.
    """

    def __init__(self, chunks: Iterable[bytes], *, size_max: int) -> None:
        self._meter = Meter()
        self._chunks = self._meter.through(chunks)
        self._size_max = size_max
        self._raised: BaseException | None = None

    @property
    def size(self) -> int:
        """Number of bytes read so far."""
        return self._meter.size

    @property
    def md5(self) -> str:
        """MD5 of the bytes read so far, in hexadecimal."""
        return self._meter.md5

    def __next__(self) -> bytes:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            raise
        except BaseException as error:
            self._raised = error
            raise _SourceError from error
        if self.size > self._size_max:
            self._raised = InvalidArgument(f"the stream has more than {self._size_max} bytes")
            raise _SourceError
        return chunk

    @contextmanager
    def reraising(self) -> Iterator[None]:
        """Raise an exception of the chunks at the end of the block, whatever the outcome."""
        try:
            yield
        except Exception:
            if self._raised is None:
                raise
        if self._raised is not None:
            raise self._raised from None

    def take(self, size: int) -> tuple[bytes, bool]:
        """Return the first bytes (more than `size`, or all), and whether they are all."""
        taken: list[bytes] = []
        for chunk in self:
            taken.append(chunk)
            if self.size > size:
                return b"".join(taken), False
        return b"".join(taken), True

    def after(self, first: bytes) -> Iterator[bytes]:
        """Return the bytes taken before, followed by the rest."""
        return chain([first], self)


def delayed_by_one(chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return the chunks, each delayed until the next chunk or the end has been read.

    A server that counts bytes completes a request with the last byte, so an exception that the
    caller's stream raises in place of its end must come first.
    """
    return with_md5_of(chunks, _delayed_by_one(chunks))


def _delayed_by_one(chunks: Iterable[bytes]) -> Iterator[bytes]:
    buffer: bytes | None = None
    for chunk in chunks:
        if buffer is not None:
            yield buffer
        buffer = chunk
    if buffer is not None:
        yield buffer


def in_sizes(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `size`; the last may be smaller."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


def body(result: "GetResult", address: Address) -> Generator[bytes]:
    """Yield all bytes of an object.

    Raises:
        StorageUnavailable: The stream broke off, or the object was replaced or deleted meanwhile.
    """
    start, end = result.range
    left = end - start
    try:
        with panics_explained(address):
            for chunk in result.stream(min_chunk_size=CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    problem = f"reading {address} returned more bytes than announced"
                    raise StorageUnavailable(problem)
                yield chunk
    except (BaseError, OSError) as error:
        raise StorageUnavailable(
            f"reading {address} broke off {left} bytes before the end"
        ) from error
    if left:
        raise StorageUnavailable(f"reading {address} ended {left} bytes early")
