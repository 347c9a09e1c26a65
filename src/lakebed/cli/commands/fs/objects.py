"""`lakebed fs ls`, `cat`, `stat`, `presign` and `rm`: objects where they are."""

import sys
from typing import Annotated, Any

import typer

from lakebed.cli.commands.fs.progress import progress
from lakebed.cli.errors import CommandError, Incomplete
from lakebed.cli.output import Item, moment, printable, size, warn
from lakebed.cli.session import Session
from lakebed.cli.uris import ObjectArgument, PathArgument, PathUri, parse_object
from lakebed.client.http import Client
from lakebed.client.paging import list_items, list_pages


def ls(
    session: Session,
    path: PathArgument,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="What is in the folders, too.")
    ] = False,
) -> None:
    """List objects and folders by prefix.

    lakebed fs ls lakefs://my-repo/main/folder/
    """
    items = list_items(
        session.client,
        *_objects(path),
        "ls",
        query={"prefix": path.path or None, "delimiter": None if recursive else "/"},
    )
    session.output.lines(items, _line)


def _line(item: Item) -> str:
    if item["path_type"] == "common_prefix":
        return f"{'folder':<25}  {'':>10}  {printable(item['path'])}"
    shown = size(item.get("size_bytes"))
    return f"{moment(item['mtime']):<25}  {shown:>10}  {printable(item['path'])}"


def cat(session: Session, path: ObjectArgument) -> None:
    """Write an object to the output, as it is.

    lakebed fs cat lakefs://my-repo/main/a.csv
    """
    with session.client.stream(
        "GET", *_objects(path), query={"path": path.path}, transfer=True
    ) as response:
        for chunk in response.iter_bytes():
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def stat(session: Session, path: ObjectArgument) -> None:
    """Show size, checksum, time and metadata of an object."""
    session.output.record(_stat(session.client, path))


def presign(session: Session, path: ObjectArgument) -> None:
    """Print an address under which anyone can read an object for a while."""
    found = _stat(session.client, path, presign=True)
    address = found["physical_address"]
    if not address.startswith(("http://", "https://")):
        raise CommandError(f"the storage behind {path} has no addresses of this kind")
    session.output.done(address, {"url": address, "expiry": found.get("physical_address_expiry")})


def rm(
    session: Session,
    path: PathArgument,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Remove a folder with all that is in it.")
    ] = False,
) -> None:
    """Remove an object from a branch; commits keep it.

    lakebed fs rm lakefs://my-repo/main/a.csv
    """
    if recursive:
        _remove_folder(session, path)
        return
    parse_object(str(path))
    session.client.call("DELETE", *_branch_objects(path), query={"path": path.path})
    session.output.done(f"Removed {path}")


def _remove_folder(session: Session, folder: PathUri) -> None:
    """Remove page by page, going on past what cannot be removed."""
    removed, failed = 0, []
    listing = ("repositories", folder.repository, "refs", folder.ref, "objects", "ls")
    with progress(session, f"Removing {folder}", unit="objects") as advance:
        for page in list_pages(session.client, *listing, query={"prefix": folder.prefix or None}):
            errors = _remove_page(session, folder, [item["path"] for item in page])
            for error in errors:
                warn(f"not removed: {error.get('path')}: {error.get('message')}")
            failed += errors
            removed += len(page) - len(errors)
            advance(len(page))
    session.output.done(
        f"Removed {removed} object(s) below {folder}", {"removed": removed, "failed": failed}
    )
    if failed:
        raise Incomplete(f"{len(failed)} object(s) below {folder} could not be removed")


def _remove_page(session: Session, folder: PathUri, paths: list[str]) -> list[dict[str, Any]]:
    answer = session.client.call("POST", *_branch_objects(folder), "delete", body={"paths": paths})
    return list((answer or {}).get("errors") or [])


def _branch_objects(path: PathUri) -> tuple[str, ...]:
    return "repositories", path.repository, "branches", path.ref, "objects"


def _stat(client: Client, path: PathUri, *, presign: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = client.get(
        *_objects(path), "stat", query={"path": path.path, "presign": presign or None}
    )
    return found


def _objects(path: PathUri) -> tuple[str, ...]:
    return "repositories", path.repository, "refs", path.ref, "objects"
