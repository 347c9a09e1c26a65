"""`lakebed fs ls`, `cat`, `stat`, `presign`, `rm` and `update-metadata`: objects where they are."""

import sys
from typing import Annotated, Any, Final

import typer

from lakebed.cli.commands.branch import show_branches
from lakebed.cli.commands.fs.parallel import Parallel
from lakebed.cli.commands.fs.parts import PreSignOption, stat_object
from lakebed.cli.commands.fs.progress import progress
from lakebed.cli.errors import CommandError, Incomplete
from lakebed.cli.options import key_values
from lakebed.cli.output import Column, Item, Size, moment, printable, size, warn
from lakebed.cli.session import Page, Session
from lakebed.cli.uris import (
    ObjectArgument,
    PathArgument,
    PathUri,
    PlaceArgument,
    RepositoryUri,
    parse_object,
)
from lakebed.client.errors import Refused
from lakebed.client.http import CONNECTIONS_MAX
from lakebed.client.paging import list_items, list_pages

_COLUMNS: Final[list[Column]] = [
    ("Written", lambda item: moment(item["mtime"]) if _is_object(item) else "folder"),
    ("Size", lambda item: Size(item["size_bytes"]) if _is_object(item) else ""),
    ("Path", lambda item: item["path"]),
]


def _is_object(item: Item) -> bool:
    return bool(item["path_type"] != "common_prefix")


def ls(
    session: Session,
    path: PlaceArgument,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="What is in the folders, too.")
    ] = False,
) -> None:
    """List objects and folders by prefix; of a repository, its branches.

    lakebed fs ls lakefs://my-repo/main/folder/
    """
    if not path.ref:
        show_branches(session, RepositoryUri(path.repository), Page())
        return
    items = list_items(
        session.client,
        *_objects(path),
        "ls",
        query={"prefix": path.path or None, "delimiter": None if recursive else "/"},
    )
    session.output.lines(items, _line, _COLUMNS)


def _line(item: Item) -> str:
    if not _is_object(item):
        return f"{'folder':<25}  {'':>10}  {printable(item['path'])}"
    shown = size(item.get("size_bytes"))
    return f"{moment(item['mtime']):<25}  {shown:>10}  {printable(item['path'])}"


def cat(session: Session, path: ObjectArgument, *, pre_sign: PreSignOption = False) -> None:
    """Write an object to the output, as it is.

    lakebed fs cat lakefs://my-repo/main/a.csv
    """
    if pre_sign:
        found = stat_object(session.client, path, presign=True)
        answer = session.client.stream_url("GET", found["physical_address"])
    else:
        answer = session.client.stream(
            "GET", *_objects(path), query={"path": path.path}, transfer=True
        )
    with answer as response:
        for chunk in response.iter_bytes():
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def stat(session: Session, path: ObjectArgument, *, pre_sign: PreSignOption = False) -> None:
    """Show size, checksum, time and metadata of an object."""
    session.output.record(stat_object(session.client, path, presign=pre_sign))


def presign(session: Session, path: ObjectArgument) -> None:
    """Print an address under which anyone can read an object for a while."""
    found = stat_object(session.client, path, presign=True)
    address = found["physical_address"]
    session.output.done(address, {"url": address, "expiry": found.get("physical_address_expiry")})


def update_metadata(
    session: Session,
    path: ObjectArgument,
    *,
    metadata: Annotated[
        list[str],
        typer.Option(metavar="NAME=VALUE", help="What to set; several with commas, or repeated."),
    ],
) -> None:
    """Replace the metadata of an object on a branch.

    lakebed fs update-metadata lakefs://my-repo/main/a.csv --metadata owner=ada,team=lakes
    """
    values = key_values(pair for pairs in metadata for pair in pairs.split(","))
    session.client.call(
        "PUT",
        *_branch_objects(path),
        "stat",
        "user_metadata",
        query={"path": path.path},
        body={"set": values},
    )
    session.output.done(f"Set {', '.join(values)} of {path}", values)


def rm(
    session: Session,
    path: PathArgument,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Remove a folder with all that is in it.")
    ] = False,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency", "-C", min=1, max=CONNECTIONS_MAX, help="With -r: requests at a time."
        ),
    ] = 1,
) -> None:
    """Remove an object from a branch; commits keep it.

    lakebed fs rm lakefs://my-repo/main/a.csv
    """
    if recursive:
        _remove_folder(session, path, concurrency)
        return
    parse_object(str(path))
    _check_object(session, path)
    session.client.call("DELETE", *_branch_objects(path), query={"path": path.path})
    session.output.done(f"Removed {path}")


def _check_object(session: Session, path: PathUri) -> None:
    """Refuse to remove what is not there: the server would say that it is gone.

    Raises:
        CommandError: There is no such object.
    """

    def first(prefix: str) -> str | None:
        found = list_items(session.client, *_objects(path), "ls", query={"prefix": prefix}, limit=1)
        return next((item["path"] for item in found), None)

    try:
        # A path comes before all that begin with it.
        if first(path.path) == path.path:
            return
        if first(path.prefix) is not None:
            raise CommandError(f"{path} is a folder: pass -r to remove all that is in it")
    except Refused:
        return  # whoever may remove need not be allowed to list
    raise CommandError(f"there is no object {path}: nothing was removed")


def _remove_folder(session: Session, folder: PathUri, concurrency: int) -> None:
    """Remove page by page, going on past what cannot be removed."""
    removed, failed = 0, []
    pages = list_pages(
        session.client, *_objects(folder), "ls", query={"prefix": folder.prefix or None}
    )

    def remove(page: list[dict[str, Any]]) -> list[dict[str, Any]]:
        paths = [item["path"] for item in page]
        answer = session.client.call(
            "POST", *_branch_objects(folder), "delete", body={"paths": paths}
        )
        return list((answer or {}).get("errors") or [])

    problem = None
    with progress(session, f"Removing {folder}", unit="objects") as advance:
        try:
            for outcome in Parallel(concurrency).run(pages, remove):
                if outcome.error is not None:
                    problem = outcome.error
                    break
                errors = outcome.result or []
                for error in errors:
                    warn(f"not removed: {error.get('path')}: {error.get('message')}")
                failed += errors
                removed += len(outcome.job) - len(errors)
                advance(len(outcome.job))
        except KeyboardInterrupt:
            warn(f"{removed} object(s) below {folder} were removed before the end")
            raise
    if problem is not None:
        raise CommandError(f"{problem}; {removed} object(s) below {folder} were removed before")
    if not removed and not failed:
        raise CommandError(f"there is nothing below {folder}")
    session.output.done(
        f"Removed {removed} object(s) below {folder}", {"removed": removed, "failed": failed}
    )
    if failed:
        raise Incomplete(f"{len(failed)} object(s) below {folder} could not be removed")


def _branch_objects(path: PathUri) -> tuple[str, ...]:
    return "repositories", path.repository, "branches", path.ref, "objects"


def _objects(path: PathUri) -> tuple[str, ...]:
    return "repositories", path.repository, "refs", path.ref, "objects"
