"""`lakebed fs rm`."""

from typing import Annotated, Any

import typer

from lakebed.cli.commands.fs.progress import progress
from lakebed.cli.output import warn
from lakebed.cli.session import Session
from lakebed.cli.uris import PathArgument, PathUri, parse_object
from lakebed.client.errors import Incomplete
from lakebed.client.paging import list_pages


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
