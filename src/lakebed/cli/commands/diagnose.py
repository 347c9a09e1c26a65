"""`lakebed fsck` and `lakebed diagnose`: what is wrong with an installation.

Both open the database and the storage themselves, and read only: they work while no server does.
"""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.commands.kv import DatabaseOption, open_to_read, settings_of
from lakebed.cli.errors import Incomplete
from lakebed.cli.options import JsonOption, ServerConfigOption
from lakebed.cli.output import printable
from lakebed.cli.uris import parse_repository

if TYPE_CHECKING:
    from lakebed.diagnostics.fsck import Report


def fsck(
    *,
    uri: Annotated[str, typer.Argument(metavar="URI", help="A repository: lakefs://repository")],
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read every metarange and range of every commit of a repository, and prove its id.

    It needs the settings of the server. Nothing is changed. The exit code is 1 if something is
    damaged; each damage is printed with the commits that it touches.
    """
    from lakebed.block import open_block  # noqa: PLC0415 - it is slow to import
    from lakebed.diagnostics.fsck import RepositoryCheck  # noqa: PLC0415 - as are its friends
    from lakebed.runtime import ThreadRuntime  # noqa: PLC0415 - as are its friends

    repository = parse_repository(uri).repository
    settings, runtime = settings_of(config, database), ThreadRuntime()
    with (
        open_to_read(settings.database.url) as store,
        open_block(settings.blockstore.block, runtime=runtime) as block,
    ):
        report = RepositoryCheck(store, block, runtime, repository).run()
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _print_report(report)
    if report.damages:
        raise Incomplete(f"{len(report.damages)} damaged, see above")


def _print_report(report: "Report") -> None:
    for damage in report.damages:
        typer.echo(printable(f"{damage.what} {damage.name}: {damage.problem}"))
        for commit in damage.commits:
            typer.echo(printable(f"  commit {commit}"))
        if damage.commits_touched > len(damage.commits):
            typer.echo(f"  and {damage.commits_touched - len(damage.commits):,} more commits")
    typer.echo(
        f"{report.commits:,} commits, {report.metaranges:,} metaranges, {report.ranges:,} ranges,"
        f" {report.entries:,} entries read; {len(report.damages):,} damaged."
    )
