"""Looking at objects: `ls`, `cat`, `stat`, `presign`."""

import sys
from typing import Annotated, Any

import typer

from lakebed.cli.output import Item, moment, printable, size
from lakebed.cli.session import Session
from lakebed.cli.uris import ObjectArgument, PathArgument, PathUri
from lakebed.client.errors import CommandError
from lakebed.client.http import Client
from lakebed.client.paging import list_items


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


def _stat(client: Client, path: PathUri, *, presign: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = client.get(
        *_objects(path), "stat", query={"path": path.path, "presign": presign or None}
    )
    return found


def _objects(path: PathUri) -> tuple[str, ...]:
    return "repositories", path.repository, "refs", path.ref, "objects"
