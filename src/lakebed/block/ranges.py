"""Byte ranges of objects, and their position in an open file."""

from dataclasses import dataclass
from typing import Final

from lakebed.block.errors import InvalidArgument, RangeNotSatisfiable


@dataclass(frozen=True, slots=True)
class Between:
    """Range from `start` up to `end`, which may exceed the object's size.

    Raises:
        InvalidArgument: The range is empty or `start` is negative.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise InvalidArgument(f"the byte range {self.start} to {self.end} is empty or negative")

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class FromOffset:
    """Range from `start` to the end of the object.

    Raises:
        InvalidArgument: The offset is negative.
    """

    start: int

    def __post_init__(self) -> None:
        if self.start < 0:
            raise InvalidArgument(f"an offset must be 0 or more, not {self.start}")

    def __str__(self) -> str:
        return f"bytes from {self.start} on"


@dataclass(frozen=True, slots=True)
class Suffix:
    """The last bytes, or the whole object if it is shorter.

    Raises:
        InvalidArgument: The length is not positive.
    """

    length: int
    """Maximum number of bytes."""

    def __post_init__(self) -> None:
        if self.length <= 0:
            raise InvalidArgument(f"a suffix must have a length above 0, not {self.length}")

    def __str__(self) -> str:
        return f"the last {self.length} bytes"


ByteRange = Between | FromOffset | Suffix


def resolve(byte_range: ByteRange | None, size: int) -> tuple[int, int]:
    """Return offset and length of a byte range in an object of `size` bytes.

    None means the whole object, which may be empty. A range must contain at least one byte.

    Raises:
        RangeNotSatisfiable: The range begins at or after the end, or the object is empty.
    """
    match byte_range:
        case None:
            return 0, size
        case Between(start, end):
            end = min(end, size)
        case FromOffset(start):
            end = size
        case Suffix(length):
            start, end = max(0, size - length), size
    if start >= end:
        raise RangeNotSatisfiable(f"an object of {size} bytes does not have {byte_range}")
    return start, end - start


class FileSection:
    """Position of the bytes of a `ByteStream` in an open file.

    A sender may send the first bytes directly from the file, before the first chunk, and counts
    them with `take`. The chunks are the remaining bytes.
    """

    __slots__ = ("descriptor", "size", "start", "taken", "took_seconds")

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self.descriptor: Final = descriptor
        """Descriptor, open until the stream is closed."""
        self.start: Final = start
        self.size: Final = size
        self.taken = 0
        """Number of bytes sent from the file."""
        self.took_seconds = 0.0
        """Time spent sending them."""

    def take(self, size: int, seconds: float) -> None:
        """Count bytes sent from the file, and the time spent."""
        self.taken += size
        self.took_seconds += seconds
