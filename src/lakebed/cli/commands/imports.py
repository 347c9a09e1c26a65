"""`lakebed import`: bringing objects that exist into a branch, without copying them."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from lakebed.cli.errors import CommandError, Misuse
from lakebed.cli.groups import new_app
from lakebed.cli.options import MetaOption, key_values
from lakebed.cli.output import printable, warn
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import PathUri, parse_path
from lakebed.client.http import Client

app = new_app()

_POLL_SECONDS: Final = 0.5
_SKIPPED_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class _Import:
    """An import that was started."""

    client: Client
    parts: tuple[str, ...]
    id: str

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(*self.parts, query={"id": self.id})
        return found

    def cancel(self) -> None:
        self.client.call("DELETE", *self.parts, query={"id": self.id})


@client_command(app, "import")
def import_(
    session: Session,
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="URL", help="A folder in the storage; with --object, one object."
        ),
    ],
    destination: Annotated[
        PathUri,
        typer.Option(
            "--to",
            parser=parse_path,
            metavar="lakefs://REPOSITORY/BRANCH[/PATH]",
            help="Where the objects appear. All that is there now is replaced.",
        ),
    ],
    message: Annotated[
        str, typer.Option("--message", "-m", help="The message of the commit.")
    ] = "Import objects",
    meta: MetaOption = None,
    one_object: Annotated[
        bool, typer.Option("--object", help="Import one object, and replace one path.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail where objects would be skipped for their paths."),
    ] = False,
) -> None:
    """Bring objects that exist into a branch by one commit; their bytes stay where they are.

    lakebed import --from s3://bucket/lake/ --to lakefs://my-repo/main/lake/
    """
    if one_object and not destination.path:
        raise Misuse("--object needs a path in --to: which object is it to be?")
    parts = ("repositories", destination.repository, "branches", destination.ref, "import")
    kind = "object" if one_object else "common_prefix"
    body = {
        "paths": [{"type": kind, "path": source, "destination": destination.path}],
        "commit": {"message": message, "metadata": key_values(meta)},
        "strict": strict,
    }
    started = session.client.call("POST", *parts, body=body)
    _finish(session, _Import(session.client, parts, started["id"]), source)


def _finish(session: Session, running: _Import, source: str) -> None:
    """Wait for the end of an import, and say what came of it."""
    with _progress(session, source) as show:
        while True:
            try:
                status = running.status()
                show(status["ingested_objects"])
                if status["completed"] or status.get("error"):
                    break
                time.sleep(_POLL_SECONDS)
            except KeyboardInterrupt:
                _ask(running)
    if status.get("error"):
        raise CommandError(f"import {running.id} failed: {status['error']['message']}")
    skipped = status.get("skipped_objects", 0)
    if skipped:
        warn(f"{skipped} object(s) were skipped: their paths cannot be used")
        for address in status["skipped"][:_SKIPPED_SHOWN]:
            warn(f"skipped: {address!r}")
    commit = status["commit"]
    session.output.done(
        f"Imported {status['ingested_objects']} object(s) from {source} by commit {commit['id']}",
        {
            "id": running.id,
            "objects": status["ingested_objects"],
            "skipped": skipped,
            "commit": commit,
        },
    )


def _ask(running: _Import) -> None:
    """Ask whether to cancel an import, after Ctrl-C; a second one leaves it running."""
    hint = f"import {running.id} goes on in the server"
    if not sys.stdin.isatty():
        warn(hint)
        raise KeyboardInterrupt
    try:
        cancels = typer.confirm("Cancel the import?", err=True)
        leaves = not cancels and not typer.confirm("Go on waiting for it?", default=True, err=True)
    except (typer.Abort, KeyboardInterrupt):
        cancels, leaves = False, True
    if leaves:
        warn(hint)
        raise KeyboardInterrupt
    if cancels:
        running.cancel()


@contextmanager
def _progress(session: Session, source: str) -> Iterator[Callable[[int], None]]:
    """Show how many objects were found and how fast, where somebody can see it."""
    if session.output.as_json or not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console  # noqa: PLC0415 (slow to load, and for terminals only)
    from rich.progress import (  # noqa: PLC0415
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    begun = time.monotonic()
    with bar:
        task = bar.add_task(printable(source), total=None)

        def show(count: int) -> None:
            rate = count / max(time.monotonic() - begun, 0.001)
            text = f"{source}: {count:,} objects, {rate:,.0f}/s"
            bar.update(task, description=printable(text))

        yield show
