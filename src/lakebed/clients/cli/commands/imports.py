"""`lakebed import`: import existing objects into a branch, without copying them."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer

from lakebed.base.errors import MissingExtraError
from lakebed.clients.cli.commands.fs.progress import NoProgressOption
from lakebed.clients.cli.errors import CommandError, InvalidArguments
from lakebed.clients.cli.groups import new_app
from lakebed.clients.cli.options import LocalRootOption, MetaOption, key_values
from lakebed.clients.cli.output import printable, warn
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import PATH, PathUri
from lakebed.clients.http.http import Client
from lakebed.wire.imports import (
    ImportCreation,
    ImportInfo,
    ImportLocation,
    ImportQuery,
    ImportStatus,
)
from lakebed.wire.refs import CommitCreation

if TYPE_CHECKING:
    from rich.progress import Progress

app = new_app()

_POLL_SECONDS: Final = 0.5
_SKIPPED_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class _Import:
    """A running import."""

    client: Client
    destination: PathUri
    id: str
    errors: list[Exception] | None = None
    """The error of the Spark job in this process; None if the server runs the import."""

    def status(self) -> ImportStatus:
        at = self.destination
        return self.client.imports.status(at.repository, at.ref, ImportQuery(id=self.id))

    def cancel(self) -> None:
        at = self.destination
        self.client.imports.cancel(at.repository, at.ref, ImportQuery(id=self.id))


@client_command(app, "import")
def import_(
    session: Session,
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="URL", help="Folder in the storage; with --object, one object"
        ),
    ],
    destination: Annotated[
        PathUri,
        typer.Option(
            "--to",
            **PATH,
            metavar="lakefs://REPOSITORY/BRANCH[/PATH]",
            help="Destination; existing objects below are replaced",
        ),
    ],
    message: Annotated[
        str, typer.Option("--message", "-m", help="Commit message")
    ] = "Import objects",
    meta: MetaOption = None,
    one_object: Annotated[
        bool, typer.Option("--object", help="Import one object, and replace one path")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail instead of skipping objects or files")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Import only matching paths: *.csv, day=*/**"),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Leave out matching paths: _tmp/")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List and count the objects, without a commit")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on Spark, for very large lakes")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --spark: the Spark master", show_default="local"),
    ] = None,
    local_root: LocalRootOption = None,
    no_progress: NoProgressOption = False,
) -> None:
    """Import existing objects into a branch in one commit, without copying them.

    lakebed import --from s3://bucket/lake/ --to lakefs://my-repo/main/lake/
    """
    if one_object and not destination.path:
        raise InvalidArguments("--object needs a path in --to: add the path of the object")
    body = ImportCreation(
        paths=[
            ImportLocation(
                type="object" if one_object else "common_prefix",
                path=source,
                destination=destination.path,
                include=include or [],
                exclude=exclude or [],
            )
        ],
        commit=CommitCreation(message=message, metadata=key_values(meta)),
        strict=strict,
        spark=spark,
        dry_run=dry_run,
    )
    if spark and find_spec("pyspark") is None:
        raise MissingExtraError("--spark", "spark")
    if not spark and (master or local_root):
        raise InvalidArguments("--master and --local-root need --spark")
    started = session.client.imports.start(destination.repository, destination.ref, body)
    errors = None
    if spark:
        errors = _start_job(session, destination, started, master, local_root, strict=strict)
    running = _Import(session.client, destination, started.id, errors)
    _finish(session, running, source, no_progress=no_progress)


def _start_job(
    session: Session,
    destination: PathUri,
    answer: ImportInfo,
    master: str | None,
    local_root: Path | None,
    *,
    strict: bool,
) -> list[Exception]:
    """Run the Spark job of an import in a thread; return the list for its error."""
    from lakebed.block import LocalSettings  # slow to import
    from lakebed.clients.ingest.running import JobOptions, run_job
    from lakebed.clients.ingest.server import ImportBranch, Started

    options = JobOptions(
        storage=None if local_root is None else LocalSettings(local_root.resolve()),
        master=master,
        strict=strict,
    )
    started = Started.of(answer)
    branch = ImportBranch(destination.repository, destination.ref)
    errors: list[Exception] = []

    def work() -> None:
        try:
            run_job(session.settings, branch, started, options, warn)
        except Exception as error:  # noqa: BLE001 - raised by the main thread
            errors.append(error)

    threading.Thread(target=work, name="spark-import", daemon=True).start()
    return errors


def _finish(session: Session, running: _Import, source: str, *, no_progress: bool) -> None:
    """Wait for the end of an import, and print its result."""
    with _progress(session, source, hidden=no_progress) as progress, _Interrupts() as interrupts:
        while True:
            status = running.status()
            progress.show(status.ingested_objects, status.current_prefix)
            if status.completed or status.error:
                break
            if running.errors:
                raise running.errors[0]
            if interrupts.wait(_POLL_SECONDS):
                with progress.hidden(), interrupts.raised():
                    _ask(running)
    if status.error:
        raise CommandError(f"import {running.id} failed: {status.error.message}")
    skipped = status.skipped_objects
    if skipped:
        warn(f"{skipped} object(s) were skipped")
        for each in status.skipped_kinds:
            warn(f"{each.kind}: {each.count}, such as {each.example}")
        for address in status.skipped[:_SKIPPED_SHOWN]:
            warn(f"skipped: {address!r}")
    if status.commit is None:
        would = f"Would import {status.ingested_objects} object(s) from {source}"
        session.output.done(would, {"objects": status.ingested_objects, "skipped": skipped})
        return
    commit, count = status.commit, status.ingested_objects
    done = (
        f"Nothing changed: commit {commit.id} already has the {count} object(s) from {source}"
        if status.unchanged
        else f"Imported {count} object(s) from {source} in commit {commit.id}"
    )
    session.output.done(
        done,
        {
            "id": running.id,
            "objects": count,
            "skipped": skipped,
            "unchanged": status.unchanged,
            "commit": commit,
        },
    )


class _Interrupts:
    """Deferral of Ctrl-C.

    KeyboardInterrupt could be raised while a lock is held, for example that of the progress bar:
    the next use of the bar would deadlock.
    """

    def __init__(self) -> None:
        self._pressed = threading.Event()
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, lambda *_: self._pressed.set())
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def wait(self, seconds: float) -> bool:
        """Wait for a time or Ctrl-C; return whether Ctrl-C was pressed."""
        pressed = self._pressed.wait(seconds)
        self._pressed.clear()
        return pressed

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise KeyboardInterrupt as usual inside the block."""
        noted = signal.signal(signal.SIGINT, self._before)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, noted)


