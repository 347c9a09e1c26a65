"""What passes between a server and a process that reads a table for it.

A frame is its length in four bytes, a letter, and bytes. The reader asks for ranges of files
(``r``, and gets ``b``), and ends with a result (``d``) or an error (``e``). What it sends is JSON:
a process that was taken over by a hostile file can lie, and no more.
"""

from typing import IO, Final

FRAME_BYTES_MAX: Final = 128 << 20
_LENGTH_BYTES: Final = 4


def send(pipe: IO[bytes], letter: bytes, data: bytes) -> None:
    """Send a frame."""
    pipe.write((len(data) + 1).to_bytes(_LENGTH_BYTES, "big") + letter)
    pipe.write(data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[bytes, bytes]:
    """Return the letter and the bytes of the next frame.

    Raises:
        EOFError: There is none, or it is too large.
    """
    length = int.from_bytes(_exactly(pipe, _LENGTH_BYTES), "big")
    if not 0 < length <= FRAME_BYTES_MAX:
        raise EOFError
    return _exactly(pipe, 1), _exactly(pipe, length - 1)


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
