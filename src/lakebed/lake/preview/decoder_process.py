"""A process that decodes one table and ends: `python -m lakebed.lake.preview.decoder_process`.

The process opens no files: it requests their bytes from the server (`frames`). Its memory and CPU
time are limited, so that a decompression bomb ends only this process.
"""

import resource
import sys
from contextlib import suppress
from functools import partial
from typing import BinaryIO, Final

import msgspec

from lakebed.base.without_pandas import block_pandas
from lakebed.block import ByteRange, ByteStream
from lakebed.block.ranges import Between
from lakebed.lake.errors import NotComparable, PreviewTooLarge, UnreadableTable
from lakebed.lake.preview.bounded import BoundedFile
from lakebed.lake.preview.decoding import Task, decode_here
from lakebed.lake.preview.frames import receive, send

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
