"""Groups of commands: plain help, quick to show, and commands that load when they are called.

What `lakebed` does not know may be a plugin: a program `lakebed-foo` on the PATH is `lakebed foo`.
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
    """A group that explains itself when it is called without a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # a shell that completes needs no help
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


def new_app(help_text: str | None = None) -> typer.Typer:
    """An app for one command."""
    return typer.Typer(
        help=help_text,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=False,
        pretty_exceptions_enable=False,
        # Rich's help takes three times as long to show.
        rich_markup_mode=None,
    )


def new_group(help_text: str | None = None) -> typer.Typer:
    """An app for several commands."""
    app = new_app(help_text)
    app.info.cls = CommandGroup
    # With a callback it is a group even if there is but one command in it.
    app.callback()(_nothing)
    return app


def _nothing() -> None:
    pass


class LazyCommands(Mapping[str, Any]):
    """Commands by name, each imported when somebody takes it out."""

    def __init__(self, commands: Mapping[str, tuple[str, str]]) -> None:
        """Take commands by name, each with a line of help.

        A command is `module:app` or `module:function`; the module is in
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
        # They look the same, wherever they were made.
        found.info.cls, found.rich_markup_mode = found.info.cls or CommandGroup, None
        command = get_group(found) if found.registered_callback else get_command(found)
        command.help = command.help or help_text
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)

    def help_lines(self) -> list[tuple[str, str]]:
        """Each name and what the command does."""
        return [(name, line) for name, (_, line) in self._commands.items()]


def lazy_group(commands: LazyCommands) -> type[CommandGroup]:
    """A kind of group that has these commands."""

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
    """Return a command that runs the program `lakebed-<name>`; None if there is no such program."""
    program = None if "/" in name else shutil.which(f"lakebed-{name}")
    if program is None:
        return None
    app = new_app()

    # It reads all its arguments by itself, help included.
    @app.command(
        name,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    def run(*, arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        words = [program, *(arguments or ())]
        ended = subprocess.run(words, check=False)  # noqa: S603 (who called it chose it)
        # The number of a signal is negative; shells add it to 128.
        raise typer.Exit(ended.returncode if ended.returncode >= 0 else 128 - ended.returncode)

    return get_command(app)
