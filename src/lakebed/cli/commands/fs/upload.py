"""`lakebed fs upload`."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lakebed.cli.commands.fs.names import LocalFile, files_below
from lakebed.cli.commands.fs.parallel import Parallel, ParallelismOption
from lakebed.cli.commands.fs.progress import Report, progress
from lakebed.cli.commands.fs.transfer import send_file
from lakebed.cli.errors import Misuse
from lakebed.cli.output import size
from lakebed.cli.session import Session
from lakebed.cli.uris import PathArgument, PathUri

ContentTypeOption = Annotated[
    str | None, typer.Option(metavar="TYPE", help="For example text/csv.")
]


def upload(
    session: Session,
    target: PathArgument,
    *,
    source: Annotated[
        Path, typer.Option("--source", "-s", metavar="FILE", help="What to upload; - is the input.")
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Upload all files below a folder.")
    ] = False,
    content_type: ContentTypeOption = None,
    parallelism: ParallelismOption = 10,
) -> None:
    """Upload a file or a folder to a branch.

    lakebed fs upload -s a.csv lakefs://my-repo/main/a.csv
    """
    if recursive:
        _upload_folder(session, source, target, content_type, parallelism)
    elif str(source) == "-":
        _upload_input(session, target, content_type)
    elif source.is_dir():
        raise Misuse(f"{source} is a folder: pass -r to upload what is in it")
    else:
        _upload_file(session, source, target, content_type)


def _upload_file(session: Session, source: Path, target: PathUri, content_type: str | None) -> None:
    if not target.name:
        target = PathUri(target.repository, target.ref, f"{target.path}{source.name}")
    with (
        source.open("rb") as file,
        progress(session, source.name, total=source.stat().st_size) as step,
    ):
        stats = send_file(session.client, target, file, step=step, content_type=content_type)
    _report_one(session, str(source), target, stats)


def _upload_input(session: Session, target: PathUri, content_type: str | None) -> None:
    """Upload the input through a temporary file: the server needs to know its size first."""
    if not target.name:
        raise Misuse(f"{target} is a folder: add the name of the object")
    with tempfile.TemporaryFile() as file, progress(session, "input") as step:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.seek(0)
        stats = send_file(session.client, target, file, step=step, content_type=content_type)
    _report_one(session, "the input", target, stats)


def _report_one(session: Session, source: str, target: PathUri, stats: dict[str, Any]) -> None:
    session.output.done(f"Uploaded {source} to {target} ({size(stats.get('size_bytes'))})", stats)


def _upload_folder(
    session: Session, source: Path, target: PathUri, content_type: str | None, parallelism: int
) -> None:
    if not source.is_dir():
        raise Misuse(f"{source} is not a folder: leave -r out to upload a file")
    report, parallel = Report("uploaded"), Parallel(parallelism)
    with progress(session, f"Uploading {source}") as advance:

        def step(count: int) -> None:
            parallel.check()
            advance(count)

        def send(local: LocalFile) -> int:
            key = f"{target.prefix}{local.name}"
            with local.path.open("rb") as file:
                stats = send_file(
                    session.client,
                    PathUri(target.repository, target.ref, key),
                    file,
                    step=step,
                    content_type=content_type,
                )
            return int(stats["size_bytes"])

        for outcome in parallel.run(_possible(source, report), send):
            report.add(str(outcome.job.path), outcome.result, outcome.error)
    report.show(session, f"{source} to {target}")


def _possible(source: Path, report: Report) -> Iterator[LocalFile]:
    """The files that can be uploaded; the others go into the report."""
    for local in files_below(source):
        if local.problem is None:
            yield local
        else:
            report.add(str(local.path), None, local.problem)
