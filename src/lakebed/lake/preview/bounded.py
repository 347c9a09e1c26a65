"""An object as a file readable by PyArrow, with limits on its cost."""

import io
from collections.abc import Callable

from lakebed.block import ByteRange, ByteStream
from lakebed.block.ranges import Between
from lakebed.lake.errors import PreviewTooLarge


class BoundedFile(io.RawIOBase):
    """An object read by ranges; raises if too many bytes are read or time runs out.

    Each read is a request to the storage: wrap the file in a buffer for small reads.
    """

    def __init__(
        self,
        read: Callable[[ByteRange], ByteStream],
        size: int,
        *,
        bytes_max: int,
        check_time: Callable[[], None],
    ) -> None:
        """Create a file of `size` bytes; `read` opens a range, `bytes_max` limits all reads."""
        self._read = read
        self.size = size
        self._left = bytes_max
        self._bytes_max = bytes_max
        self.check_time = check_time
        """Raises if the time is over."""
        self._position = 0

    @property
    def bytes_read(self) -> int:
        """Number of bytes read so far."""
        return self._bytes_max - self._left

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; raise `PreviewTooLarge` beyond the limit of bytes or time."""
        self.check_time()
        rest = max(0, self.size - self._position)
        wanted = rest if size is None or size < 0 else min(size, rest)
        if wanted == 0:
            return b""
        if wanted > self._left:
            raise PreviewTooLarge(
                f"showing this object would read more than {self._bytes_max >> 20} MiB: download"
                " it, or read it with a program"
            )
        self._left -= wanted
        with self._read(Between(self._position, self._position + wanted)) as stream:
            data = b"".join(stream)
        self._position += len(data)
        return data
