"""The `console` blocks of the documents: what is typed in them, and what they show.

A line that begins with ``$ `` is typed, lines that begin with ``> `` go on with it, and the lines
after that are what the command prints; ``...`` stands for any lines. A command without such lines
may print anything. One that fails shows a line that begins with ``lakebed: ``. A comment
``<!-- not run: reason -->`` before a block says why no test runs it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_FENCE: Final = re.compile(r"^( *)(```+)(\w*)")
_MARK: Final = re.compile(r"^<!-- not run: (.*) -->$")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_ID: Final = re.compile(r"\b(?:[0-9a-f]{8,64}|[0-9a-v]{20})\b")
ANYTHING: Final = "..."


@dataclass
class Step:
    """One command."""

    line: int
    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def may_fail(self) -> bool:
        """Whether the page shows that the command fails."""
        return any(line.startswith("lakebed: ") for line in self.shown)


@dataclass
class Block:
    """One block, fenced by backquotes."""

    page: Path
    line: int
    kind: str
    """What stands behind the backquotes."""
    lines: list[str]
    not_run: str | None
    """The reason, if no test runs it."""

    def steps(self) -> list[Step]:
        """Return the commands, in their order."""
        found: list[Step] = []
        typing = False
        for number, line in enumerate(self.lines, self.line + 1):
            if line.startswith("$ "):
                found.append(Step(number, line[2:]))
                typing = True
            elif typing and (line[:2] in {">", "> "} or found[-1].command.endswith("\\")):
                found[-1].command += "\n" + line.removeprefix(">").removeprefix(" ")
            elif found:
                typing = False
                found[-1].shown.append(line)
            else:
                raise AssertionError(f"{self.page.name}:{number}: begin with a command: {line}")
        for step in found:
            while step.shown and not step.shown[-1].strip():
                step.shown.pop()
        return found


def pages() -> list[Path]:
    """Return README and all pages of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """Find all fenced blocks of a page.

    Raises:
        AssertionError: A mark does not stand before a `console` block.
    """
    indent, fence, mark = "", "", None
    inside: Block | None = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if inside is not None:
            if line.strip() == fence:
                yield inside
                inside = None
            else:
                inside.lines.append(line.removeprefix(indent))
        elif found := _FENCE.match(line):
            indent, fence = found[1], found[2]
            inside = Block(page, number, found[3], [], mark)
            assert mark is None or inside.kind == "console", f"{page.name}:{number}: a mark"
            mark = None
        elif line.strip():
            assert mark is None, f"{page.name}:{number}: a mark stands right before its block"
            marked = _MARK.match(line.strip())
            mark = marked[1] if marked else None


class Names:
    """The ids that a page shows, and those that they stand for in this run."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def as_typed(self, command: str) -> str:
        """Return a command with the ids of this run."""
        return _ID.sub(lambda found: self._real.get(found[0], found[0]), command)

    def fits(self, shown: str, printed: str) -> bool:
        """Whether a printed line is the shown one, but for times, and ids that were drawn.

        What an id stands for stays the same throughout the page.
        """
        if _pattern(shown) != _pattern(printed):
            return False
        pairs = zip(_ID.findall(shown), _ID.findall(printed), strict=True)
        return all(self._real.setdefault(ours, theirs) == theirs for ours, theirs in pairs)

    def difference(self, shown: list[str], printed: list[str]) -> str | None:
        """Return what is wrong with the output of a command; None if it is as the page shows."""
        rest = list(printed)
        for at, line in enumerate(shown):
            if line.strip() == ANYTHING:
                after = shown[at + 1] if at + 1 < len(shown) else None
                while rest and (after is None or _pattern(after) != _pattern(rest[0])):
                    rest.pop(0)
            elif not rest or not self.fits(line, rest.pop(0)):
                return f"the page shows {line!r}"
        return f"the page does not show {rest[0]!r}" if rest else None


def _pattern(line: str) -> str:
    """Return a line without what differs from run to run, and without the width of columns."""
    return " ".join(_ID.sub("<id>", _TIME.sub("<time>", line)).split())
