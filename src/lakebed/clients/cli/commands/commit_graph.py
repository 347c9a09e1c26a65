"""Drawings of commits: with characters, or for Graphviz."""

from collections.abc import Callable, Iterable, Iterator

from lakebed.clients.cli.output import CommitId, printable
from lakebed.wire.refs import Commit


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
