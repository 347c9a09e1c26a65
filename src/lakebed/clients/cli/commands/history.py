"""`lakebed log` and `annotate`: history of commits and of objects."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import typer

from lakebed.clients.cli.errors import InvalidArguments
from lakebed.clients.cli.groups import new_app
from lakebed.clients.cli.output import Column, CommitId, moment, printable
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import PathArgument, PathUri, RefArgument
from lakebed.clients.http.paging import list_items, list_some
from lakebed.wire.objects import ListQuery
from lakebed.wire.refs import Commit, LogCommitsQuery

FirstParentOption = Annotated[
    bool, typer.Option("--first-parent", help="Follow only the first parents of merges")
]

log_app = new_app()
annotate_app = new_app()

_COLUMNS: Final[list[Column[Commit]]] = [
    ("Commit", lambda commit: CommitId(commit.id)),
    ("Date", lambda commit: moment(commit.creation_date)),
    ("Committer", lambda commit: commit.committer),
    ("Message", lambda commit: commit.message),
]


@client_command(log_app, "log")
def log(
    session: Session,
    ref: RefArgument,
    *,
    amount: Annotated[int | None, typer.Option(min=1, help="Maximum number of commits")] = None,
    limit: Annotated[
        bool, typer.Option("--limit", help="With --amount: do not check for further commits")
    ] = False,
    after: Annotated[str, typer.Option(metavar="COMMIT", help="Start after this commit")] = "",
    stop_at: Annotated[str | None, typer.Option(metavar="REF", help="Last commit to show")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only later commits: 2026-01-31 or 2026-01-31T12:00:00Z"),
    ] = None,
    first_parent: FirstParentOption = False,
    no_merges: Annotated[bool, typer.Option("--no-merges", help="Omit merges")] = False,
    objects: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Only commits that changed this path")
    ] = None,
    prefixes: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Only commits with changes below this prefix"),
    ] = None,
    oneline: Annotated[bool, typer.Option("--oneline", help="One line for each commit")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the history as a graph")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print a graph for Graphviz")] = False,
) -> None:
    """Show the history of a ref, newest commit first.

    lakebed log lakefs://my-repo/main
    """
    if graph and (no_merges or objects or prefixes):
        raise InvalidArguments(
            "--graph needs all commits: omit --no-merges, --objects and --prefixes"
        )
    if limit and amount is None:
        raise InvalidArguments("--limit needs a number of commits: add --amount")
    first_time = _parse_time(since)
    query = LogCommitsQuery(
        after=after,
        since=first_time,
        first_parent=first_parent,
        objects=objects or [],
        prefixes=prefixes or [],
        stop_at=stop_at or "",
        limit_only=limit,
    )
    at_most = None if no_merges else amount
    commits = list_some(at_most, session.client.refs.log, ref.repository, ref.ref, query)
    if no_merges:
        commits = _without_merges(commits, amount)
    if session.output.as_json or not (graph or dot):
        columns = [_COLUMNS[0], _COLUMNS[-1]] if oneline else _COLUMNS
        session.output.lines(commits, one_line if oneline else commit_text, columns)
        return
    for line in dot_lines(commits) if dot else graph_lines(commits, one_line):
        print(line)


def _without_merges(commits: Iterable[Commit], amount: int | None) -> Iterator[Commit]:
    for commit in commits:
        if len(commit.parents) > 1:
            continue
        yield commit
        if amount is not None and (amount := amount - 1) == 0:
            return


def _parse_time(text: str | None) -> datetime | None:
    """Parse a time, in local time unless it has a zone."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidArguments(
            f"{text!r} is not a time: expected for example 2026-01-31T12:00:00Z"
        ) from None


def _first_line(message: str) -> str:
    return printable(message.partition("\n")[0])


def one_line(commit: Commit) -> str:
    """Format a commit in one line."""
    return f"{printable(CommitId(commit.id).short)} {_first_line(commit.message)}".rstrip()


def commit_text(commit: Commit) -> str:
    """Format a commit in several lines, followed by an empty line."""
    lines = [
        f"ID:        {printable(commit.id)}",
        f"Author:    {printable(commit.committer)}",
        f"Date:      {moment(commit.creation_date)}",
    ]
    if commit.refused:
        lines.append(f"Refused:   by {printable(commit.refused)}; not on any branch")
    if len(commit.parents) > 1:
        lines.append(f"Merge:     {' '.join(printable(parent) for parent in commit.parents)}")
    lines += ["", *(f"    {printable(line)}" for line in commit.message.splitlines())]
    metadata = commit.metadata
    lines += [f"        {printable(name)} = {printable(metadata[name])}" for name in metadata]
    return "\n".join([*lines, ""])


