"""Which bytes of an object to read, and where they lie if that is an open file."""

from dataclasses import dataclass
from typing import Final

from lakebed.block.errors import InvalidArgument, RangeNotSatisfiable


@dataclass(frozen=True, slots=True)
class Between:
    """The bytes from one offset to another; an end beyond the object's is the object's.

    Raises:
        InvalidArgument: The range is empty or begins before the object.
    """

    start: int
    """Offset of the first byte."""

    end: int
    """Offset after the last byte."""

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise InvalidArgument(f"there are no bytes from {self.start} up to {self.end}")

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class FromOffset:
    """The bytes from an offset to the end.

    Raises:
        InvalidArgument: The offset is negative.
    """

    start: int
    """Offset of the first byte."""

    def __post_init__(self) -> None:
        if self.start < 0:
            raise InvalidArgument(f"an offset must be 0 or more, not {self.start}")

    def __str__(self) -> str:
        return f"bytes from {self.start} on"


@dataclass(frozen=True, slots=True)
class Suffix:
    """The last bytes; all of them if the object is shorter.

    Raises:
        InvalidArgument: The length is not positive.
    """

    length: int
    """How many bytes, at most."""

    def __post_init__(self) -> None:
        if self.length <= 0:
            raise InvalidArgument(f"a suffix must have a length above 0, not {self.length}")

    def __str__(self) -> str:
        return f"the last {self.length} bytes"


ByteRange = Between | FromOffset | Suffix


def resolve(byte_range: ByteRange | None, size: int) -> tuple[int, int]:
    """Return offset and length of the bytes that a range means in an object of `size` bytes.

    Without a range it is all bytes, of which there may be none. A range must have at least one.

    Raises:
        RangeNotSatisfiable: It begins at or after the end, or the object is empty.
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
    """Where the bytes of a `ByteStream` lie in an open file.

    Whoever sends them may take the first of them from the file itself, before the first chunk, and
    notes how many (`take`). The chunks are those behind.
    """

    __slots__ = ("descriptor", "size", "start", "taken", "took_seconds")

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self.descriptor: Final = descriptor
        """Of the file; it is open as long as the stream is."""
        self.start: Final = start
        self.size: Final = size
        self.taken = 0
        """How many bytes were taken."""
        self.took_seconds = 0.0
        """How long that took."""

    def take(self, size: int, seconds: float) -> None:
        """Note that bytes were taken, and how long that took."""
        self.taken += size
        self.took_seconds += seconds