def _ask(running: _Import) -> None:
    """Ask after Ctrl-C whether to cancel an import; a second Ctrl-C leaves it running."""
    on_server = running.errors is None
    goes_on = "continues on the server" if on_server else "ends with its Spark job"
    hint = f"import {running.id} {goes_on}"
    if not sys.stdin.isatty():
        warn(hint)
        raise KeyboardInterrupt
    try:
        cancels = typer.confirm("Cancel the import?", err=True)
        leaves = not cancels and not typer.confirm("Keep waiting for it?", default=True, err=True)
    except (typer.Abort, KeyboardInterrupt):
        cancels, leaves = False, True
    if leaves:
        warn(hint)
        raise KeyboardInterrupt
    if cancels:
        running.cancel()


class _Progress:
    """A hidden progress bar."""

    def show(self, count: int, current: str | None) -> None:
        """Show the number of objects found, and the current prefix."""

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bar during the block."""
        yield


class _TerminalProgress(_Progress):
    """A single updated line."""

    def __init__(self, bar: "Progress", source: str) -> None:
        self._bar = bar
        self._source = source
        self._task = bar.add_task(printable(source), total=None)
        self._begun = time.monotonic()

    def show(self, count: int, current: str | None) -> None:
        rate = count / max(time.monotonic() - self._begun, 0.001)
        text = f"{current or self._source}: {count:,} objects, {rate:,.0f}/s"
        self._bar.update(self._task, description=printable(text))

    @contextmanager
    def hidden(self) -> Iterator[None]:
        self._bar.stop()
        yield
        self._bar.start()


@contextmanager
def _progress(session: Session, source: str, *, hidden: bool) -> Iterator[_Progress]:
    """Show the number of objects, their rate and the prefix on a terminal."""
    if hidden or session.output.as_json or not sys.stderr.isatty():
        yield _Progress()
        return
    from rich.console import Console  # slow to import, only for terminals
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with bar:
        yield _TerminalProgress(bar, source)
