"""`lakebed fs ls`, `cat`, `stat`, `presign`, `rm`, `update-metadata`, `cp`, `mv` and `stage`.

The server copies; if possible, only the reference: see docs/command-line.md.
"""

import sys
from itertools import chain, islice
from typing import Annotated, Final

import typer

from lakebed.clients.cli.commands.branch import show_branches
from lakebed.clients.cli.commands.fs.parallel import Parallel, ParallelismOption
from lakebed.clients.cli.commands.fs.parts import PreSignOption, stat_object
from lakebed.clients.cli.commands.fs.progress import TransferReport, progress
from lakebed.clients.cli.commands.fs.transfer import read_request
from lakebed.clients.cli.commands.fs.upload import ContentTypeOption
from lakebed.clients.cli.errors import CommandError, Incomplete, InvalidArguments
from lakebed.clients.cli.options import MetaOption, key_values
from lakebed.clients.cli.output import Column, Size, moment, printable, size, warn
from lakebed.clients.cli.session import PageOptions, Session
from lakebed.clients.cli.uris import (
    PATH,
    LocationArgument,
    ObjectArgument,
    PathArgument,
    PathUri,
    RepositoryUri,
    parse_object,
)
from lakebed.clients.http.errors import Refused
from lakebed.clients.http.http import CONNECTIONS_MAX
from lakebed.clients.http.paging import list_items, list_pages, list_some
from lakebed.wire.objects import (
    CopyQuery,
    ForcePathQuery,
    ListQuery,
    ObjectCopyCreation,
    ObjectError,
    ObjectStats,
    PathList,
    PathQuery,
    UpdateObjectUserMetadata,
)
from lakebed.wire.staging import ObjectStageCreation

_COLUMNS: Final[list[Column[ObjectStats]]] = [
    ("Written", lambda item: moment(item.mtime) if _is_object(item) else ""),
    ("Size", lambda item: Size(item.size_bytes or 0) if _is_object(item) else ""),
    ("Path", lambda item: item.path),
]


def _is_object(item: ObjectStats) -> bool:
    return item.path_type != "common_prefix"


def ls(
    session: Session,
    path: LocationArgument,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Include objects in folders")
    ] = False,
) -> None:
    """List objects and folders by prefix, or the branches of a repository.

    lakebed fs ls lakefs://my-repo/main/folder/
    """
    if not path.ref:
        show_branches(session, RepositoryUri(path.repository), PageOptions())
        return
    query = ListQuery(prefix=path.path, delimiter="" if recursive else "/")
    items = list_items(session.client.objects.list, path.repository, path.ref, query)
    first = list(islice(items, 1))
    if not first and not session.output.as_json:
        warn(f"no objects below {path}")  # exit code 0, as by lakectl
    session.output.lines(chain(first, items), _line, _COLUMNS)


def _line(item: ObjectStats) -> str:
    if not _is_object(item):
        return f"{'folder':<25}  {'':>10}  {printable(item.path)}"
    return f"{moment(item.mtime):<25}  {size(item.size_bytes):>10}  {printable(item.path)}"


def cat(session: Session, path: ObjectArgument, *, pre_sign: PreSignOption = False) -> None:
    """Write an object to stdout, unchanged.

    lakebed fs cat lakefs://my-repo/main/a.csv
    """
    if pre_sign:
        found = stat_object(session.client, path, presign=True)
        answer = session.client.stream_url("GET", found.physical_address)
    else:
        answer = session.client.open(read_request(path))
    with answer as response:
        for chunk in response.iter_bytes():
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def stat(session: Session, path: ObjectArgument, *, pre_sign: PreSignOption = False) -> None:
    """Show size, checksum, time and metadata of an object."""
    session.output.record(stat_object(session.client, path, presign=pre_sign))


def presign(session: Session, path: ObjectArgument) -> None:
    """Print a URL that gives anyone temporary read access to an object."""
    found = stat_object(session.client, path, presign=True)
    address = found.physical_address
    session.output.done(address, {"url": address, "expiry": found.physical_address_expiry})


def update_metadata(
    session: Session,
    path: ObjectArgument,
    *,
    metadata: Annotated[
        list[str],
        typer.Option(metavar="NAME=VALUE", help="Metadata (comma-separated, or repeatable)"),
    ],
) -> None:
    """Replace the metadata of an object on a branch.

    lakebed fs update-metadata lakefs://my-repo/main/a.csv --metadata owner=ada,team=lakes
    """
    values = key_values(pair for pairs in metadata for pair in pairs.split(","))
    query, body = PathQuery(path=path.path), UpdateObjectUserMetadata(set=values)
    session.client.objects.set_metadata(path.repository, path.ref, query, body)
    session.output.done(f"Set {', '.join(values)} of {path}", values)


