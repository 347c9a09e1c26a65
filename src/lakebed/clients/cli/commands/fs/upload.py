"""`lakebed fs upload` and `lakebed fs download`."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from lakebed.clients.cli.commands.fs.names import FoundFile, file_for, files_below, make_parent
from lakebed.clients.cli.commands.fs.parallel import Parallel, ParallelismOption
from lakebed.clients.cli.commands.fs.parts import (
    PART_BYTES,
    PartSizeOption,
    PreSignOption,
    fetch_in_parts,
    stat_object,
)
from lakebed.clients.cli.commands.fs.progress import Bar, NoProgressOption, TransferReport, progress
from lakebed.clients.cli.commands.fs.transfer import Step, equals_object, fetch_file, send_file
from lakebed.clients.cli.errors import CommandError, InvalidArguments
from lakebed.clients.cli.output import size
from lakebed.clients.cli.session import Session
from lakebed.clients.cli.uris import PathArgument, PathUri
from lakebed.clients.http.errors import Refused
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items, list_some
from lakebed.wire.objects import ListQuery, ObjectStats

ContentTypeOption = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Content type, for example text/csv")
]


def upload(
    session: Session,
    target: PathArgument,
    *,
    source: Annotated[
        Path, typer.Option("--source", "-s", metavar="FILE", help="File to upload; - is stdin")
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Upload all files below a directory")
    ] = False,
    content_type: ContentTypeOption = None,
    parallelism: ParallelismOption = 10,
    pre_sign: PreSignOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Upload a file or a directory to a branch. Equal files of a directory are skipped.

    lakebed fs upload -s a.csv lakefs://my-repo/main/a.csv
    """
    if recursive and not source.is_dir():
        raise InvalidArguments(f"{source} is not a folder: omit -r to upload a file")
    if not recursive and source.is_dir():
        raise InvalidArguments(f"{source} is a folder: pass -r to upload all files below it")
    report = TransferReport("uploaded", goes_on=True)
    title = f"Uploading {source}" if recursive else source.name
    with progress(session, title, hidden=no_progress) as bar, report.reporting_interrupt():
        sender = _Sender(session, target, content_type, pre_sign=pre_sign)
        if recursive:
            _upload_folder(sender, source, report, bar, parallelism)
        elif str(source) == "-":
            _upload_input(sender, bar)
        else:
            _upload_file(sender, source, bar)
    if recursive:
        report.show(session, f"{source} to {target}")


class _Sender:
    """Uploader to one target."""

    def __init__(
        self, session: Session, target: PathUri, content_type: str | None, *, pre_sign: bool
    ) -> None:
        self.session = session
        self.target = target
        self._content_type = content_type
        self._pre_sign = pre_sign

    def named(self, name: str) -> PathUri:
        """Return the URI of an object below the target."""
        return PathUri(self.target.repository, self.target.ref, f"{self.target.prefix}{name}")

    def send(self, uri: PathUri, file: BinaryIO, step: Step) -> ObjectStats:
        """Upload an open file."""
        return send_file(
            self.session.client,
            uri,
            file,
            step=step,
            content_type=self._content_type,
            pre_sign=self._pre_sign,
        )


def _upload_file(sender: _Sender, source: Path, bar: Bar) -> None:
    target = sender.target if sender.target.name else sender.named(source.name)
    with source.open("rb") as file:
        bar.expect([source.stat().st_size])
        stats = sender.send(target, file, bar)
    _report_one(sender.session, str(source), target, stats)


def _upload_input(sender: _Sender, bar: Bar) -> None:
    """Upload stdin through a temporary file: the server needs the size first."""
    if not sender.target.name:
        raise InvalidArguments(f"{sender.target} is a folder: append the name of the object")
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        bar.expect([file.tell()])
        file.seek(0)
        stats = sender.send(sender.target, file, bar)
    _report_one(sender.session, "the input", sender.target, stats)


def _report_one(session: Session, source: str, target: PathUri, stats: ObjectStats) -> None:
    session.output.done(f"Uploaded {source} to {target} ({size(stats.size_bytes)})", stats)


def _upload_folder(
    sender: _Sender, source: Path, report: TransferReport, bar: Bar, parallelism: int
) -> None:
    parallel, is_new = Parallel(parallelism), _is_empty(sender)

    def step(count: int) -> None:
        parallel.check()
        bar(count)

    def send(local: FoundFile) -> int | None:
        uri = sender.named(local.name)
        if not is_new and _has(sender.session.client, uri, local.path):
            step(local.path.stat().st_size)
            return None
        with local.path.open("rb") as file:
            return sender.send(uri, file, step).size_bytes or 0

    possible = (local for local in files_below(source) if local.problem is None)
    bar.expect(local.path.stat().st_size for local in possible)
    for outcome in parallel.run(_possible(source, report), send):
        report.add(str(outcome.job.path), outcome.result, outcome.error)
        bar.end_file()


