"""Shell completion: commands and options by Typer, URIs by the server."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, suppress
from itertools import chain
from pathlib import Path
from threading import Timer
from typing import Any, Final, NoReturn

import typer
from typer._completion_classes import completion_init
from typer.main import get_command

from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_some
from lakebed.clients.http.settings import load_settings
from lakebed.wire.base import PageQuery
from lakebed.wire.objects import ListQuery
from lakebed.wire.refs import BranchesQuery
from lakebed.wire.repositories import RepositoriesQuery

_SECONDS: Final = 2.0
_AMOUNT: Final = 100
_PLAIN: Final = re.compile(r"[\w@%+=:,./~^-]+")
"""A URI without characters that a shell would interpret."""


def complete(app: typer.Typer) -> NoReturn:
    """Print the completions of a line for a shell, which waits and shows stderr in the line.

    Prints none after a few seconds, or after an error.
    """
    end = Timer(_SECONDS, os._exit, (0,))  # also while a name is resolved
    end.daemon = True
    end.start()
    completion_init()
    with Path(os.devnull).open("w") as nothing, redirect_stderr(nothing), suppress(Exception):
        try:
            get_command(app).main([], prog_name="lakebed", standalone_mode=False)
        finally:
            end.cancel()
    sys.exit(1)


def uris(context: typer.Context, start: str, depth: int) -> list[str]:
    """Return the URIs that begin with `start`; depth: of a repository 0, a ref 1, an object 2."""
    scheme, _, rest = start.partition("://")
    given: dict[str, Any] = {}
    each: Any = context
    while each is not None:
        given = {name: value for name, value in each.params.items() if value} | given
        each = each.parent
    endpoint, config = given.get("endpoint"), given.get("config")
    settings = load_settings(environ=os.environ, config_file=config, endpoint=endpoint)
    with closing(Client(settings)) as client:
        found = (f"{scheme}://{each}" for each in _found(client, rest.split("/", 2), depth))
        return [each for each in found if _PLAIN.fullmatch(each)]


def _found(client: Client, parts: list[str], depth: int) -> Iterator[str]:
    *above, start = parts
    end = "/" if len(above) < depth else ""
    if len(above) > depth:
        return
    if not above:
        repositories = RepositoriesQuery(prefix=start)
        for each in list_some(_AMOUNT, client.repositories.list, repositories):
            yield each.id + end
    elif len(above) == 1:
        [name] = above
        branches, tags = BranchesQuery(prefix=start), PageQuery(prefix=start)
        yield from (
            f"{name}/{ref.id}{end}"
            for ref in chain(
                list_some(_AMOUNT, client.branches.list, name, branches),
                list_some(_AMOUNT, client.tags.list, name, tags),
            )
        )
    else:
        listed = ListQuery(prefix=start, delimiter="/", user_metadata=False)
        for item in list_some(_AMOUNT, client.objects.list, above[0], above[1], listed):
            yield "/".join([*above, item.path])
