"""Progress bars, on a terminal; silence in a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from lakebed.cli.output import printable
from lakebed.cli.session import Session


@contextmanager
def progress(
    session: Session,
    title: str,
    *,
    unit: Literal["bytes", "objects"] = "bytes",
    total: int | None = None,
) -> Iterator[Callable[[int], None]]:
    """Show how something gets on; call what this gives with each step, from any thread."""
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
