"""Writes what commands print now into `console` blocks: ``python -m tests.docs.rewrite PAGE…``.

Look at the difference before you commit it. Commands without output stay so, and so does output
that has ``...`` in it; a line ``?`` below a command is replaced by what the command prints.
"""

import sys
import tempfile
from pathlib import Path

import pytest

from tests.docs.console import ANYTHING, blocks
from tests.docs.shell import Quickstart, Shell, run_quickstart


def rewrite(server: Quickstart, folder: Path, page: Path) -> None:
    """Run the blocks of a page, and put into it what they print."""
    with pytest.MonkeyPatch.context() as patch:
        shell = Shell(server, folder, patch)
        lines = page.read_text().split("\n")
        printed: list[tuple[int, int, list[str]]] = []
        for block in blocks(page):
            if block.kind != "console" or block.not_run:
                continue
            for step in block.steps():
                try:
                    shell.check(step)
                except AssertionError as error:
                    print(f"{page.name}:{step.line}: {error}")  # noqa: T201 (a command line)
                    if step.shown and ANYTHING not in step.shown:
                        start = step.line + step.command.count("\n")
                        printed.append((start, len(step.shown), shell.last))
        for start, length, output in reversed(printed):
            lines[start : start + length] = output
        page.write_text("\n".join(lines))
        shell.clean_up()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with run_quickstart(root) as quickstart:
            for number, given in enumerate(sys.argv[1:]):
                (root / str(number)).mkdir()
                rewrite(quickstart, root / str(number), Path(given).absolute())
