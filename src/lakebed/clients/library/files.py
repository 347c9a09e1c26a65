"""Objects as files: lazy readers, and writers that store on `close`."""

import io
import os
from collections.abc import Callable
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Final, TextIO, cast

from lakebed.clients.library.backend import OpenObject
from lakebed.clients.library.errors import Invalid

_BUFFER_BYTES: Final = 1 << 20
_MEMORY_BYTES: Final = 16 << 20
"""Larger drafts are spooled to a temporary file."""
READ_MODES: Final = ("r", "rb")
WRITE_MODES: Final = ("w", "wb", "x", "xb")

Store = Callable[[BinaryIO], object]
"""Stores the content of a file."""


def check_mode(mode: str, allowed: tuple[str, ...]) -> None:
    """Check the mode of a file."""
    if mode not in allowed:
        raise Invalid(f"invalid mode '{mode}': use one of {', '.join(map(repr, allowed))}")


def new_reader(opened: OpenObject, mode: str) -> BinaryIO | TextIO:
    """Return a file that reads an object."""
    binary = io.BufferedReader(_Reader(opened), _BUFFER_BYTES)
    return binary if "b" in mode else io.TextIOWrapper(binary, encoding="utf-8")


def new_writer(store: Store, mode: str) -> BinaryIO | TextIO:
    """Return a file that is stored as an object when it is closed.

    If a ``with`` block raises, or the file is never closed, no object is stored.
    """
    binary = ObjectWriter(store)
    return cast("BinaryIO", binary) if "b" in mode else _TextWriter(binary)


class _Reader(io.RawIOBase):
    """Raw stream of an object's bytes."""

    def __init__(self, opened: OpenObject) -> None:
        self._opened = opened
        self._size = opened.info.size_bytes
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, begin + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        found = self._take(len(view))
        view[: len(found)] = found
        return len(found)

    def readall(self) -> bytes:
        return self._take(self._size)

    def _take(self, count: int) -> bytes:
        end = min(self._size, self._place + count)
        if self._place >= end:
            return b""
        found = self._opened.read(self._place, end)
        self._place += len(found)
        return found


class ObjectWriter(io.BufferedIOBase):
    """A file that is stored when it is closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file = SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115 - closed below

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        """Store the content; if storing fails, no object is created."""
        if self.closed:
            return
        try:
            self._file.seek(0)
            self._store(cast("BinaryIO", self._file))
        finally:
            self.discard()

    def discard(self) -> None:
        """Close without storing."""
        self._file.close()
        super().close()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # The default `__del__` closes: a failed program would store half of an object.
        self.discard()


class _TextWriter(io.TextIOWrapper):
    """Text file that is stored when it is closed, without newline translation."""

    def __init__(self, binary: ObjectWriter) -> None:
        super().__init__(cast("BinaryIO", binary), encoding="utf-8", newline="")
        self._binary = binary

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._binary.discard()
        else:
            self.close()

    def __del__(self) -> None:
        self._binary.discard()
