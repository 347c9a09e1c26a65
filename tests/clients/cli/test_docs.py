"""The page of the command line has an example of each group, and the reference all commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from lakebed.clients import cli

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"
REFERENCE = PAGE.parent / "reference" / "commands.md"


def commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that do something, by the words they are called with."""
    for name in group.commands:
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield (*names, name), command


def test_the_page_has_an_example_of_each_group() -> None:
    known = dict(commands(get_command(cli.app)))
    shown = re.findall(r"^\| `(lakebed [^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    found = set()
    for line in shown:
        words = shlex.split(line.partition(">")[0])[1:]
        matching = [names for n in range(1, len(words) + 1) if (names := tuple(words[:n])) in known]
        assert matching, line
        found.add(matching[-1][0])
        # It is an example that the command takes.
        rest = words[len(matching[-1]) :]
        known[matching[-1]].make_context("lakebed", rest, resilient_parsing=False)
    found |= set(re.findall(r"^    lakebed (\w+)", PAGE.read_text(), re.MULTILINE))
    assert found == {names[0] for names in known}


def test_the_reference_has_every_command() -> None:
    headings = re.findall(r"^## lakebed (.+)$", REFERENCE.read_text(), re.MULTILINE)
    assert {tuple(each.split()) for each in headings} == set(dict(commands(get_command(cli.app))))


def test_every_option_that_the_page_names_is_there() -> None:
    known = {
        option
        for _, command in commands(get_command(cli.app))
        for parameter in command.params
        for option in parameter.opts
    }
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", PAGE.read_text()))
    assert named <= known | {"--help"}
