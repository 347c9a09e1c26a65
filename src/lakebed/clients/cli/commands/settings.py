"""`lakebed config` and `lakebed setup`: the client's settings, and the first administrator."""

import os
import sys
import tempfile
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lakebed.clients.cli.commands.server import check
from lakebed.clients.cli.errors import InvalidArguments
from lakebed.clients.cli.groups import new_app
from lakebed.clients.cli.options import ClientConfigOption, EndpointOption
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.http.settings import load_endpoint, normal_endpoint, read_file, usual_file
from lakebed.wire.config import Setup

config_app = new_app("Save the client's settings; check the settings of a server.")
config_app.info.cls = TyperGroup  # also works without a subcommand
config_app.command("check")(check)
setup_app = new_app()


@config_app.callback(invoke_without_command=True)
def write_config(
    *,
    context: typer.Context,
    endpoint: EndpointOption = None,
    config: ClientConfigOption = None,
    access_key_id: Annotated[str | None, typer.Option(metavar="KEY", help="Access key id")] = None,
) -> None:
    """Save the server's address and your keys to ~/.lakectl.yaml, or to the file of --config.

    Missing values are asked for. The secret is read from the terminal or from stdin, to keep it out
    of the process list and the shell's history. Other settings in the file are preserved.
    """
    if context.invoked_subcommand is not None:
        return
    file = config or usual_file(os.environ)
    if file is None:
        raise InvalidArguments("HOME is not set: pass a file as --config")
    content: dict[str, Any] = dict(read_file(file)) if file.exists() else {}
    server, keys = dict(content.get("server") or {}), dict(content.get("credentials") or {})
    endpoint = _given(endpoint, "Server endpoint URL", server.get("endpoint_url"))
    server["endpoint_url"] = normal_endpoint(endpoint)
    keys["access_key_id"] = _given(access_key_id, "Access key id", keys.get("access_key_id"))
    keys["secret_access_key"] = _secret(keys.get("secret_access_key"))
    _write(file, content | {"server": server, "credentials": keys})
    typer.echo(f"Wrote {file}")


def _given(value: str | None, title: str, before: str | None) -> str:
    if value is None and sys.stdin.isatty():
        value = typer.prompt(title, default=before, err=True)
    value = value or before
    if not value:
        raise InvalidArguments(
            f"{title} is missing: pass it as an option, or enter it on a terminal"
        )
    return value


def _secret(before: str | None) -> str:
    """Read the secret; an empty input keeps the current one."""
    hint = " (empty: keep)" if before else ""
    asked = sys.stdin.isatty()
    secret = getpass(f"Secret access key{hint}: ") if asked else sys.stdin.readline()
    secret = secret.strip() or before or ""
    if not secret:
        raise InvalidArguments("the secret access key is missing: enter it, or send it to stdin")
    return secret


def _write(file: Path, content: dict[str, Any]) -> None:
    """Replace the file by one readable only by its owner."""
    import yaml  # slow to import, needed only here

    handle, draft = tempfile.mkstemp(dir=file.absolute().parent, prefix=".lakectl-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            yaml.safe_dump(content, out, sort_keys=False, allow_unicode=True)
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


@client_command(setup_app, "setup")
def setup(
    session: Session,
    *,
    user_name: Annotated[str, typer.Option(metavar="NAME", help="Name of the user")] = "admin",
) -> None:
    """Create the first administrator of a new server, with an access key. Its secret is shown once.

    lakebed setup --endpoint http://127.0.0.1:8000
    """
    client = session.anonymous_client(
        load_endpoint(
            environ=os.environ,
            config_file=session.options.config,
            endpoint=session.options.endpoint,
        )
    )
    session.output.record(client.setup.create(Setup(username=user_name)))
