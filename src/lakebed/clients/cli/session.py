"""Sessions of client commands: a client of the server and a printer.

A command is a function with a `Session` as first parameter, registered with `client_command`,
which adds the options of `CommonOptions`, also accepted before the command's name.
"""

import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Annotated, Any, Final, ParamSpec

import typer

from lakebed.clients.cli.errors import CommandError
from lakebed.clients.cli.options import CommonOptions, common_parameters
from lakebed.clients.cli.output import Column, ItemT, Output, switch_off_colours
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_some, query_of
from lakebed.clients.http.settings import ClientSettings, load_settings
from lakebed.clients.http.traffic import LOGGER as TRAFFIC
from lakebed.wire.base import Page, PageQuery
from lakebed.wire.calls import BoundCall

_LOGGER: Final = logging.getLogger("lakebed")
_NONE: Final = logging.CRITICAL + 1


@contextmanager
def shown_logs(level: str | None, *, traffic: bool) -> Iterator[None]:
    """Show log lines from `level` on, and requests and responses with `traffic`.

    Without a level, Python's default shows warnings.
    """
    if level is None and not traffic:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Format("%(levelname)s: %(message)s"))
    before = _LOGGER.level, _LOGGER.propagate
    wanted = logging.WARNING if level is None else _number(level)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(wanted)
    _LOGGER.propagate = False
    before_traffic = TRAFFIC.level
    TRAFFIC.setLevel(logging.DEBUG if traffic else before_traffic)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(before[0])
        _LOGGER.propagate = before[1]
        TRAFFIC.setLevel(before_traffic)


def _number(level: str) -> int:
    return _NONE if level == "none" else logging.getLevelNamesMapping()[level.upper()]


class _Format(logging.Formatter):
    """Formatter that leaves traffic lines without a prefix."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if record.name == TRAFFIC.name else super().format(record)


P = ParamSpec("P")

_Command = Callable[..., None]


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation, unless in a script; raise if the user declines."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm(question, err=True):
        raise CommandError("cancelled: nothing was changed")


class Session:
    """One run of a client command."""

    def __init__(self, options: CommonOptions) -> None:
        self.options = options
        self.output = Output(as_json=options.as_json)

    @cached_property
    def settings(self) -> ClientSettings:
        return load_settings(
            environ=os.environ, config_file=self.options.config, endpoint=self.options.endpoint
        )

    @cached_property
    def client(self) -> Client:
        return Client(self.settings)

    def anonymous_client(self, endpoint: str) -> Client:
        """Return a client without credentials; it is closed with the session."""
        self.__dict__["client"] = Client(ClientSettings(endpoint, "", ""))
        return self.client

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask for confirmation, unless in a script; raises like `confirm`."""
        confirm(question, yes=yes or self.options.as_json)

    def show_list(
        self,
        page: "PageOptions",
        columns: Sequence[Column[ItemT]],
        call: BoundCall[P, Page[ItemT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Print a section of a listing; `args` may end with a query, which gets the section."""
        path = [each for each in args if not isinstance(each, PageQuery)]
        [query] = [each for each in args if isinstance(each, PageQuery)] or [query_of(call)]
        query.after, query.prefix = page.after, page.prefix or ""
        list_any: Any = list_some
        self.output.table(list_any(page.amount, call, *path, query, **kwargs), columns)

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Options for the section of a listing; a command with such a parameter has all three."""

    amount: int | None = None
    after: str = ""
    prefix: str | None = None


_PAGE_PARAMETERS: Final = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
    for name, kind, default in (
        (
            "amount",
            Annotated[int | None, typer.Option("--amount", min=1, help="Maximum number of items")],
            None,
        ),
        (
            "after",
            Annotated[str, typer.Option("--after", metavar="NAME", help="Start after this item")],
            "",
        ),
        (
            "prefix",
            Annotated[
                str | None,
                typer.Option("--prefix", metavar="TEXT", help="Only items with this prefix"),
            ],
            None,
        ),
    )
]


def client_command(app: typer.Typer, name: str) -> Callable[[_Command], _Command]:
    """Register a function as a command with a session."""

    def register(function: _Command) -> _Command:
        app.command(name)(_with_session(function))
        return function

    return register


def _with_session(function: _Command) -> _Command:
    """Replace the session parameter of a function by the common options."""
    common = common_parameters()
    own = list(inspect.signature(function).parameters.values())[1:]
    has_page = any(parameter.annotation is PageOptions for parameter in own)

    @wraps(function)
    def run(*, context: typer.Context, **arguments: Any) -> None:
        options = CommonOptions(**{each.name: arguments.pop(each.name) for each in common})
        if isinstance(context.obj, CommonOptions):
            options = options.over(context.obj)
        if has_page:
            page = {each.name: arguments.pop(each.name) for each in _PAGE_PARAMETERS}
            arguments["page"] = PageOptions(**page)
        if options.no_color:
            switch_off_colours()
        with (
            shown_logs(options.log_level, traffic=options.verbose),
            closing(Session(options)) as session,
        ):
            function(session, **arguments)

    # Typer derives the options from the signature.
    parameters = [
        *(
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in own
            if parameter.annotation is not PageOptions
        ),
        *(_PAGE_PARAMETERS if has_page else ()),
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *common,
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
