"""Commits as a drawing: with letters, or for Graphviz."""

from collections.abc import Callable, Iterable, Iterator

from lakebed.clients.cli.output import CommitId, printable
from lakebed.wire.refs import Commit


def dot_lines(commits: Iterable[Commit]) -> Iterator[str]:
    """A graph in the language of Graphviz, an arrow from each commit to its parents."""
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
    """A line for each commit behind a drawing of the lines that lead to it.

    Each lane holds the id of the commit that it leads to.
    """
    lanes: list[str] = []
    for commit in commits:
        if commit.id not in lanes:
            lanes.append(commit.id)
        lane = lanes.index(commit.id)
        while commit.id in lanes[lane + 1 :]:
            other = lanes.index(commit.id, lane + 1)
            yield _joining(len(lanes), lane, other)
            del lanes[other]
        marks = ("*" if each == lane else "|" for each in range(len(lanes)))
        yield f"{' '.join(marks)} {text(commit)}"
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
    """A lane ends in another on its left; those behind it move over."""
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
    """A lane begins on the right of another; those behind it move over."""
    line = list(" " * (2 * count + 1))
    for each in range(count):
        if each <= lane:
            line[2 * each] = "|"
        if each >= lane:
            line[2 * each + 1] = "\\"
    return "".join(line).rstrip()


def _ending(count: int, lane: int) -> str:
    """A lane has come to its first commit; those behind it move over."""
    line = list(" " * (2 * count))
    for each in range(count):
        if each < lane:
            line[2 * each] = "|"
        elif each > lane:
            line[2 * each - 1] = "/"
    return "".join(line).rstrip()
