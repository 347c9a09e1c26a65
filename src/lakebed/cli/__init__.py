"""The command line."""

from typing import Annotated

import typer

from lakebed import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


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


def main() -> None:
    """Run the command."""
    app()
