"""Protocol between a server and a process that decodes a table.

A frame is its length in four bytes, a letter, and data. The process requests ranges of files
(``r``, answered by ``b``), and ends with a result (``d``) or an error (``e``). Its messages are
JSON: a process compromised by a malicious file can send wrong results, but nothing worse.
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
    """Return letter and data of the next frame; raise `EOFError` at the end or above the limit."""
    length = int.from_bytes(_exactly(pipe, _LENGTH_BYTES), "big")
    if not 0 < length <= FRAME_BYTES_MAX:
        raise EOFError
    return _exactly(pipe, 1), _exactly(pipe, length - 1)


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
