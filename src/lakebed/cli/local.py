"""What the commands share that work on a server's own machine, with its settings."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from lakebed.errors import LakebedError

EXIT_REFUSED: Final = 2

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="A YAML file of settings.", show_default=False),
]


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error of ours into its message and an exit code."""
    try:
        yield
    except LakebedError as error:
        for line in str(error).splitlines():
            typer.secho(f"lakebed: {line}", err=True, fg=typer.colors.RED)
        raise typer.Exit(EXIT_REFUSED) from None


def given(**flags: object) -> dict[str, object]:
    """Return the flags that were used, by the dotted keys of settings."""
    return {key.replace("__", "."): value for key, value in flags.items() if value is not None}


def environment() -> dict[str, str]:
    """Return the environment; only the command line reads it."""
    return dict(os.environ)
