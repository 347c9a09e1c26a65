"""The command line."""

from typing import Annotated

import typer

from lakebed import __version__
from lakebed.cli import cleaner, config, server

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in colour takes three times as long to come
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lakebed {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def lakebed(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Git-like version control for data lakes."""


app.command()(server.quickstart)
app.command()(server.run)
app.add_typer(config.app, name="config")
app.add_typer(cleaner.app, name="cleaner")


def main() -> None:
    """Run the command."""
    app()
