"""The page of the command line names every command, and no other."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from lakebed.clients import cli

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"


def commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that do something, by the words they are called with."""
    for name in group.commands:
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield (*names, name), command


def test_the_page_has_one_row_for_every_command_at_least() -> None:
    known = dict(commands(get_command(cli.app)))
    shown = re.findall(r"^\| `(lakebed [^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    found = set()
    for line in shown:
        words = shlex.split(line.partition(">")[0])[1:]
        matching = [names for n in range(1, len(words) + 1) if (names := tuple(words[:n])) in known]
        assert matching, line
        found.add(matching[-1])
        # It is an example that the command takes.
        rest = words[len(matching[-1]) :]
        known[matching[-1]].make_context("lakebed", rest, resilient_parsing=False)
    assert found == set(known)


def test_every_option_that_the_page_names_is_there() -> None:
    known = {
        option
        for _, command in commands(get_command(cli.app))
        for parameter in command.params
        for option in parameter.opts
    }
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", PAGE.read_text()))
    assert named <= known | {"--help"}
