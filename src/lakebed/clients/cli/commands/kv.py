"""``lakebed kv``: inspect a database, or copy it to another one."""

import json
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.clients.cli.errors import InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import ServerConfigOption, YesOption, dotted_settings
from lakebed.clients.cli.session import confirm

if TYPE_CHECKING:
    from lakebed.base.runtime import Runtime
    from lakebed.kv import Store
    from lakebed.kv.copying import CopySide
    from lakebed.server.settings import ServerSettings

app = new_group("Inspect a database, or copy it to another one.")

_PERMISSIONS_OF_OTHERS = 0o077

DatabaseOption = Annotated[str | None, typer.Option(help="URL of the database", show_default=False)]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="URL, as in database.url")]


@app.command()
def inspect(
    *,
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
    partition: Annotated[
        str | None, typer.Option(help="Only this partition", show_default=False)
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Only keys with this prefix", show_default=False)
    ] = "",
    kind: Annotated[
        str | None,
        typer.Option(help="Only records of this kind, such as Branch", show_default=False),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of records")] = None,
) -> None:
    """Print the records of a database as JSON lines, read-only, with secrets masked.

    Damaged records are listed without their content.
    """
    from lakebed.clients.diagnostics.records import Filter, shown_records  # slow to import

    wanted = Filter(
        None if partition is None else os.fsencode(partition), os.fsencode(prefix), kind
    )
    with open_to_read(settings_of(config, database).database.url) as store:
        for shown in islice(shown_records(store, wanted), limit):
            typer.echo(json.dumps(shown.as_dict(), ensure_ascii=False))


@app.command()
def copy(
    *,
    source: Annotated[str, typer.Argument(metavar="FROM", help="URL of the source")],
    target: Annotated[str, typer.Argument(metavar="TO", help="URL of an empty database")],
) -> None:
    """Copy a whole database into an empty one: users, refs, uncommitted changes, settings.

    FROM becomes read-only: running servers respond to changes with 503, and no server can start.
    The copy is complete when both have the same content hash. Then set database.url to TO and
    restart the servers. After an interruption, run it again to resume.
    """
    from lakebed.base.runtime import ThreadRuntime
    from lakebed.kv import halt  # slow to import
    from lakebed.kv.copying import StoreCopy

    if source == target:
        raise InvalidArguments("FROM and TO are the same database: pass an empty database as TO")
    os.umask(_PERMISSIONS_OF_OTHERS)  # TO may be a file, and holds the users of an installation
    runtime = ThreadRuntime()
    before = _open_existing(source, runtime)
    with before.store:
        after = _open(target, runtime)
        with after.store:
            counts = StoreCopy(
                before, after, runtime, halt.SETTLE_SECONDS, print_line=_print_note
            ).run()
    _print_note("\n")
    typer.echo(
        f"Copied: {counts.records:,} records in {counts.partitions:,} partitions,"
        f" {counts.written:,} of them by this run. Content hash {counts.content_hash}."
    )
    typer.echo(f"Now set database.url to {after.name} and restart the servers")


@app.command()
def release(*, url: UrlArgument, yes: YesOption = False) -> None:
    """Make a database usable again after its copy, or after giving up on the copy."""
    from lakebed.base.runtime import ThreadRuntime
    from lakebed.kv.copying import release as remove_halt  # slow to import

    confirm("If the copy is in use, the two databases will diverge. Continue?", yes=yes)
    side = _open_existing(url, ThreadRuntime())
    with side.store:
        halt = remove_halt(side)
    typer.echo(f"{side.name} can be used again; {halt.other} is no longer its copy")


def settings_of(config: Path | None, database: str | None) -> "ServerSettings":
    """Return the settings of a server, without validation."""
    from lakebed.server.config_files import read  # slow to import

    return read(config, environment=os.environ, flags=dotted_settings(database__url=database))


def open_to_read(url: str) -> "Store":
    """Open an existing database read-only, halted or not."""
    from lakebed.kv import open_store  # slow to import
    from lakebed.kv.halt import Permit

    check_exists(url)
    return open_store(url, permit=Permit(reads_only=True))


def _open_existing(url: str, runtime: "Runtime") -> "CopySide":
    check_exists(url)
    return _open(url, runtime)


def check_exists(url: str) -> None:
    """Refuse a missing file, which opening would create."""
    from lakebed.server.settings import embedded_path  # slow to import

    path = embedded_path(url)
    if path is not None and not path.exists():
        raise InvalidArguments(f"database file {path} does not exist: check the path")


def _open(url: str, runtime: "Runtime") -> "CopySide":
    from lakebed.kv import open_store  # slow to import
    from lakebed.kv.copying import CopySide
    from lakebed.kv.halt import Permit
    from lakebed.server.settings import mask

    permit = Permit()
    return CopySide(open_store(url, runtime=runtime, permit=permit), permit, mask(url))


def _print_note(text: str) -> None:
    if os.isatty(2):
        typer.echo(f"\r{text:<78}", err=True, nl=False)
