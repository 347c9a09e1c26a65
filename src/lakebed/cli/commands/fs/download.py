"""`lakebed fs download`."""

from pathlib import Path
from typing import Annotated

import typer

from lakebed.cli.commands.fs.names import file_for, make_parent
from lakebed.cli.commands.fs.parallel import Parallel, ParallelismOption
from lakebed.cli.commands.fs.progress import Report, progress
from lakebed.cli.commands.fs.transfer import fetch_file
from lakebed.cli.errors import CommandError, Misuse
from lakebed.cli.output import size
from lakebed.cli.session import Session
from lakebed.cli.uris import PathArgument, PathUri
from lakebed.client.paging import list_items


def download(
    session: Session,
    source: PathArgument,
    target: Annotated[
        Path, typer.Argument(metavar="[TARGET]", help="A file or a folder.")
    ] = Path(),
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Download all objects below a folder.")
    ] = False,
    parallelism: ParallelismOption = 10,
) -> None:
    """Download an object or a folder.

    lakebed fs download lakefs://my-repo/main/a.csv a.csv
    """
    if recursive:
        _download_folder(session, source, target, parallelism)
    elif not source.name:
        raise Misuse(f"{source} is a folder: pass -r to download what is in it")
    else:
        _download_file(session, source, target)


def _download_file(session: Session, source: PathUri, target: Path) -> None:
    if target.is_dir():
        target = file_for(source.name, prefix="", folder=target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with progress(session, source.name) as step:
        count = fetch_file(session.client, source, target, step=step)
    session.output.done(
        f"Downloaded {source} to {target} ({size(count)})",
        {"path": source.path, "file": str(target), "size_bytes": count},
    )


def _download_folder(session: Session, source: PathUri, target: Path, parallelism: int) -> None:
    report, parallel = Report("downloaded"), Parallel(parallelism)
    listing = ("repositories", source.repository, "refs", source.ref, "objects", "ls")
    with progress(session, f"Downloading {source}") as advance:

        def step(count: int) -> None:
            parallel.check()
            advance(count)

        def fetch(key: str) -> int:
            file = file_for(key, prefix=source.prefix, folder=target)
            make_parent(file, folder=target, key=key)
            uri = PathUri(source.repository, source.ref, key)
            return fetch_file(session.client, uri, file, step=step)

        items = list_items(session.client, *listing, query={"prefix": source.prefix or None})
        for outcome in parallel.run((str(item["path"]) for item in items), fetch):
            report.add(outcome.job, outcome.result, outcome.error)
    if report.is_empty:
        raise CommandError(f"there is nothing below {source}")
    report.show(session, f"{source} to {target}")
