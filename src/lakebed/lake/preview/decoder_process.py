"""A process that decodes one table and ends: `python -m lakebed.lake.preview.decoder_process`.

The process opens no files: it requests their bytes from the server. Its memory and CPU time are
limited, so that a decompression bomb ends only this process.

Server and process exchange frames: a length in four bytes, a letter, and data. The process requests
ranges of files (``r``, answered by ``b``), and ends with a result (``d``) or an error (``e``). Its
messages are JSON: a process compromised by a malicious file can send wrong results, but nothing
worse.
"""

import resource
import sys
from contextlib import suppress
from functools import partial
from typing import IO, BinaryIO, Final

import msgspec

from lakebed.base.without_pandas import block_pandas
from lakebed.block import ByteRange, ByteStream
from lakebed.block.ranges import Between
from lakebed.lake.errors import NotComparable, PreviewTooLarge, UnreadableTable
from lakebed.lake.preview.decoding import Task, decode_here
from lakebed.lake.preview.tables import BoundedFile

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


_CPU_SECONDS: Final = 15
_ANY: Final = 1 << 62


class Order(msgspec.Struct):
    """The task of the process, with its limits."""

    task: Task
    sizes: list[int]
    memory_bytes: int


def main() -> None:
    """Execute one task."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    block_pandas()
    order = msgspec.json.decode(receive(requests)[1], type=Order)
    _limit(order.memory_bytes)
    files = [
        BoundedFile(
            partial(_ask, requests, answers, number, size),
            size,
            bytes_max=_ANY,  # the server enforces the limit
            check_time=lambda: None,
        )
        for number, size in enumerate(order.sizes)
    ]
    try:
        result = decode_here(order.task, files)
    except (NotComparable, PreviewTooLarge, UnreadableTable) as error:
        send(answers, b"e", msgspec.json.encode([error.kind, str(error)]))
    else:
        send(answers, b"d", msgspec.json.encode(result))


def _limit(memory_bytes: int) -> None:
    for which, most in (
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_CPU, _CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with suppress(ValueError, OSError):  # some systems lack some limits
            resource.setrlimit(which, (most, most))


def _ask(
    requests: BinaryIO, answers: BinaryIO, number: int, size: int, wanted: ByteRange
) -> ByteStream:
    assert isinstance(wanted, Between)
    send(answers, b"r", msgspec.json.encode([number, wanted.start, wanted.end - wanted.start]))
    data = receive(requests)[1]
    return ByteStream(iter([data]), lambda: None, object_size=size)


if __name__ == "__main__":
    main()
