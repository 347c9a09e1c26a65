"""`lakebed diff`, `merge` and `merge-base`: compare and merge refs."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final, Literal

import typer

from lakebed.clients.cli.errors import InvalidArguments
from lakebed.clients.cli.groups import new_app
from lakebed.clients.cli.options import AllowEmptyOption, MetaOption, SkipHooksOption, key_values
from lakebed.clients.cli.output import Column, Size, coloured, printable, warn
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import REF, RefArgument, RefUri, same_repository
from lakebed.clients.http.errors import Refused
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items, list_some
from lakebed.wire.base import KeysQuery, SkipQuery
from lakebed.wire.refs import Diff, DiffRefsQuery, Merge

diff_app = new_app()
merge_app = new_app()
merge_base_app = new_app()

_CONFLICT: Final = 409
_CONFLICTS_SHOWN_MAX: Final = 1000
_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~", "conflict": "*"}
_DIFFERENCE_COLUMNS: Final[list[Column[Diff]]] = [
    ("Change", lambda item: item.type),
    ("Path", lambda item: item.path),
]
_COLOURS: Final = {"added": "32", "removed": "31", "changed": "33", "conflict": "1;31"}


@client_command(diff_app, "diff")
def diff(
    session: Session,
    ref: RefArgument,
    other: Annotated[
        RefUri | None, typer.Argument(**REF, metavar="[REF]", help="Ref to compare with")
    ] = None,
    *,
    two_way: Annotated[
        bool, typer.Option("--two-way", help="Compare the two refs directly")
    ] = False,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only paths with this prefix")
    ] = None,
    stat: Annotated[
        bool, typer.Option("--stat", help="Show the number and current size of changed objects")
    ] = False,
) -> None:
    """Show the uncommitted changes of a branch, or the changes of [REF] since the merge base.

    lakebed diff lakefs://my-repo/main lakefs://my-repo/dev
    """
    if other is not None:
        repository = same_repository(ref, other)
        found = _compare(
            session.client, repository, ref.ref, other.ref, two_way=two_way, prefix=prefix
        )
    elif two_way:
        raise InvalidArguments("--two-way compares two refs: add the second one")
    else:
        found = _uncommitted(session.client, ref, prefix=prefix)
    if stat:
        _show_counts(session, found)
    else:
        session.output.lines(found, _difference_line, _DIFFERENCE_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Count:
    """Number and current size of the objects with one kind of change."""

    type: str
    objects: int
    size_bytes: int


def _show_counts(session: Session, differences: Iterable[Diff]) -> None:
    """Print a line for each kind of change."""
    objects, sizes = Counter[str](), Counter[str]()
    for item in differences:
        objects[item.type] += 1
        sizes[item.type] += item.size_bytes or 0
    session.output.table(
        [_Count(kind, objects[kind], sizes[kind]) for kind in _SIGNS if objects[kind]],
        [
            ("Change", lambda item: item.type),
            ("Objects", lambda item: item.objects),
            ("Size", lambda item: Size(item.size_bytes)),
        ],
    )


@client_command(merge_app, "merge")
def merge(
    session: Session,
    source: Annotated[
        RefUri,
        typer.Argument(**REF, metavar="REF", help="Branch, tag or commit to merge"),
    ],
    destination: Annotated[
        RefUri,
        typer.Argument(**REF, metavar="BRANCH", help="Branch that gets the changes"),
    ],
    *,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Message of the merge commit")
    ] = None,
    meta: MetaOption = None,
    strategy: Annotated[
        Literal["source-wins", "dest-wins"] | None, typer.Option(help="Side that wins conflicts")
    ] = None,
    squash: Annotated[
        bool, typer.Option("--squash", help="Create a commit without the source as a parent")
    ] = False,
    allow_empty: AllowEmptyOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Merge even if the repository is read-only")
    ] = False,
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Merge a ref into a branch.

    lakebed merge lakefs://my-repo/dev lakefs://my-repo/main
    """
    repository = same_repository(source, destination)
    body = Merge(
        message=message or "",
        metadata=key_values(meta),
        strategy=strategy or "",
        squash_merge=squash,
        allow_empty=allow_empty,
        force=force,
    )
    query = SkipQuery(skip_hooks=skip_hooks)
    _warn_uncommitted(session, source)
    try:
        merged = session.client.refs.merge(repository, source.ref, destination.ref, query, body)
    except Refused as error:
        if error.status == _CONFLICT:
            _show_conflicts(session, source, destination)
        raise
    session.output.done(f"Merged {source} into {destination}: {merged.reference}", merged)


def _warn_uncommitted(session: Session, source: RefUri) -> None:
    """Warn about uncommitted changes of the source, which a merge leaves out."""
    try:
        [*first] = _uncommitted(session.client, source, limit=1)
    except Refused:
        return  # not a branch, or not allowed to list
    if first:
        warn(f"{source} has uncommitted changes, which are not merged: commit them first")


def _show_conflicts(session: Session, source: RefUri, destination: RefUri) -> None:
    """List the conflicting objects, if any."""
    changes = _compare(session.client, source.repository, destination.ref, source.ref)
    conflicts = (change for change in changes if change.type == "conflict")
    found = list(islice(conflicts, _CONFLICTS_SHOWN_MAX))
    if found and session.output.as_json:
        session.output.record({"conflicts": [change.path for change in found]})
    for change in found:
        warn(f"conflict: {change.path}")


@client_command(merge_base_app, "merge-base")
def merge_base(
    session: Session,
    ref: RefArgument,
    other: Annotated[RefUri, typer.Argument(**REF, metavar="REF", help="The other ref")],
) -> None:
    """Find the merge base of two refs.

    lakebed merge-base lakefs://my-repo/dev lakefs://my-repo/main
    """
    repository = same_repository(ref, other)
    session.output.record(session.client.refs.merge_base(repository, ref.ref, other.ref))


def _uncommitted(
    client: Client, branch: RefUri, *, prefix: str | None = None, limit: int | None = None
) -> Iterator[Diff]:
    query = KeysQuery(prefix=prefix or "")
    return list_some(limit, client.branches.diff, branch.repository, branch.ref, query)


def _compare(
    client: Client,
    repository: str,
    left: str,
    right: str,
    *,
    two_way: bool = False,
    prefix: str | None = None,
) -> Iterator[Diff]:
    """Return the changes in `right` since the merge base; two-way, compared with `left`."""
    query = DiffRefsQuery(type="two_dot" if two_way else "three_dot", prefix=prefix or "")
    return list_items(client.refs.diff, repository, left, right, query)


def _difference_line(item: Diff) -> str:
    """Format a difference: a coloured sign, the kind and the path."""
    kind = item.type
    text = f"{_SIGNS.get(kind, '?')} {kind:<8}  {printable(item.path)}"
    return coloured(text, _COLOURS[kind]) if kind in _COLOURS else text
