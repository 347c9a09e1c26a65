"""How transfers are going, as a bar on a terminal, and what became of them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from lakebed.cli.errors import Incomplete
from lakebed.cli.output import printable, size, warn
from lakebed.cli.session import Session

_FAILURES_MAX: Final = 100
"""After so many, the rest will most likely fail too."""


@contextmanager
def progress(
    session: Session,
    title: str,
    *,
    unit: Literal["bytes", "objects"] = "bytes",
    total: int | None = None,
) -> Iterator[Callable[[int], None]]:
    """Show a bar; the caller gets a function to call with each step, from any thread."""
    if session.output.as_json or not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console  # noqa: PLC0415 (slow to load, and for terminals only)
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    measures = (
        (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(),)
    )
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *measures,
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(printable(title), total=total)
        yield lambda step: bar.advance(task, step)


def _ignore(_: int) -> None:
    pass


class Report:
    """Counts transfers, and names each that failed when it does."""

    def __init__(self, done: str) -> None:
        self._done = done
        """What happened to objects, in a word: "copied"."""
        self._count = 0
        self._size_bytes = 0
        self._failed: list[dict[str, str]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self._count and not self._failed

    def add(self, name: str, size_bytes: int | None, error: str | None) -> None:
        """Note one outcome.

        Raises:
            Incomplete: Too many have failed to go on.
        """
        if error is None:
            self._count += 1
            self._size_bytes += size_bytes or 0
            return
        warn(f"not {self._done}: {name}: {error}")
        self._failed.append({"name": name, "message": error})
        if len(self._failed) >= _FAILURES_MAX:
            raise Incomplete(
                f"gave up after {len(self._failed)} failures; {self._count} object(s) were"
                f" {self._done}"
            )

    def show(self, session: Session, what: str) -> None:
        """Say how it went.

        Raises:
            Incomplete: Something failed.
        """
        done = f"{self._count} object(s), {size(self._size_bytes)}"
        session.output.done(
            f"{self._done.capitalize()} {what}: {done}",
            {"objects": self._count, "size_bytes": self._size_bytes, "failed": self._failed},
        )
        if self._failed:
            raise Incomplete(f"{len(self._failed)} could not be {self._done}")
