"""Progress bars and summaries of transfers."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from lakebed.clients.cli.errors import Incomplete
from lakebed.clients.cli.output import printable, size, warn
from lakebed.clients.cli.session import Session

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_FAILURES_MAX: Final = 100
"""After so many failures, give up."""

NoProgressOption = Annotated[bool, typer.Option("--no-progress", help="Hide the progress bar")]


class Bar:
    """Receiver of progress from any thread; displays nothing."""

    def __call__(self, step: int) -> None:
        """Count transferred bytes or objects."""

    def end_file(self) -> None:
        """Count a completed file."""

    def expect(self, sizes: Iterable[int]) -> None:
        """Announce the sizes of further files, if displayed."""


class _ShownBar(Bar):
    def __init__(self, bar: "Progress", task: "TaskID") -> None:
        self._bar, self._task = bar, task
        self._done, self._files, self._total = 0, 0, 0

    def __call__(self, step: int) -> None:
        self._bar.advance(self._task, step)

    def end_file(self) -> None:
        self._done += 1
        self._show_files()

    def expect(self, sizes: Iterable[int]) -> None:
        for each in sizes:
            self._files += 1
            self._total += each
            self._show_files()
        self._bar.update(self._task, total=self._total)

    def _show_files(self) -> None:
        self._bar.update(self._task, files=f"{self._done}/{self._files} files")


@contextmanager
def progress(
    session: Session,
    title: str,
    *,
    unit: Literal["bytes", "objects"] = "bytes",
    total: int | None = None,
    hidden: bool = False,
) -> Iterator[Bar]:
    """Show a bar, and yield the receiver of progress."""
    if hidden or session.output.as_json or not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console  # slow to load, only for terminals
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.table import Column

    # The title is truncated, the figures never.
    title_column = Column(ratio=2, no_wrap=True, overflow="ellipsis")
    whole = Column(no_wrap=True)
    measures = (
        (
            DownloadColumn(table_column=whole),
            TransferSpeedColumn(table_column=whole),
            TextColumn("ETA"),
            TimeRemainingColumn(table_column=whole),
        )
        if unit == "bytes"
        else (MofNCompleteColumn(table_column=whole), TimeElapsedColumn(table_column=whole))
    )
    bar = Progress(
        TextColumn("{task.description}", markup=False, table_column=title_column),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        *measures,
        TextColumn("{task.fields[files]}"),
        console=Console(stderr=True),
        expand=True,
    )
    with bar:
        yield _ShownBar(bar, bar.add_task(printable(title), total=total, files=""))


class TransferReport:
    """Counter of transfers; reports each failure immediately."""

    def __init__(self, done: str, *, goes_on: bool = False) -> None:
        self._done = done
        """Participle of the operation, such as "copied"."""
        self._goes_on = goes_on
        """Whether running the command again skips completed objects."""
        self._count = 0
        self._skipped = 0
        self._size_bytes = 0
        self._failed: list[dict[str, str]] = []

    @property
    def is_empty(self) -> bool:
        """Whether the report has no items."""
        return not self._count and not self._skipped and not self._failed

    def add(self, name: str, size_bytes: int | None, error: str | None) -> None:
        """Count an outcome; a size of None means skipped. Raise if too many have failed."""
        if error is None and size_bytes is None:
            self._skipped += 1
            return
        if error is None:
            self._count += 1
            self._size_bytes += size_bytes or 0
            return
        warn(f"not {self._done}: {name}: {error}")
        self._failed.append({"name": name, "message": error})
        if len(self._failed) >= _FAILURES_MAX:
            raise Incomplete(
                f"stopped after {len(self._failed)} failures; {self._count} object(s) were"
                f" {self._done}"
            )

    @contextmanager
    def reporting_interrupt(self) -> Iterator[None]:
        """Print a summary after Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            is_kept = self._goes_on and self._count
            done = (
                f"{self._figures()} {self._done}"
                if self._count
                else "the partial transfer was discarded"
            )
            warn(f"Interrupted; {done}. Run again to {'resume' if is_kept else 'restart'}.")
            raise

    def _figures(self) -> str:
        return f"{self._count} object(s), {size(self._size_bytes)}"

    def show(self, session: Session, what: str) -> None:
        """Print the summary, and raise `Incomplete` if an item failed."""
        there = f"; {self._skipped} skipped as equal" if self._skipped else ""
        session.output.done(
            f"{self._done.capitalize()} {what}: {self._figures()}{there}",
            {
                "objects": self._count,
                "size_bytes": self._size_bytes,
                "skipped": self._skipped,
                "failed": self._failed,
            },
        )
        if self._failed:
            raise Incomplete(f"{len(self._failed)} object(s) could not be {self._done}, see above")
