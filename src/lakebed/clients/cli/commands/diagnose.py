"""`lakebed fsck` and `lakebed diagnose`: find problems of an installation.

Both open the database and the storage directly and read-only, so they work without a server.
"""

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.clients.cli.commands.kv import DatabaseOption, open_to_read, settings_of
from lakebed.clients.cli.errors import Incomplete, InvalidArguments
from lakebed.clients.cli.options import JsonOption, ServerConfigOption
from lakebed.clients.cli.output import printable
from lakebed.clients.cli.uris import parse_repository

if TYPE_CHECKING:
    from lakebed.clients.diagnostics.fsck import FsckReport


def fsck(
    *,
    uri: Annotated[str, typer.Argument(metavar="URI", help="Repository: lakefs://repository")],
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read every metarange and range of every commit of a repository, and verify its id.

    Also report branches and tags with objects that are missing in the storage.

    Needs the settings of the server, and changes nothing. The exit code is 1 if a problem is found;
    problems are listed with the affected commits.
    """
    from lakebed.base.runtime import ThreadRuntime
    from lakebed.block import open_block  # slow to import
    from lakebed.clients.diagnostics.fsck import RepositoryCheck

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


def diagnose(
    *,
    config: ServerConfigOption = None,
    database: DatabaseOption = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Zip file to write", show_default="named by time"),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log file of the server", show_default="logging.file"),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every file of every commit, not only a sample")
    ] = False,
) -> None:
    """Collect facts about a server for a bug report, in a zip file of JSON documents.

    Needs the settings of the server, and changes nothing. The bundle contains neither secrets nor
    content of objects, but names of repositories, branches and damaged records: review it before
    sharing. Sections that fail contain the reason.
    """
    from lakebed.base.runtime import ThreadRuntime
    from lakebed.clients.diagnostics.bundle import BundleRequest, make_bundle  # slow to import

    file = output or Path(f"lakebed-diagnose-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.zip")
    if file.exists():
        raise InvalidArguments(f"{file} already exists: pass --output with another name")
    request = BundleRequest(
        settings=lambda: settings_of(config, database),
        open_store=open_to_read,
        environment=os.environ,
        log=log,
        deep=deep,
    )
    bundle = make_bundle(request, ThreadRuntime())
    bundle.write(file)
    for note in bundle.notes:
        typer.echo(printable(bundle.masker.text(note)))
    typer.echo(f"Wrote {file}: review it before sharing")


def _print_report(report: "FsckReport") -> None:
    for damage in report.damages:
        typer.echo(printable(f"{damage.what} {damage.name}: {damage.problem}"))
        for commit in damage.commits:
            typer.echo(printable(f"  commit {commit}"))
        if damage.commits_touched > len(damage.commits):
            typer.echo(f"  and {damage.commits_touched - len(damage.commits):,} more commits")
    if report.unproved:
        typer.echo(f"{report.unproved:,} commits of lakeFS have ids that cannot be verified")
    typer.echo(
        f"{report.commits:,} commits, {report.metaranges:,} metaranges, {report.ranges:,} ranges,"
        f" {report.entries:,} entries read; {len(report.damages):,} damaged"
    )