@client_command(annotate_app, "annotate")
def annotate(
    session: Session,
    path: PathArgument,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Include objects in folders")
    ] = False,
    first_parent: FirstParentOption = False,
) -> None:
    """List objects and folders with the last commit that changed each.

    lakebed annotate lakefs://my-repo/main/folder/
    """
    session.output.table(
        _annotated(session, path, recursive=recursive, first_parent=first_parent),
        [
            ("Path", lambda item: item.path),
            *((title, _of_commit(value)) for title, value in _COLUMNS[:-1]),
            ("Message", _of_commit(lambda commit: _first_line(commit.message))),
        ],
    )


@dataclass(frozen=True, slots=True)
class _Annotated:
    """An object or folder with the last commit that changed it, or None if uncommitted."""

    path: str
    commit: Commit | None


def _of_commit(value: Callable[[Commit], object]) -> Callable[[_Annotated], object]:
    """Return the function for a column of the commit, empty if uncommitted."""
    return lambda item: value(item.commit) if item.commit else ""


def _annotated(
    session: Session, path: PathUri, *, recursive: bool, first_parent: bool
) -> Iterator[_Annotated]:
    client, at_ref = session.client, (path.repository, path.ref)
    listing = ListQuery(prefix=path.path, delimiter="" if recursive else "/")
    for item in list_items(client.objects.list, *at_ref, listing):
        query = LogCommitsQuery(first_parent=first_parent, limit_only=True)
        (query.objects if item.path_type == "object" else query.prefixes).append(item.path)
        [*found] = list_some(1, client.refs.log, *at_ref, query)
        yield _Annotated(item.path, found[0] if found else None)


def dot_lines(commits: Iterable[Commit]) -> Iterator[str]:
    """Yield a graph in Graphviz's language, with arrows from commits to their parents."""
    yield "digraph commits {"
    yield "  node [shape=box]"
    for commit in commits:
        message = commit.message.partition("\n")[0]
        label = f"{CommitId(commit.id).short}\\n{_quoted(message)}"
        yield f'  "{_quoted(commit.id)}" [label="{label}"]'
        for parent in commit.parents:
            yield f'  "{_quoted(commit.id)}" -> "{_quoted(parent)}"'
    yield "}"


def _quoted(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def graph_lines(commits: Iterable[Commit], text: Callable[[Commit], str]) -> Iterator[str]:
    """Yield a line for each commit, behind a drawing of the lanes that lead to it."""
    lanes: list[str] = []  # the commit id that each lane leads to
    for commit in commits:
        if commit.id not in lanes:
            lanes.append(commit.id)
        lane = lanes.index(commit.id)
        while commit.id in lanes[lane + 1 :]:
            other = lanes.index(commit.id, lane + 1)
            yield _joining(len(lanes), lane, other)
            del lanes[other]
        symbols = ("*" if each == lane else "|" for each in range(len(lanes)))
        yield f"{' '.join(symbols)} {text(commit)}"
        first, *others = commit.parents or [""]
        for parent in reversed(others):
            yield _parting(len(lanes), lane)
            lanes.insert(lane + 1, parent)
        if first:
            lanes[lane] = first
            continue
        if lane + 1 < len(lanes):
            yield _ending(len(lanes), lane)
        del lanes[lane]


def _joining(count: int, lane: int, other: int) -> str:
    """Draw the end of a lane in another on its left; lanes on the right move over."""
    line = list(" " * (2 * count))
    for each in range(count):
        if each < other:
            line[2 * each] = "|"
        else:
            line[2 * each - 1] = "/"
    for each in range(lane, other - 1):
        line[2 * each + 1] = "_"
    return "".join(line).rstrip()


def _parting(count: int, lane: int) -> str:
    """Draw the start of a lane on the right of another; lanes on the right move over."""
    line = list(" " * (2 * count + 1))
    for each in range(count):
        if each <= lane:
            line[2 * each] = "|"
        if each >= lane:
            line[2 * each + 1] = "\\"
    return "".join(line).rstrip()


def _ending(count: int, lane: int) -> str:
    """Draw the end of a lane at its first commit; lanes on the right move over."""
    line = list(" " * (2 * count))
    for each in range(count):
        if each < lane:
            line[2 * each] = "|"
        elif each > lane:
            line[2 * each - 1] = "/"
    return "".join(line).rstrip()
