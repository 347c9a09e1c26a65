"""``lakebed kv``: look into a database, or copy it into another one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.errors import Misuse
from lakebed.cli.groups import new_group
from lakebed.cli.options import YesOption

if TYPE_CHECKING:
    from lakebed.kv.copying import Side
    from lakebed.runtime import Runtime

app = new_group("Look into a database, or copy it into another one.")

UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="A database, as in database.url.")]


@app.command()
def copy(
    *,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The URL of what is copied.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The URL of an empty database.")],
) -> None:
    """Copy a whole database into an empty one: users, refs, what is staged, settings.

    FROM takes no more changes from then on: servers that run answer 503 to them, and none starts.
    The copy is complete when both have the same content hash. Then set database.url to TO and
    restart the servers. If this is cut off, run it again: it goes on.
    """
    from lakebed.kv import halt  # noqa: PLC0415 - it is slow to import
    from lakebed.kv.copying import StoreCopy  # noqa: PLC0415 - as are its friends
    from lakebed.runtime import ThreadRuntime  # noqa: PLC0415 - as are its friends

    if source == target:
        raise Misuse("FROM and TO are the same database")
    runtime = ThreadRuntime()
    before = _open_existing(source, runtime)
    with before.store:
        after = _open(target, runtime)
        with after.store:
            counts = StoreCopy(before, after, runtime, halt.SETTLE_SECONDS, say=_say).run()
    typer.echo(
        f"Copied: {counts.records:,} records in {counts.partitions:,} partitions, of which"
        f" {counts.written:,} were written by this run. Content hash {counts.content_hash}."
    )
    typer.echo(f"Now set database.url to {after.name} and restart the servers.")


@app.command()
def release(*, url: UrlArgument, yes: YesOption = False) -> None:
    """Let servers use a database again that was copied, or whose copy is given up."""
    from lakebed.kv.copying import release as remove_mark  # noqa: PLC0415 - it is slow to import
    from lakebed.runtime import ThreadRuntime  # noqa: PLC0415 - as are its friends

    if not yes:
        typer.confirm(
            "If the copy is in use, changes will part between the two. Go on?", abort=True
        )
    side = _open_existing(url, ThreadRuntime())
    with side.store:
        mark = remove_mark(side)
    typer.echo(f"{side.name} can be used again; its copy to {mark.other} is none any more.")


def _open_existing(url: str, runtime: "Runtime") -> "Side":
    """Open a database that must be there: a file is not made by looking for it."""
    from lakebed.server.settings import SQLITE  # noqa: PLC0415 - it is slow to import

    path = Path(url.removeprefix(SQLITE).partition("?")[0])
    if url.startswith(SQLITE) and not path.exists():
        raise Misuse(f"there is no file {path}")
    return _open(url, runtime)


def _open(url: str, runtime: "Runtime") -> "Side":
    from lakebed.kv import open_store  # noqa: PLC0415 - it is slow to import
    from lakebed.kv.copying import Side  # noqa: PLC0415 - as are its friends
    from lakebed.kv.wrappers.halting import Permit  # noqa: PLC0415 - as are its friends
    from lakebed.server.settings import mask  # noqa: PLC0415 - as are its friends

    permit = Permit()
    return Side(open_store(url, runtime=runtime, permit=permit), permit, mask(url))


def _say(text: str) -> None:
    if os.isatty(2):
        typer.echo(f"\r{text:<78}", err=True, nl=False)
