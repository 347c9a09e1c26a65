"""`lakebed fs cp`, `mv` and `stage`: new paths for objects, without a transfer of data.

The server copies; if possible, only the reference: see docs/command-line.md.
"""

from typing import Annotated, Final

import typer

from lakebed.clients.cli.commands.fs.parallel import Parallel, ParallelismOption
from lakebed.clients.cli.commands.fs.progress import TransferReport, progress
from lakebed.clients.cli.commands.fs.upload import ContentTypeOption
from lakebed.clients.cli.errors import Incomplete, InvalidArguments
from lakebed.clients.cli.options import MetaOption, key_values
from lakebed.clients.cli.output import size, warn
from lakebed.clients.cli.session import Session
from lakebed.clients.cli.uris import ObjectArgument, PathUri, parse_object, parse_path
from lakebed.clients.http.paging import list_items
from lakebed.wire.objects import (
    CopyQuery,
    ForcePathQuery,
    ListQuery,
    ObjectCopyCreation,
    ObjectStats,
    PathList,
    PathQuery,
)
from lakebed.wire.staging import ObjectStageCreation

_REMOVED_AT_ONCE: Final = 1000

SourceArgument = Annotated[
    PathUri, typer.Argument(parser=parse_path, metavar="SOURCE", help="lakefs://my-repo/main/a.csv")
]
TargetArgument = Annotated[
    PathUri, typer.Argument(parser=parse_path, metavar="TARGET", help="lakefs://my-repo/dev/b.csv")
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
