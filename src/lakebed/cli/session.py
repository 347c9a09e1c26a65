"""What every client command gets: a client of the server, and a place to print.

A command is a function that takes a `Session` first, registered with `client_command`. That gives
it `--json`, `--endpoint` and `--config`, which may also come before the command's name.
"""

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import closing
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

import typer

from lakebed.cli.errors import CommandError
from lakebed.cli.options import ClientConfigOption, CommonOptions, EndpointOption, JsonOption
from lakebed.cli.output import Output
from lakebed.client.http import Client
from lakebed.client.settings import ClientSettings, load_settings


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone; a script is not asked.

    Raises:
        CommandError: The user does not want to.
    """
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was changed")


class Session:
    """One run of a client command."""

    def __init__(self, options: CommonOptions) -> None:
        self.options = options
        self.output = Output(as_json=options.as_json)

    @cached_property
    def settings(self) -> ClientSettings:
        """The settings of the client.

        Raises:
            SettingsError: They are missing or wrong.
        """
        return load_settings(
            environ=os.environ, config_file=self.options.config, endpoint=self.options.endpoint
        )

    @cached_property
    def client(self) -> Client:
        """A client of the server that the settings name.

        Raises:
            SettingsError: The settings are missing or wrong.
        """
        return Client(self.settings)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something that cannot be undone; a script is not asked.

        Raises:
            CommandError: The user does not want to.
        """
        confirm(question, yes=yes or self.options.as_json)

    def close(self) -> None:
        """Close what was opened."""
        if "client" in self.__dict__:
            self.client.close()


def client_command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Any]:
    """Register a function as a command that has a session."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name)(_with_session(function))
        return function

    return register


def _with_session(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that takes the common options instead of a session."""

    @wraps(function)
    def run(
        *,
        context: typer.Context,
        endpoint: str | None,
        config: Path | None,
        as_json: bool,
        **arguments: Any,
    ) -> None:
        options = CommonOptions(endpoint, config, as_json)
        if isinstance(context.obj, CommonOptions):
            options = options.over(context.obj)
        with closing(Session(options)) as session:
            function(session, **arguments)

    own = list(inspect.signature(function).parameters.values())[1:]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, kind, default in (
            ("context", typer.Context, inspect.Parameter.empty),
            ("as_json", JsonOption, False),
            ("endpoint", EndpointOption, None),
            ("config", ClientConfigOption, None),
        )
    ]
    # Typer reads what a command takes from its signature.
    parameters = [
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        *common,
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