def _is_empty(sender: _Sender) -> bool:
    """Whether the target has no objects, so that comparisons can be skipped."""
    target = sender.target
    query, objects = ListQuery(prefix=target.prefix), sender.session.client.objects
    try:
        return not list(list_some(1, objects.list, target.repository, target.ref, query))
    except Refused:
        return True  # writing does not need the permission to list


def _has(client: Client, uri: PathUri, file: Path) -> bool:
    try:
        return equals_object(file, stat_object(client, uri))
    except Refused:
        return False  # missing, or not allowed to read


def _possible(source: Path, report: TransferReport) -> Iterator[FoundFile]:
    """Yield the files that can be uploaded; report the others."""
    for local in files_below(source):
        if local.problem is None:
            yield local
        else:
            report.add(str(local.path), None, local.problem)


def download(
    session: Session,
    source: PathArgument,
    target: Annotated[Path, typer.Argument(metavar="[TARGET]", help="File or directory")] = Path(),
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Download all objects below a folder")
    ] = False,
    parallelism: ParallelismOption = 10,
    part_size: PartSizeOption = PART_BYTES,
    pre_sign: PreSignOption = False,
    no_progress: NoProgressOption = False,
) -> None:
    """Download an object or a folder. Equal files are skipped.

    lakebed fs download lakefs://my-repo/main/a.csv a.csv
    """
    if not recursive and not source.name:
        raise InvalidArguments(f"{source} is a folder: pass -r to download all objects below it")
    report = TransferReport("downloaded", goes_on=True)
    # Parallel parts of one object, or parallel objects.
    fetcher = _Fetcher(session, part_size, 1 if recursive else parallelism, pre_sign=pre_sign)
    title = f"Downloading {source}" if recursive else source.name
    with progress(session, title, hidden=no_progress) as bar, report.reporting_interrupt():
        if not recursive:
            _download_file(fetcher, source, target, bar)
            return
        _download_folder(fetcher, source, target, report, bar, parallelism)
    if report.is_empty:
        raise CommandError(f"no objects below {source}")
    report.show(session, f"{source} to {target}")


class _Fetcher:
    """Downloader of objects, whole or in parts."""

    def __init__(
        self, session: Session, part_size: int, parallelism: int, *, pre_sign: bool
    ) -> None:
        self.session = session
        self._part_size = part_size
        self._parallelism = parallelism
        self._pre_sign = pre_sign

    def fetch(self, uri: PathUri, file: Path, found: ObjectStats, step: Step) -> int | None:
        """Download an object; return its size, or None if the file is already equal."""
        if equals_object(file, found):
            step(found.size_bytes or 0)
            return None
        client = self.session.client
        if not self._pre_sign and (found.size_bytes or 0) <= self._part_size:
            return fetch_file(client, uri, file, step=step)
        return fetch_in_parts(
            client,
            uri,
            file,
            found,
            step=step,
            part_size=self._part_size,
            parallelism=self._parallelism,
            pre_sign=self._pre_sign,
        )


def _download_file(fetcher: _Fetcher, source: PathUri, target: Path, bar: Bar) -> None:
    session = fetcher.session
    if target.is_dir():
        target = file_for(source.name, prefix="", folder=target)
    found = stat_object(session.client, source)
    bar.expect([found.size_bytes or 0])
    target.parent.mkdir(parents=True, exist_ok=True)
    count = fetcher.fetch(source, target, found, bar)
    bar.end_file()
    what = {"path": source.path, "file": str(target)}
    if count is None:
        session.output.done(
            f"{target} already has the content of {source}", what | {"skipped": True}
        )
    else:
        session.output.done(
            f"Downloaded {source} to {target} ({size(count)})", what | {"size_bytes": count}
        )


def _download_folder(
    fetcher: _Fetcher,
    source: PathUri,
    target: Path,
    report: TransferReport,
    bar: Bar,
    parallelism: int,
) -> None:
    parallel, client = Parallel(parallelism), fetcher.session.client
    query = ListQuery(prefix=source.prefix, user_metadata=False)

    def listed() -> Iterator[ObjectStats]:
        return list_items(client.objects.list, source.repository, source.ref, query)

    def step(count: int) -> None:
        parallel.check()
        bar(count)

    def fetch(item: ObjectStats) -> int | None:
        file = file_for(item.path, prefix=source.prefix, folder=target)
        make_parent(file, folder=target, key=item.path)
        uri = PathUri(source.repository, source.ref, item.path)
        return fetcher.fetch(uri, file, item, step)

    bar.expect(item.size_bytes or 0 for item in listed())
    for outcome in parallel.run(listed(), fetch):
        report.add(outcome.job.path, outcome.result, outcome.error)
        bar.end_file()
