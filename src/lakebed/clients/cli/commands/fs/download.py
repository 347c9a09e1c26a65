"""`lakebed fs download`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from lakebed.clients.cli.commands.fs.names import file_for, make_parent
from lakebed.clients.cli.commands.fs.parallel import Parallel, ParallelismOption
from lakebed.clients.cli.commands.fs.parts import (
    PART_BYTES,
    PartSizeOption,
    PreSignOption,
    fetch_in_parts,
    stat_object,
)
from lakebed.clients.cli.commands.fs.progress import Bar, NoProgressOption, TransferReport, progress
from lakebed.clients.cli.commands.fs.transfer import Step, equals_object, fetch_file
from lakebed.clients.cli.errors import CommandError, InvalidArguments
from lakebed.clients.cli.output import size
from lakebed.clients.cli.session import Session
from lakebed.clients.cli.uris import PathArgument, PathUri
from lakebed.clients.http.paging import list_items
from lakebed.wire.objects import ListQuery, ObjectStats


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
