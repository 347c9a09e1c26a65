"""Objects that lie in open files: the system can send them without a copy in this process."""

from typing import Final


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