def rm(
    session: Session,
    path: PathArgument,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Remove all objects below a folder")
    ] = False,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency", "-C", min=1, max=CONNECTIONS_MAX, help="With -r: parallel requests"
        ),
    ] = 1,
) -> None:
    """Remove an object from a branch; commits are unchanged.

    lakebed fs rm lakefs://my-repo/main/a.csv
    """
    if recursive:
        _remove_folder(session, path, concurrency)
        return
    parse_object(str(path))
    _check_object(session, path)
    query = ForcePathQuery(path=path.path)
    session.client.objects.delete(path.repository, path.ref, query)
    session.output.done(f"Removed {path}")


def _check_object(session: Session, path: PathUri) -> None:
    """Refuse to remove a missing object: the server would report success."""

    def first(prefix: str) -> str | None:
        at = (path.repository, path.ref)
        found = list_some(1, session.client.objects.list, *at, ListQuery(prefix=prefix))
        return next((item.path for item in found), None)

    try:
        # A path sorts before all paths that it is a prefix of.
        if first(path.path) == path.path:
            return
        if first(path.prefix) is not None:
            raise CommandError(f"{path} is a folder: pass -r to remove all objects below it")
    except Refused:
        return  # removing does not need the permission to list
    raise CommandError(f"no object {path}: nothing was removed")


def _remove_folder(session: Session, folder: PathUri, concurrency: int) -> None:
    """Remove page by page, continuing after failures."""
    objects, at = session.client.objects, (folder.repository, folder.ref)
    removed, failed = 0, list[ObjectError]()
    pages = list_pages(None, objects.list, *at, ListQuery(prefix=folder.prefix))

    def remove(page: list[ObjectStats]) -> list[ObjectError]:
        paths = PathList(paths=[item.path for item in page])
        return objects.delete_many(*at, paths).errors

    problem = None
    with progress(session, f"Removing {folder}", unit="objects") as advance:
        try:
            for outcome in Parallel(concurrency).run(pages, remove):
                if outcome.error is not None:
                    problem = outcome.error
                    break
                errors = outcome.result or []
                for error in errors:
                    warn(f"could not remove {error.path}: {error.message}")
                failed += errors
                removed += len(outcome.job) - len(errors)
                advance(len(outcome.job))
        except KeyboardInterrupt:
            warn(f"Interrupted; {removed} object(s) below {folder} were removed")
            raise
    if problem is not None:
        raise CommandError(f"{problem}; {removed} object(s) below {folder} were removed before")
    if not removed and not failed:
        raise CommandError(f"no objects below {folder}")
    session.output.done(
        f"Removed {removed} object(s) below {folder}", {"removed": removed, "failed": failed}
    )
    if failed:
        raise Incomplete(f"{len(failed)} object(s) below {folder} could not be removed")


_REMOVED_AT_ONCE: Final = 1000

SourceArgument = Annotated[
    PathUri, typer.Argument(**PATH, metavar="SOURCE", help="lakefs://my-repo/main/a.csv")
]
TargetArgument = Annotated[
    PathUri, typer.Argument(**PATH, metavar="TARGET", help="lakefs://my-repo/dev/b.csv")
]
RecursiveOption = Annotated[
    bool, typer.Option("--recursive", "-r", help="Include all objects below a folder")
]


def cp(
    session: Session,
    source: SourceArgument,
    target: TargetArgument,
    *,
    recursive: RecursiveOption = False,
    parallelism: ParallelismOption = 10,
) -> None:
    """Copy an object or a folder to a branch of the same repository.

    lakebed fs cp lakefs://my-repo/main/a.csv lakefs://my-repo/dev/a.csv
    """
    _check(source, target)
    if recursive:
        report = TransferReport("copied")
        _copy_folder(session, source, target, report, parallelism)
        report.show(session, f"{source} to {target}")
        return
    target = _named(source, target)
    stats = _copy(session, source.path, source, target)
    session.output.done(f"Copied {source} to {target} ({size(stats.size_bytes)})", stats)


