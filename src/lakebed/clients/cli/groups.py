"""Groups of commands: plain help, and commands that are imported when called.

An unknown command may be a plugin: the program `lakebed-foo` on the PATH is `lakebed foo`.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


class CommandGroup(TyperGroup):
    """A group that prints its help when called without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # not while a shell completes
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


def new_app(help_text: str | None = None) -> typer.Typer:
    """Create an app for one command."""
    return typer.Typer(
        help=help_text,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=False,
        pretty_exceptions_enable=False,
        # Rich's help is three times slower.
        rich_markup_mode=None,
    )


def new_group(help_text: str | None = None) -> typer.Typer:
    """Create an app for several commands."""
    app = new_app(help_text)
    app.info.cls = CommandGroup
    # The callback makes it a group even with a single command.
    app.callback()(_nothing)
    return app


def _nothing() -> None:
    pass


class LazyCommands(Mapping[str, Any]):
    """Commands by name, imported on access."""

    def __init__(self, commands: Mapping[str, tuple[str, str]]) -> None:
        """Store targets and help texts by name.

        A target is `module:app` or `module:function`, with a module of
        `lakebed.clients.cli.commands`.
        """
        self._commands = commands

    def __getitem__(self, name: str) -> object:
        target, help_text = self._commands[name]
        module, _, attribute = target.partition(":")
        found = getattr(import_module(f"lakebed.clients.cli.commands.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            function, found = found, new_app()
            found.command(name)(function)
        # Uniform style, wherever a command is defined.
        found.info.cls, found.rich_markup_mode = found.info.cls or CommandGroup, None
        command = get_group(found) if found.registered_callback else get_command(found)
        command.help = command.help or help_text
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)

    def help_lines(self) -> list[tuple[str, str]]:
        return [(name, line) for name, (_, line) in self._commands.items()]


def lazy_group(commands: LazyCommands) -> type[CommandGroup]:
    """Return a class of groups with these commands."""

    class LazyGroup(CommandGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands: Any = commands

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            found = super().get_command(ctx, cmd_name)
            return found if found is not None else _plugin(cmd_name)

        def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 (as Typer calls it)
            return list(commands)

        def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
            with formatter.section("Commands"):
                formatter.write_dl(commands.help_lines())

    return LazyGroup


def _plugin(name: str) -> object:
    """Return a command that runs `lakebed-<name>`, or None if that program does not exist."""
    program = None if "/" in name else shutil.which(f"lakebed-{name}")
    if program is None:
        return None
    app = new_app()

    # The plugin parses all arguments, including --help.
    @app.command(
        name,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    def run(*, arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        words = [program, *(arguments or ())]
        ended = subprocess.run(words, check=False)  # noqa: S603 (chosen by the user)
        # Exit code of a signal: negative here, 128 + number in a shell.
        raise typer.Exit(ended.returncode if ended.returncode >= 0 else 128 - ended.returncode)

    return get_command(app)
