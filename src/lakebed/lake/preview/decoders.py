"""Decoding tables in child processes.

A Parquet or Arrow file of a few kilobytes can unpack to many gigabytes, and decoders of binary
formats can have vulnerabilities. So each table is decoded by a process that can only request its
bytes, has limits of memory and time, and ends afterwards.
"""

import logging
import select
import subprocess
import sys
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Final, cast

import msgspec

from lakebed.base.runtime import Runtime, about_to_wait
from lakebed.lake.errors import NotComparable, PreviewTooLarge, UnreadableTable
from lakebed.lake.preview.decoder_process import Order, receive, send
from lakebed.lake.preview.decoding import Preview, Task
from lakebed.lake.preview.row_diff import RowDiff
from lakebed.lake.preview.tables import BoundedFile

_LOGGER: Final = logging.getLogger(__name__)

PROCESSES_MAX: Final = 2
"""Maximum number of concurrent previews."""
MEMORY_BYTES: Final = 1 << 30
"""Memory limit of each process."""
_PROGRAM: Final = "lakebed.lake.preview.decoder_process"
_ENVIRONMENT: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
_ERRORS: Final = {each.kind: each for each in (NotComparable, PreviewTooLarge, UnreadableTable)}


class Decoders:
    """Decodes tables in a limited number of processes."""

    def __init__(
        self, runtime: Runtime, *, seconds_max: float, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._runtime = runtime
        self._memory_bytes = memory_bytes
        self._seconds_max = seconds_max
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(PROCESSES_MAX):
            self._free.put(None)

    def decode(self, task: Task, files: Sequence[BoundedFile]) -> Preview | RowDiff:
        """Execute a task in a child process; see `decoding.Decode`."""
        try:
            about_to_wait()
            self._free.get(timeout=self._seconds_max)
        except Empty:
            raise PreviewTooLarge("other previews are in progress: retry") from None
        try:
            return self._run(task, files)
        finally:
            self._free.put(None)

    def _run(self, task: Task, files: Sequence[BoundedFile]) -> Preview | RowDiff:
        ends = self._runtime.monotonic() + self._seconds_max
        process = subprocess.Popen(  # noqa: S603 - the same Python interpreter
            [sys.executable, "-I", "-m", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )
        try:
            return self._converse(process, task, files, ends)
        except (EOFError, OSError) as error:
            process.kill()
            _LOGGER.warning("a preview process ended: exit code %s", process.wait())
            raise PreviewTooLarge(
                "showing this object exceeds the limits of a preview: download it"
            ) from error
        finally:
            process.kill()
            process.communicate()

    def _converse(
        self,
        process: "subprocess.Popen[bytes]",
        task: Task,
        files: Sequence[BoundedFile],
        ends: float,
    ) -> Preview | RowDiff:
        assert process.stdin is not None
        assert process.stdout is not None
        sizes = [file.size for file in files]
        order = Order(task=task, sizes=sizes, memory_bytes=self._memory_bytes)
        send(process.stdin, b"o", msgspec.json.encode(order))
        while True:
            left = ends - self._runtime.monotonic()
            about_to_wait()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise PreviewTooLarge(
                    f"showing this object takes more than {self._seconds_max:g} seconds:"
                    " download it"
                )
            letter, data = receive(process.stdout)
            if letter == b"r":
                number, start, length = msgspec.json.decode(data, type=tuple[int, int, int])
                files[number].seek(start)
                send(process.stdin, b"b", files[number].read(length))
            elif letter == b"e":
                name, message = msgspec.json.decode(data, type=tuple[str, str])
                raise _ERRORS[name](message)
            else:
                kind = RowDiff if task.compare else Preview
                return cast("Preview | RowDiff", msgspec.json.decode(data, type=kind))