def mv(
    session: Session,
    source: SourceArgument,
    target: TargetArgument,
    *,
    recursive: RecursiveOption = False,
    parallelism: ParallelismOption = 10,
) -> None:
    """Move an object or a folder within a branch, or to another branch of the repository.

    lakebed fs mv lakefs://my-repo/main/a.csv lakefs://my-repo/main/b.csv
    """
    _check(source, target)
    # Checked before copying: tags and commits are read-only.
    session.client.branches.get(source.repository, source.ref)
    if recursive:
        _move_folder(session, source, target, parallelism)
        return
    target = _named(source, target)
    stats = _copy(session, source.path, source, target)
    query = ForcePathQuery(path=source.path)
    session.client.objects.delete(source.repository, source.ref, query)
    session.output.done(f"Moved {source} to {target} ({size(stats.size_bytes)})", stats)


def stage(
    session: Session,
    path: ObjectArgument,
    *,
    location: Annotated[
        str, typer.Option(metavar="URL", help="Address, for example s3://bucket/a.csv")
    ],
    size: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Size of the object")],
    checksum: Annotated[str, typer.Option(help="Checksum of the content, for example its MD5")],
    content_type: ContentTypeOption = None,
    mtime: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Modification time, since 1970")
    ] = None,
    meta: MetaOption = None,
) -> None:
    """Register an existing object of the storage (no copy).

    lakebed fs stage lakefs://my-repo/main/a.csv --location s3://b/a.csv --size 9 --checksum 0f
    """
    body = ObjectStageCreation(
        physical_address=location,
        size_bytes=size,
        checksum=checksum,
        metadata=key_values(meta),
        content_type=content_type,
        mtime=mtime,
    )
    query = PathQuery(path=path.path)
    stats = session.client.staging.stage(path.repository, path.ref, query, body)
    session.output.done(f"Staged {location} as {path}", stats)


def _move_folder(session: Session, source: PathUri, target: PathUri, parallelism: int) -> None:
    """Copy all objects, then remove the copied ones."""
    report = TransferReport("moved")
    copied = _copy_folder(session, source, target, report, parallelism)
    failed = 0
    for start in range(0, len(copied), _REMOVED_AT_ONCE):
        body = PathList(paths=copied[start : start + _REMOVED_AT_ONCE])
        delete_many = session.client.objects.delete_many
        for error in delete_many(source.repository, source.ref, body).errors:
            warn(f"copied, but not removed: {error.path}: {error.message}")
            failed += 1
    report.show(session, f"{source} to {target}")
    if failed:
        raise Incomplete(f"{failed} object(s) below {source} were copied, but not removed")


def _copy_folder(
    session: Session, source: PathUri, target: PathUri, report: TransferReport, parallelism: int
) -> list[str]:
    """Copy all objects below a folder; return the copied paths."""
    if (source.repository, source.ref) == (target.repository, target.ref) and (
        target.prefix.startswith(source.prefix)
    ):
        raise InvalidArguments(f"{target} lies inside {source}: choose a folder outside of it")
    query = ListQuery(prefix=source.prefix)
    items = list_items(session.client.objects.list, source.repository, source.ref, query)
    copied = []

    def work(item: ObjectStats) -> int:
        key = target.prefix + item.path.removeprefix(source.prefix)
        there = PathUri(target.repository, target.ref, key)
        return _copy(session, item.path, source, there).size_bytes or 0

    with (
        progress(session, f"Copying {source}", unit="objects") as advance,
        report.reporting_interrupt(),
    ):
        for outcome in Parallel(parallelism).run(items, work):
            report.add(outcome.job.path, outcome.result, outcome.error)
            advance(1)
            if outcome.error is None:
                copied.append(outcome.job.path)
    return copied


def _copy(session: Session, path: str, source: PathUri, target: PathUri) -> ObjectStats:
    query = CopyQuery(dest_path=target.path)
    body = ObjectCopyCreation(src_path=path, src_ref=source.ref)
    return session.client.objects.copy(target.repository, target.ref, query, body)


def _check(source: PathUri, target: PathUri) -> None:
    """Check that source and target are different paths of one repository."""
    if source.repository != target.repository:
        raise InvalidArguments(
            f"{source} and {target} are in different repositories: download and upload instead"
        )
    if source == target:
        raise InvalidArguments(f"source and target are both {source}: choose another target")


def _named(source: PathUri, target: PathUri) -> PathUri:
    """Return the target of an object; in a folder, it keeps its name."""
    parse_object(str(source))
    if not source.name:
        raise InvalidArguments(f"{source} is a folder: pass -r to include all objects below it")
    if not target.name:
        target = PathUri(target.repository, target.ref, f"{target.path}{source.name}")
    _check(source, target)
    return target
