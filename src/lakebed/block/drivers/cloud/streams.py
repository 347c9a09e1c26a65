"""Streams on their way to and from a cloud."""

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


class _SourceBrokeOffError(Exception):
    """What a library gets to see instead of the caller's own exception."""


class MeasuredChunks(Iterator[bytes]):
    """The caller's chunks, measured, and what they raised.

    A library that pulls the chunks must not see an exception of the caller's own. It would take a
    lost connection of the caller for one of its own, and wait for an answer to half a request; or
    FileNotFoundError for what the storage said. It sees an exception that it cannot know, and
    `handing_on` raises the caller's.
    """

    def __init__(self, chunks: Iterable[bytes], *, size_max: int) -> None:
        self._meter = Meter()
        self._chunks = self._meter.through(chunks)
        self._size_max = size_max
        self._raised: BaseException | None = None

    @property
    def size(self) -> int:
        """How many bytes went through so far."""
        return self._meter.size

    @property
    def md5(self) -> str:
        """The MD5 of those bytes, in hexadecimal."""
        return self._meter.md5

    def __next__(self) -> bytes:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            raise
        except BaseException as error:
            self._raised = error
            raise _SourceBrokeOffError from error
        if self.size > self._size_max:
            self._raised = InvalidArgument(f"the stream has more than {self._size_max} bytes")
            raise _SourceBrokeOffError
        return chunk

    @contextmanager
    def handing_on(self) -> Iterator[None]:
        """Raise at the end of the block what the chunks raised in it, whatever came of that."""
        try:
            yield
        except Exception:
            if self._raised is None:
                raise
        if self._raised is not None:
            raise self._raised from None

    def take(self, size: int) -> tuple[bytes, bool]:
        """Return the first bytes, more than `size` of them or all, and whether they are all."""
        taken: list[bytes] = []
        for chunk in self:
            taken.append(chunk)
            if self.size > size:
                return b"".join(taken), False
        return b"".join(taken), True

    def after(self, first: bytes) -> Iterator[bytes]:
        """Return the bytes taken before and then the rest."""
        return chain([first], self)


def held_back(chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return chunks of which each comes only when the next is there, or the end.

    A server that counts bytes takes a request for whole with its last one. What the caller's stream
    raises instead of its end must come before that.
    """
    return with_md5_of(chunks, _held_back(chunks))


def _held_back(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held: bytes | None = None
    for chunk in chunks:
        if held is not None:
            yield held
        held = chunk
    if held is not None:
        yield held


def in_sizes(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes in pieces of a size; the last may be smaller."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


def body(result: "GetResult", address: Address) -> Generator[bytes]:
    """Yield the bytes of an object that was found, all of them.

    Raises:
        StorageUnavailable: They broke off, or the object was replaced or deleted meanwhile.
    """
    start, end = result.range
    left = end - start
    try:
        with panics_explained(address):
            for chunk in result.stream(min_chunk_size=CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    problem = f"reading {address} gave more bytes than were announced"
                    raise StorageUnavailable(problem)
                yield chunk
    except (BaseError, OSError) as error:
        raise StorageUnavailable(f"reading {address} broke off, {left} bytes short") from error
    if left:
        raise StorageUnavailable(f"reading {address} ended {left} bytes short")
